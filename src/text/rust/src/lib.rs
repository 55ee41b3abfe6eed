//! Tokenizers and chat templates behind a small C ABI (quern_text.h).

mod ffi;
mod pieces;
mod pre_tokenizer;
mod python;
mod rewrite;
mod template;
mod tokenizer;
mod vocabulary;
