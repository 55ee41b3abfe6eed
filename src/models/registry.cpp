#include "models/registry.h"

#include "base/str.h"
#include "files/safetensors.h"
#include "models/families.h"
#include "models/gguf_model.h"

namespace quern {
namespace {

struct Family {
  std::string_view type;  // model_type of config.json, architecture of a GGUF
  ModelMaker make;
};

constexpr Family kFamilies[] = {
    {"gemma3", make_gemma3}, {"gemma3_text", make_gemma3},
    {"llama", make_llama},   {"mistral", make_llama},
    {"qwen2", make_qwen2},   {"qwen3", make_qwen3},
};

const Family* find_family(std::string_view type) {
  for (const Family& family : kFamilies) {
    if (family.type == type) return &family;
  }
  return nullptr;
}

Failure unsupported(std::string_view where, std::string_view type) {
  return failure("{}: model type {} is not supported (supported: {})", where,
                 in_quotes(type), fmt::join(model_types(), ", "));
}

}  // namespace

std::vector<std::string> model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.type);
  return types;
}

Result<std::unique_ptr<TextModel>> make_model(Json config_json,
                                              TensorSet tensors,
                                              const std::string& where) {
  try {
    const Config config(std::move(config_json), where);
    const std::string type = config.text("model_type");
    const Family* family = find_family(type);
    if (!family) return unsupported(where, type);
    Weights weights(std::move(tensors), config);
    auto model = family->make(config, weights);
    if (auto name = weights.unused_layer_tensor(); !name.empty()) {
      return failure("{}: tensor {} belongs to no layer of a {} with {} layers",
                     where, in_quotes(name), type, model->facts().layers);
    }
    return model;
  } catch (const std::exception& e) {
    return failure("{}", e.what());
  }
}

Result<std::unique_ptr<TextModel>> load_model(
    const std::shared_ptr<const Gguf>& file, const Path& path) {
  const auto architecture = file->str("general.architecture");
  if (architecture && !find_family(*architecture)) {
    return unsupported(path.string(), *architecture);
  }
  auto config = gguf_config(*file, path.string());
  if (!config) return config.failure();
  return make_model(std::move(config).value(), gguf_tensors(*file),
                    path.string());
}

Result<std::unique_ptr<TextModel>> load_model(const Path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    auto file = Gguf::open(path);
    if (!file) return file.failure();
    return load_model(*file, path);
  }
  const Path config_path = path / "config.json";
  auto text = read_text(config_path);
  if (!text) return text.failure();
  auto json = parse_json(*text, config_path.string());
  if (!json) return json.failure();
  for (const char* key : kGgufOnly) {
    if (json->is_object()) json->erase(key);
  }
  auto tensors = open_safetensors_dir(path);
  if (!tensors) return tensors.failure();
  return make_model(std::move(json).value(), std::move(tensors).value(),
                    config_path.string());
}

}  // namespace quern
