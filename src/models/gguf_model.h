// A GGUF file in Hugging Face's terms.
#pragma once

#include "files/gguf.h"
#include "nn/config.h"

namespace quern {

// The configuration the file's metadata describes, with Hugging Face's names
// and two of ours: from_gguf, and rope_interleaved (the rows of q and k lie
// for pairs (2i, 2i + 1)).
constexpr const char* kGgufOnly[] = {"from_gguf", "rope_interleaved"};
Result<Json> gguf_config(const Gguf& file, std::string_view where);

// The tensors under Hugging Face's names; unknown names are kept as they are.
TensorSet gguf_tensors(const Gguf& file);

}  // namespace quern
