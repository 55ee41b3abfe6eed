// What a GGUF file says about its tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "files/gguf.h"

namespace quern {

struct GgufVocabulary {
  std::string model = {};  // "gpt2" (byte-level BPE), "llama" (SentencePiece)
  std::string pre = {};    // the name of the pre-tokenizer; may be empty
  // Views into the file, which must outlive this struct.
  std::vector<std::string_view> tokens = {};
  std::vector<std::string_view> merges = {};
  std::vector<float> scores = {};         // one a token, or empty
  std::vector<int32_t> token_types = {};  // one a token, or empty
  std::optional<int32_t> bos = {}, eos = {}, eot = {}, unk = {}, pad = {};
  std::optional<bool> add_bos = {}, add_eos = {}, add_space_prefix = {};
  std::string chat_template = {};  // empty if the file has none
};

// Reads the tokenizer.* metadata. Fails if a key that is needed is missing or
// of another type.
Result<GgufVocabulary> gguf_vocabulary(const Gguf& file);

}  // namespace quern
