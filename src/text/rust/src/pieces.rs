//! What each token stands for, as bytes: the decoder of a tokenizer undone
//! token by token, so that a stream can be decoded without the whole.

use serde_json::Value;

/// Where the space that a metaspace tokenizer prepends is dropped again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strip {
    None = 0,
    /// At the start of a text.
    First = 1,
    /// At the start of a text and after each special token.
    Each = 2,
}

/// How a vocabulary spells bytes.
pub struct Spelling {
    /// GPT-2's alphabet: one character a byte.
    pub byte_level: bool,
    /// This character stands for a space.
    pub space: Option<char>,
    /// `<0xNN>` is one byte.
    pub byte_fallback: bool,
    /// Tokens without this prefix begin a word (WordPiece).
    pub continuation: Option<String>,
    /// Tokens with this suffix end a word.
    pub word_end: Option<String>,
    pub strip: Strip,
}

impl Spelling {
    pub fn plain() -> Self {
        Spelling {
            byte_level: false,
            space: None,
            byte_fallback: false,
            continuation: None,
            word_end: None,
            strip: Strip::None,
        }
    }

    /// Reads the `decoder` of a tokenizer.json; `prefix_each` says that the
    /// encoder prepends a space after every added token.
    pub fn from_decoder(decoder: &Value, prefix_each: bool) -> Self {
        let mut spelling = Spelling::plain();
        spelling.add(decoder);
        if spelling.strip == Strip::First && prefix_each {
            spelling.strip = Strip::Each;
        }
        spelling
    }

    fn add(&mut self, decoder: &Value) {
        let text = |name: &str| decoder[name].as_str();
        match text("type") {
            Some("Sequence") => {
                for part in decoder["decoders"].as_array().into_iter().flatten() {
                    self.add(part);
                }
            }
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Metaspace") => {
                self.space = text("replacement").and_then(|r| r.chars().next());
                if text("prepend_scheme") != Some("never") {
                    self.strip = Strip::First;
                }
            }
            Some("Replace") => {
                if text("content") == Some(" ") {
                    let from = decoder["pattern"]["String"].as_str();
                    self.space = from.and_then(|f| f.chars().next());
                }
            }
            Some("Strip") => {
                if text("content") == Some(" ") && decoder["start"] != 0 {
                    self.strip = Strip::First;
                }
            }
            Some("WordPiece") => {
                self.continuation = text("prefix").map(str::to_owned);
                self.strip = Strip::First;
            }
            Some("BPEDecoder") => {
                self.word_end = text("suffix").map(str::to_owned);
            }
            _ => {}
        }
    }

    fn spell(&self, token: &str, out: &mut Vec<u8>) {
        if self.byte_level {
            let start = out.len();
            for c in token.chars() {
                match byte_of(c) {
                    Some(byte) => out.push(byte),
                    None => {
                        out.truncate(start);
                        out.extend_from_slice(token.as_bytes());
                        return;
                    }
                }
            }
            return;
        }
        if self.byte_fallback {
            if let Some(byte) = fallback_byte(token) {
                out.push(byte);
                return;
            }
        }
        let mut rest = token;
        if let Some(prefix) = &self.continuation {
            match token.strip_prefix(prefix.as_str()) {
                Some(tail) => rest = tail,
                None => out.push(b' '),
            }
        }
        let ends_word = self
            .word_end
            .as_deref()
            .and_then(|suffix| rest.strip_suffix(suffix));
        let rest = ends_word.unwrap_or(rest);
        match self.space {
            Some(space) => {
                let mut buffer = [0u8; 4];
                for c in rest.chars() {
                    let c = if c == space { ' ' } else { c };
                    out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                }
            }
            None => out.extend_from_slice(rest.as_bytes()),
        }
        if ends_word.is_some() {
            out.push(b' ');
        }
    }
}

/// The bytes of all tokens, one after another.
#[derive(Default)]
pub struct Pieces {
    pub offsets: Vec<u32>,
    pub bytes: Vec<u8>,
}

impl Pieces {
    pub fn with_capacity(tokens: usize) -> Self {
        let mut offsets = Vec::with_capacity(tokens + 1);
        offsets.push(0);
        Pieces {
            offsets,
            bytes: Vec::with_capacity(tokens * 8),
        }
    }

    pub fn push(&mut self, spelling: &Spelling, token: &str) {
        spelling.spell(token, &mut self.bytes);
        self.offsets.push(self.bytes.len() as u32);
    }

    pub fn push_raw(&mut self, token: &str) {
        self.bytes.extend_from_slice(token.as_bytes());
        self.offsets.push(self.bytes.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// The byte that a character of GPT-2's alphabet stands for: printable bytes
/// stand for themselves, the others follow from U+0100 on in their order.
fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}
