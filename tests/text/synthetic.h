// Small tokenizers made for the tests.
#pragma once

#include "text/tokenizer.h"

namespace quern::synthetic {

// Byte-level BPE without merges: id = byte value for 0..255, then <|end|>
// (special, eos), <|im_start|> (special) and <tool> (added, not special).
Tokenizer byte_level();

// SentencePiece BPE from GGUF scores, Llama-2 style: <unk>, <s>, </s>, byte
// tokens, then pieces. With `prefix` a space is prepended to each text.
Tokenizer sentence_piece(bool prefix);

// The same pieces in a tokenizer.json with Metaspace of this prepend_scheme.
Tokenizer metaspace(std::string_view prepend_scheme);

}  // namespace quern::synthetic
