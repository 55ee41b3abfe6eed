//! The models that split a word into tokens: the library's, and
//! SentencePiece's BPE from the scores of a GGUF file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::models::TrainerWrapper;
use tokenizers::{
    DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Result, Token, TokenizerImpl,
};

use crate::scored_bpe::ScoredBpe;

pub type HfTokenizer = TokenizerImpl<
    WordModel,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

pub enum WordModel {
    Library(ModelWrapper),
    Scored(ScoredBpe),
}

impl<'de> Deserialize<'de> for WordModel {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        ModelWrapper::deserialize(from).map(WordModel::Library)
    }
}

impl Model for WordModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        match self {
            WordModel::Library(model) => model.tokenize(word),
            WordModel::Scored(model) => Ok(model.tokenize(word)),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            WordModel::Library(model) => model.token_to_id(token),
            WordModel::Scored(model) => model.find(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match self {
            WordModel::Library(model) => model.id_to_token(id),
            WordModel::Scored(model) => model.get(id).map(str::to_owned),
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        match self {
            WordModel::Library(model) => model.get_vocab(),
            WordModel::Scored(model) => (0..model.len() as u32)
                .filter_map(|id| Some((model.get(id)?.to_owned(), id)))
                .collect(),
        }
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            WordModel::Library(model) => model.get_vocab_size(),
            WordModel::Scored(model) => model.len(),
        }
    }

    fn save(&self, _: &Path, _: Option<&str>) -> Result<Vec<PathBuf>> {
        Err("this tokenizer is read only".into())
    }

    fn get_trainer(&self) -> TrainerWrapper {
        BpeTrainer::default().into()
    }
}
