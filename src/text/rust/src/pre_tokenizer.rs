//! How a byte-level BPE family cuts text into words, by the name that GGUF
//! files give it (`tokenizer.ggml.pre`). Each row is the pre-tokenizer of the
//! family's own tokenizer.json. GGUF names no normaliser, so none is applied.

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use Step::{Bytes, DigitRuns, EachDigit, Gpt2, PunctuationRuns, Regex};

enum Step {
    /// Isolates what the expression matches.
    Regex(&'static str),
    EachDigit,
    DigitRuns,
    PunctuationRuns,
    /// GPT-2's expression, then the byte alphabet.
    Gpt2,
    /// The byte alphabet alone.
    Bytes,
}

pub struct Family {
    names: &'static [&'static str],
    steps: &'static [Step],
    /// A word that is a token is taken whole, whatever the merges say.
    pub ignore_merges: bool,
    /// Whether a text begins with the bos token if the file does not say.
    pub add_bos: bool,
}

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Cased letters of the scripts that DeepSeek LLM's expression lists.
const DEEPSEEK_WORD: &str = concat!(
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ",
    r"Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ",
    r"Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
);
const DEEPSEEK_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";
const DEEPSEEK_CJK: &str = "[一-龥ࠀ-一가-퟿]+";
const DEEPSEEK3_CJK: &str = "[一-龥぀-ゟ゠-ヿ]+";
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const FAMILIES: &[Family] = &[
    Family {
        names: &[
            "default",
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "roberta-bpe",
        ],
        steps: &[Gpt2],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
        ],
        steps: &[EachDigit, Gpt2],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"],
        steps: &[Regex(LLAMA3), Bytes],
        ignore_merges: true,
        add_bos: true,
    },
    Family {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"],
        steps: &[Regex(LLAMA3), Bytes],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"],
        steps: &[Regex(QWEN2), Bytes],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["qwen35"],
        steps: &[Regex(QWEN35), Bytes],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["tekken"],
        steps: &[Regex(TEKKEN), Bytes],
        ignore_merges: true,
        add_bos: true,
    },
    Family {
        names: &["gpt-4o", "llama4"],
        steps: &[Regex(GPT4O), Bytes],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["falcon"],
        steps: &[PunctuationRuns, Gpt2, DigitRuns, Regex("[0-9][0-9][0-9]")],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["deepseek-llm"],
        steps: &[
            Regex(r"[\r\n]"),
            Regex(DEEPSEEK_WORD),
            Regex(DEEPSEEK_PUNCTUATION),
            Regex(r"\s+$"),
            Regex(DEEPSEEK_CJK),
            EachDigit,
            Bytes,
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["deepseek-coder"],
        steps: &[
            Regex(r"[\r\n]"),
            Regex(r"\s?\p{L}+"),
            Regex(r"\s?\p{P}+"),
            Regex(DEEPSEEK_CJK),
            EachDigit,
            Bytes,
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["deepseek-v3"],
        steps: &[
            Regex(r"\p{N}{1,3}"),
            Regex(DEEPSEEK3_CJK),
            Regex(DEEPSEEK3),
            Bytes,
        ],
        ignore_merges: false,
        add_bos: false,
    },
];

/// The family of that name; an error lists the names there are.
pub fn family(name: &str) -> Result<&'static Family, String> {
    let name = if name.is_empty() { "default" } else { name };
    FAMILIES
        .iter()
        .find(|f| f.names.contains(&name))
        .ok_or_else(|| {
            let known: Vec<&str> = FAMILIES
                .iter()
                .flat_map(|f| f.names.iter().copied())
                .collect();
            format!(
                "tokenizer.ggml.pre: '{name}' is not supported (there are {})",
                known.join(", ")
            )
        })
}

impl Family {
    pub fn pre_tokenizer(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in self.steps {
            steps.push(step.build()?);
        }
        Ok(Sequence::new(steps).into())
    }
}

impl Step {
    fn build(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        use SplitDelimiterBehavior::{Contiguous, Isolated};
        Ok(match self {
            Regex(pattern) => {
                let pattern = SplitPattern::Regex(pattern.to_string());
                Split::new(pattern, Isolated, false)?.into()
            }
            EachDigit => Digits::new(true).into(),
            DigitRuns => Digits::new(false).into(),
            PunctuationRuns => Punctuation::new(Contiguous).into(),
            Gpt2 => ByteLevel::new(false, true, true).into(),
            Bytes => ByteLevel::new(false, true, false).into(),
        })
    }
}
