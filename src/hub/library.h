// The models on this machine: the Hugging Face hub cache and quern's own
// folder. Nothing is downloaded here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace quern {

// Where models are looked for.
struct Places {
  Path hub_cache;  // models--org--name/snapshots/<commit>/...
  Path models;     // *.gguf and model directories, put there by set-up

  // hub_cache: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub.
  // models: QUERN_MODELS, else ~/.cache/quern/models.
  static Places from_environment();
};

enum class ModelFormat { Safetensors, Gguf };
std::string_view format_name(ModelFormat format);

struct LocalModel {
  std::string id;  // org/name, org/name/file.gguf, or a name in Places::models
  Path path;       // a directory with config.json, or a .gguf file
  ModelFormat format;
  uint64_t bytes;  // of the weight files
};

// Every model found, sorted by id. A folder that is missing holds none.
std::vector<LocalModel> list_models(const Places& places);

// The path that a MODEL argument means: a directory with config.json and
// *.safetensors, or a .gguf file. The argument is an existing path, the id of
// a listed model in any case, or a part of exactly one id; without an argument
// it is the default model in Places::models. A reason says what was looked for
// and where, and lists the candidates where there are several.
Result<Path> resolve_model(const std::optional<std::string>& argument,
                           const Places& places);

}  // namespace quern
