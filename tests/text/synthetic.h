// Small tokenizers made for the tests.
#pragma once

#include "text/tokenizer.h"

namespace quern::synthetic {

// Byte-level BPE without merges: id = byte value for 0..255, then <|end|>
// (special, eos), <|im_start|> (special) and <tool> (added, not special), then
// what is given more, with its type in a GGUF file (3 special, 4 added).
Tokenizer byte_level(
    const std::vector<std::pair<std::string, int32_t>>& more = {});

// SentencePiece BPE from GGUF scores, Llama-2 style: <unk>, <s>, </s>, byte
// tokens, then pieces. With `prefix` a space is prepended to each text.
Tokenizer sentence_piece(bool prefix);

// The same pieces in a tokenizer.json with Metaspace of this prepend_scheme.
Tokenizer metaspace(std::string_view prepend_scheme);

}  // namespace quern::synthetic
