// Tiny random models, written as Hugging Face directories.
#pragma once

#include <memory>
#include <string>

#include "models/model.h"

namespace quern::test {

// "llama" or "gemma3_text" (window 16), hidden 64, 4 layers, vocabulary 96;
// weights from a seeded generator in `dtype`, "F32" or "BF16".
std::unique_ptr<TextModel> tiny_model(const std::string& type,
                                      const std::string& dtype = "F32",
                                      int head_dim = 16);

}  // namespace quern::test
