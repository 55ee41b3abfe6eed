//! Builds a tokenizer from the vocabulary that a GGUF file carries.

use std::cmp::Ordering;

use ahash::AHashMap;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence;
use tokenizers::{AddedToken, NormalizerWrapper, Result};

use crate::model::{HfTokenizer, WordModel};
use crate::pieces::{Pieces, Spelling, Strip};
use crate::pre_tokenizer;
use crate::scored_bpe::ScoredBpe;
use crate::tokenizer::Tokenizer;

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

const SPACE: char = '\u{2581}';

pub struct Vocabulary<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub tokens: Vec<&'a str>,
    pub scores: &'a [f32],
    pub types: &'a [i32],
    pub merges: Vec<&'a str>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unk: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

type Merges = Vec<(String, String)>;

pub fn build(vocabulary: &Vocabulary) -> Result<Tokenizer> {
    match vocabulary.model {
        "gpt2" => byte_level(vocabulary),
        "llama" => sentence_piece(vocabulary),
        other => Err(format!(
            "tokenizer.ggml.model: '{other}' is not supported (there are gpt2, llama)"
        )
        .into()),
    }
}

fn byte_level(vocabulary: &Vocabulary) -> Result<Tokenizer> {
    let family = pre_tokenizer::family(vocabulary.pre)?;
    let mut merges = Merges::with_capacity(vocabulary.merges.len());
    for (rank, merge) in vocabulary.merges.iter().enumerate() {
        // The left part may itself begin with a space, never the right one.
        let (left, right) = merge
            .char_indices()
            .skip(1)
            .find(|&(_, c)| c == ' ')
            .map(|(at, _)| (&merge[..at], &merge[at + 1..]))
            .ok_or_else(|| format!("tokenizer.ggml.merges[{rank}]: no pair in '{merge}'"))?;
        merges.push((left.to_owned(), right.to_owned()));
    }
    let model = BPE::builder()
        .vocab_and_merges(token_ids(&vocabulary.tokens), merges)
        .ignore_merges(family.ignore_merges)
        .build()?;
    let mut hf = HfTokenizer::new(WordModel::Library(model.into()));
    hf.with_pre_tokenizer(Some(family.pre_tokenizer()?));
    hf.with_decoder(Some(ByteLevel::default()));
    let spelling = Spelling {
        byte_level: true,
        ..Spelling::plain()
    };
    finish(hf, vocabulary, &spelling, family.add_bos)
}

fn sentence_piece(vocabulary: &Vocabulary) -> Result<Tokenizer> {
    let tokens = respell_space_runs(&vocabulary.tokens);
    let model = ScoredBpe::new(&tokens, &results(vocabulary), vocabulary.unk);
    let mut hf = HfTokenizer::new(WordModel::Scored(model));
    let replace: NormalizerWrapper = Replace::new(" ", SPACE.to_string())?.into();
    let mut spelling = Spelling {
        space: Some(SPACE),
        byte_fallback: true,
        ..Spelling::plain()
    };
    if vocabulary.add_space_prefix.unwrap_or(true) {
        let prepend = Prepend::new(SPACE.to_string()).into();
        hf.with_normalizer(Some(Sequence::new(vec![prepend, replace])))?;
        spelling.strip = Strip::Each;
    } else {
        hf.with_normalizer(Some(replace))?;
    }
    finish(hf, vocabulary, &spelling, true)
}

/// Gemma's files store a run of spaces as spaces; its model knows U+2581.
fn respell_space_runs<'a>(tokens: &[&'a str]) -> Vec<std::borrow::Cow<'a, str>> {
    let run = |token: &str| token.len() > 1 && token.bytes().all(|b| b == b' ');
    tokens
        .iter()
        .map(|&token| match run(token) {
            true => SPACE.to_string().repeat(token.len()).into(),
            false => token.into(),
        })
        .collect()
}

fn token_ids(tokens: &[&str]) -> AHashMap<String, u32> {
    let pairs = tokens.iter().zip(0u32..);
    pairs.map(|(token, id)| (token.to_string(), id)).collect()
}

/// The tokens that others may be merged to, the best first: user-defined ones,
/// then by score, then in the order of the file.
fn results(vocabulary: &Vocabulary) -> Vec<u32> {
    let mut results: Vec<u32> = (0..vocabulary.tokens.len() as u32)
        .filter(|&id| vocabulary.kind(id) != CONTROL && vocabulary.kind(id) != UNKNOWN)
        .collect();
    results.sort_by(|&a, &b| {
        let is_defined = |id| vocabulary.kind(id) == USER_DEFINED;
        match (is_defined(a), is_defined(b)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => vocabulary.score(b).total_cmp(&vocabulary.score(a)),
        }
    });
    results
}

impl Vocabulary<'_> {
    fn kind(&self, id: u32) -> i32 {
        self.types.get(id as usize).copied().unwrap_or(1)
    }

    fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or(0.0)
    }

    /// Control and user-defined tokens, which are matched in the text itself.
    fn added_tokens(&self) -> impl Iterator<Item = AddedToken> + '_ {
        self.tokens.iter().zip(0u32..).filter_map(|(token, id)| {
            let kind = self.kind(id);
            let special = kind == CONTROL || kind == UNKNOWN;
            let run = token.bytes().all(|b| b == b' ') && self.model == "llama";
            (special || (kind == USER_DEFINED && !run))
                .then(|| AddedToken::from(*token, special).normalized(false))
        })
    }
}

fn finish(
    mut hf: HfTokenizer,
    vocabulary: &Vocabulary,
    spelling: &Spelling,
    bos_by_default: bool,
) -> Result<Tokenizer> {
    hf.add_tokens(vocabulary.added_tokens())?;
    let mut pieces = Pieces::with_capacity(vocabulary.tokens.len());
    for (token, id) in vocabulary.tokens.iter().zip(0u32..) {
        match vocabulary.kind(id) {
            CONTROL | UNKNOWN | USER_DEFINED => pieces.push_raw(token),
            _ => pieces.push(spelling, token),
        }
    }
    let affix = |wanted: bool, id: Option<u32>| {
        id.filter(|_| wanted)
            .map(|id| id as i32)
            .into_iter()
            .collect()
    };
    let prefix = affix(vocabulary.add_bos.unwrap_or(bos_by_default), vocabulary.bos);
    let suffix = affix(vocabulary.add_eos.unwrap_or(false), vocabulary.eos);
    Ok(Tokenizer::new(hf, pieces, spelling.strip, prefix, suffix))
}
