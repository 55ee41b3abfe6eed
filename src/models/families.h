// One maker for each family; the table is in registry.cpp.
#pragma once

#include <memory>

#include "models/model.h"

namespace quern {

using ModelMaker = std::unique_ptr<TextModel> (*)(const Config&, Weights&);

std::unique_ptr<TextModel> make_llama(const Config& config, Weights& weights);
std::unique_ptr<TextModel> make_qwen2(const Config& config, Weights& weights);
std::unique_ptr<TextModel> make_qwen3(const Config& config, Weights& weights);
std::unique_ptr<TextModel> make_gemma3(const Config& config, Weights& weights);

}  // namespace quern
