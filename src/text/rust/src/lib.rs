//! Tokenizers and chat templates behind a small C ABI (quern_text.h).

mod ffi;
mod model;
mod pieces;
mod pre_tokenizer;
mod python;
mod rewrite;
mod scored_bpe;
mod template;
mod tokenizer;
mod vocabulary;
