//! Tokenizers and chat templates behind a small C ABI (quern_text.h).

mod ffi;
mod pieces;
mod pre_tokenizer;
mod tokenizer;
mod vocabulary;
