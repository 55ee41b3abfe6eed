//! SentencePiece's BPE: of all neighbours whose texts together are a token, the
//! pair whose token scores best is merged first. Gives what the library's BPE
//! gives with a list of all such pairs, which a vocabulary of 262,144 tokens
//! has half a million of: making that list takes longer than all else of a
//! start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::RandomState;
use hashbrown::HashTable;
use tokenizers::Token;

/// Rank of what no pair becomes.
const NEVER: u32 = u32::MAX;
const NONE: usize = usize::MAX;

pub struct ScoredBpe {
    text: String, // of all tokens
    ends: Vec<usize>,
    hasher: RandomState,
    ids: HashTable<u32>, // by the texts; of equal ones the last
    ranks: Vec<u32>,
    longest: usize,            // bytes
    bytes: [Option<u32>; 256], // "<0x..>"
    unk: Option<u32>,
}

/// A stretch of the word that is a token by now; one of no length was merged
/// into the one before it.
struct Part {
    id: u32,
    start: usize,
    length: usize, // bytes of the word
    before: usize,
    after: usize,
}

/// Part `at` and the next one, which cover `length` bytes, become token `id`.
/// The least is done first: by rank; for one token that with the longer left
/// part, in characters; by place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Merge {
    rank: u32,
    left: Reverse<usize>,
    at: usize,
    length: usize,
    id: u32,
}

impl ScoredBpe {
    /// results: the tokens that pairs may become, the best first.
    pub fn new<T: AsRef<str>>(tokens: &[T], results: &[u32], unk: Option<u32>) -> Self {
        let mut text = String::with_capacity(tokens.iter().map(|t| t.as_ref().len()).sum());
        let mut ends = Vec::with_capacity(tokens.len());
        for token in tokens {
            text.push_str(token.as_ref());
            ends.push(text.len());
        }
        let mut ranks = vec![NEVER; tokens.len()];
        for (&id, rank) in results.iter().zip(0..) {
            ranks[id as usize] = rank;
        }
        let longest = tokens.iter().map(|t| t.as_ref().len()).max().unwrap_or(0);
        let mut model = ScoredBpe {
            text,
            ends,
            hasher: RandomState::new(),
            ids: HashTable::with_capacity(tokens.len()),
            ranks,
            longest,
            bytes: [None; 256],
            unk,
        };
        for id in 0..tokens.len() as u32 {
            model.insert(id);
        }
        model.bytes = std::array::from_fn(|byte| model.find(&format!("<0x{byte:02X}>")));
        model
    }

    fn insert(&mut self, id: u32) {
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        let of = |id: u32| token(text, ends, id as usize);
        let same = |other: &u32| of(*other) == of(id);
        match self.ids.find_mut(hasher.hash_one(of(id)), same) {
            Some(before) => {
                let rank = self.ranks[*before as usize];
                *before = id;
                let own = &mut self.ranks[id as usize];
                *own = rank.min(*own);
            }
            None => {
                let hash = |id: &u32| hasher.hash_one(of(*id));
                self.ids.insert_unique(hash(&id), id, hash);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, id: u32) -> Option<&str> {
        ((id as usize) < self.len()).then(|| self.text_of(id))
    }

    fn text_of(&self, id: u32) -> &str {
        token(&self.text, &self.ends, id as usize)
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let same = |id: &u32| self.text_of(*id) == name;
        self.ids.find(hash, same).copied()
    }

    pub fn tokenize(&self, word: &str) -> Vec<Token> {
        let mut parts = self.characters(word);
        let mut queue: BinaryHeap<_> = (0..parts.len())
            .filter_map(|at| self.merge_at(&parts, at).map(Reverse))
            .collect();
        while let Some(Reverse(merge)) = queue.pop() {
            let Part { length, after, .. } = parts[merge.at];
            // Parts only grow: of another length, one of the two is another.
            let is_same = length > 0 && after != NONE;
            if !is_same || length + parts[after].length != merge.length {
                continue;
            }
            join(&mut parts, merge.at, merge.id);
            let before = parts[merge.at].before;
            for at in [before, merge.at].into_iter().filter(|&at| at != NONE) {
                queue.extend(self.merge_at(&parts, at).map(Reverse));
            }
        }
        let live = parts.iter().filter(|part| part.length > 0);
        live.map(|part| {
            let value = self.text_of(part.id).to_owned();
            Token::new(part.id, value, (part.start, part.start + part.length))
        })
        .collect()
    }

    /// Tokens of single characters, of the bytes of others, or the unknown one,
    /// which takes its neighbours in.
    fn characters(&self, word: &str) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(word.len());
        let mut unknown_end = NONE;
        let mut add = |id, start, length, is_unknown| {
            match parts.last_mut() {
                Some(last) if is_unknown && start == unknown_end => last.length += length,
                _ => parts.push(Part {
                    id,
                    start,
                    length,
                    before: parts.len().wrapping_sub(1),
                    after: parts.len() + 1,
                }),
            }
            if is_unknown {
                unknown_end = start + length;
            }
        };
        for (start, c) in word.char_indices() {
            let text = &word[start..start + c.len_utf8()];
            let bytes = || text.bytes().map(|b| self.bytes[b as usize]);
            if let Some(id) = self.find(text) {
                add(id, start, text.len(), false);
            } else if bytes().all(|id| id.is_some()) {
                for (i, id) in bytes().flatten().enumerate() {
                    add(id, start + i, 1, false);
                }
            } else if let Some(unk) = self.unk {
                add(unk, start, text.len(), true);
            }
        }
        if let Some(last) = parts.last_mut() {
            last.after = NONE;
        }
        parts
    }

    /// What part `at` and the next one may become.
    fn merge_at(&self, parts: &[Part], at: usize) -> Option<Merge> {
        let part = &parts[at];
        let next = parts.get(part.after)?;
        let (left, right) = (self.text_of(part.id), self.text_of(next.id));
        if left.len() + right.len() > self.longest {
            return None;
        }
        let id = self.find(&[left, right].concat())?;
        let rank = self.ranks[id as usize];
        (rank != NEVER).then(|| Merge {
            rank,
            left: Reverse(left.chars().count()),
            at,
            length: part.length + next.length,
            id,
        })
    }
}

fn token<'a>(text: &'a str, ends: &[usize], id: usize) -> &'a str {
    &text[if id == 0 { 0 } else { ends[id - 1] }..ends[id]]
}

/// Makes part `at` and the next one the token `id`.
fn join(parts: &mut [Part], at: usize, id: u32) {
    let next = parts[at].after;
    let Part { length, after, .. } = parts[next];
    parts[next].length = 0;
    parts[at].id = id;
    parts[at].length += length;
    parts[at].after = after;
    if let Some(part) = parts.get_mut(after) {
        part.before = at;
    }
}
