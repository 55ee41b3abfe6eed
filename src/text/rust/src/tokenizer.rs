//! A Hugging Face tokenizer with the table of what its tokens stand for.

use ahash::AHashSet;
use serde_json::Value;
use tokenizers::{
    Encoding, Model, NormalizerWrapper, OffsetType, PreTokenizedString, PreTokenizer, Result, Token,
};

use crate::model::HfTokenizer;
use crate::pieces::{Pieces, Spelling, Strip};

pub struct Tokenizer {
    pub hf: HfTokenizer,
    pub pieces: Pieces,
    pub special: Vec<u8>,
    pub strip: Strip,
    pub prefix: Vec<i32>,
    pub suffix: Vec<i32>,
    unk: Option<u32>,
    names: SpecialNames,
}

impl Tokenizer {
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let mut hf = serde_json::from_slice::<HfTokenizer>(json)?;
        hf.with_truncation(None)?;
        hf.with_padding(None);
        let (prefix, suffix) = affixes(&hf)?;
        let spelling = spelling_of(&hf)?;
        let pieces = pieces_of(&hf, &spelling)?;
        Ok(Self::new(hf, pieces, spelling.strip, prefix, suffix))
    }

    pub fn new(
        hf: HfTokenizer,
        pieces: Pieces,
        strip: Strip,
        prefix: Vec<i32>,
        suffix: Vec<i32>,
    ) -> Self {
        let mut special = vec![0; pieces.len()];
        let mut names = SpecialNames::default();
        for (id, token) in hf.get_added_vocabulary().get_added_tokens_decoder() {
            if token.special {
                if let Some(flag) = special.get_mut(*id as usize) {
                    *flag = 1;
                }
                names.insert(&token.content);
            }
        }
        let mut tokenizer = Tokenizer {
            hf,
            pieces,
            special,
            strip,
            prefix,
            suffix,
            unk: None,
            names,
        };
        tokenizer.unk = tokenizer.find_unk();
        tokenizer
    }

    /// As the Hugging Face tokenizer: special spellings give special tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let model = self.hf.get_model();
        self.run(text, None, |piece| model.tokenize(piece))
    }

    /// The text as text: no special token comes of it.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        let mark = unused_mark(text).ok_or("the text holds every noncharacter")?;
        self.encode_marked(&self.mark(text, mark)?, mark)
    }

    /// Puts `mark` behind the first character of every special spelling, and of
    /// an end of the text that what follows it could make one.
    pub fn mark(&self, text: &str, mark: char) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            out.push(c);
            let rest = &text[at..];
            match self.names.at_start_of(rest) {
                Some(name) if name.len() == c.len_utf8() => return Err(not_text(name)),
                Some(_) => out.push(mark),
                None if self.names.begin_with(rest) => out.push(mark),
                None => {}
            }
        }
        Ok(out)
    }

    /// Encodes text with marks: a marked spelling is text, others are special.
    pub fn encode_marked(&self, text: &str, mark: char) -> Result<Vec<u32>> {
        self.run(text, Some(mark), |piece| self.tokenize_apart(piece))
    }

    fn run<F>(&self, text: &str, mark: Option<char>, tokenize: F) -> Result<Vec<u32>>
    where
        F: Fn(&str) -> Result<Vec<Token>>,
    {
        let added = self.hf.get_added_vocabulary();
        let normalizer: Option<&NormalizerWrapper> = self.hf.get_normalizer();
        let mut words: PreTokenizedString = added.extract_and_normalize(normalizer, text);
        if let Some(mark) = mark {
            words.normalize(|piece| {
                piece.filter(|c| c != mark);
                Ok(())
            })?;
        }
        if let Some(pre_tokenizer) = self.hf.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        words.tokenize(|piece| tokenize(piece.get()))?;
        let encoding: Encoding = words.into_encoding(None, 0, OffsetType::None)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The model's tokens of a piece; where the model itself spells a special
    /// token, the piece is cut behind that token's first character.
    fn tokenize_apart(&self, piece: &str) -> Result<Vec<Token>> {
        let mut done = Vec::new();
        let mut pending = vec![piece];
        while let Some(part) = pending.pop() {
            let tokens = self.hf.get_model().tokenize(part)?;
            let Some(token) = tokens.iter().find(|t| self.is_control(t.id)) else {
                done.extend(tokens);
                continue;
            };
            let (start, end) = token.offsets;
            let cut = start + first_char_len(&part[start..]);
            if cut >= end {
                return Err(not_text(&token.value));
            }
            pending.push(&part[cut..]);
            pending.push(&part[..cut]);
        }
        Ok(done)
    }

    fn is_control(&self, id: u32) -> bool {
        self.special.get(id as usize) == Some(&1) && Some(id) != self.unk
    }

    /// The token that the model gives for a character outside its vocabulary.
    fn find_unk(&self) -> Option<u32> {
        match self.hf.get_model().tokenize("\u{10FFFD}").ok()?.as_slice() {
            [token] => Some(token.id),
            _ => None,
        }
    }
}

/// The spellings of special tokens.
#[derive(Default)]
struct SpecialNames {
    names: AHashSet<String>,
    /// Their lengths in bytes, ascending.
    lengths: Vec<usize>,
    first_bytes: AHashSet<u8>,
}

impl SpecialNames {
    fn insert(&mut self, name: &str) {
        if let Err(at) = self.lengths.binary_search(&name.len()) {
            self.lengths.insert(at, name.len());
        }
        self.first_bytes.extend(name.bytes().next());
        self.names.insert(name.to_owned());
    }

    /// The shortest of them that starts the text.
    fn at_start_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        if !self.first_bytes.contains(&text.bytes().next()?) {
            return None;
        }
        self.lengths
            .iter()
            .filter_map(|&length| text.get(..length))
            .find(|head| self.names.contains(*head))
    }

    /// Whether one of them goes on after the text. Those that begin with a
    /// letter do not count: a role or a key may end like that.
    fn begin_with(&self, text: &str) -> bool {
        self.lengths.last() > Some(&text.len())
            && text.starts_with(|c: char| c.is_ascii_punctuation())
            && self.names.iter().any(|name| name.starts_with(text))
    }
}

fn first_char_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn not_text(token: &str) -> tokenizers::Error {
    format!("'{token}' is a special token and cannot be written as text").into()
}

/// A noncharacter that is not in the text.
fn unused_mark(text: &str) -> Option<char> {
    ('\u{FDD0}'..='\u{FDEF}').find(|&mark| !text.contains(mark))
}

/// The ids that the post-processor puts around a text.
fn affixes(hf: &HfTokenizer) -> Result<(Vec<i32>, Vec<i32>)> {
    const TEXT: u32 = u32::MAX;
    let token = Token::new(TEXT, String::new(), (0, 0));
    let encoding = Encoding::from_tokens(vec![token], 0);
    let whole = hf.post_process(encoding, None, true)?;
    let ids = whole.get_ids();
    let at = ids
        .iter()
        .position(|&id| id == TEXT)
        .ok_or("post_processor drops the text")?;
    let signed = |ids: &[u32]| ids.iter().map(|&id| id as i32).collect();
    Ok((signed(&ids[..at]), signed(&ids[at + 1..])))
}

fn spelling_of(hf: &HfTokenizer) -> Result<Spelling> {
    let decoder = serde_json::to_value(hf.get_decoder())?;
    let normalizer = serde_json::to_string(&hf.get_normalizer())?;
    let pre_tokenizer = serde_json::to_value(hf.get_pre_tokenizer())?;
    let prefix_each = normalizer.contains(r#""type":"Prepend""#) || prepends_always(&pre_tokenizer);
    Ok(Spelling::from_decoder(&decoder, prefix_each))
}

fn prepends_always(pre_tokenizer: &Value) -> bool {
    let parts = pre_tokenizer["pretokenizers"].as_array();
    pre_tokenizer["prepend_scheme"] == "always"
        || parts.is_some_and(|parts| parts.iter().any(prepends_always))
}

/// Ids may have holes; a hole stands for no bytes.
fn pieces_of(hf: &HfTokenizer, spelling: &Spelling) -> Result<Pieces> {
    let vocabulary = hf.get_vocab(true);
    let count = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    if count > 2 * vocabulary.len() + 4096 {
        return Err(format!("token id {} is out of range", count - 1).into());
    }
    let mut names = vec![""; count];
    for (name, id) in &vocabulary {
        names[*id as usize] = name;
    }
    let added = hf.get_added_vocabulary().get_added_tokens_decoder();
    let mut pieces = Pieces::with_capacity(count);
    for (id, name) in names.iter().enumerate() {
        match added.get(&(id as u32)) {
            Some(token) => pieces.push_raw(&token.content),
            None => pieces.push(spelling, name),
        }
    }
    Ok(pieces)
}
