// The small real models (tools/fetch_models.sh).
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "models/registry.h"

namespace quern::test {

inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m.Q4_K_M.gguf";
inline constexpr const char* kQwenCoder =
    "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf";

inline std::unique_ptr<TextModel> real_model(const std::string& file) {
  const char* folder = std::getenv("QUERN_MODELS");
  const Path models = folder && *folder
                          ? Path(folder)
                          : Path(std::getenv("HOME")) / ".cache/quern/models";
  return load_model(models / file).or_throw();
}

}  // namespace quern::test
