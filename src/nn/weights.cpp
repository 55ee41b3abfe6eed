#include "nn/weights.h"

#include <mlx/mlx.h>

#include "quant/pack.h"

namespace quern {
namespace {

// Some multimodal checkpoints keep the language model under this: its tensors
// and the modules that the quantisation names.
constexpr std::string_view kPrefix = "language_model.";

TensorSet without_prefix(TensorSet tensors) {
  TensorSet renamed;
  for (auto& [name, tensor] : tensors) {
    std::string key = name;
    if (key.starts_with(kPrefix)) key.erase(0, kPrefix.size());
    renamed.emplace(std::move(key), std::move(tensor));
  }
  return renamed;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

Weights::Weights(TensorSet tensors, const Config& config)
    : tensors_(without_prefix(std::move(tensors))), where_(config.where()) {
  for (const char* key : {"quantization_config", "quantization"}) {
    const Json* value = config.find(key);
    if (value && value->is_object()) quantization_ = *value;
  }
  if (quantization_.is_object() && quantization_.contains("mode") &&
      quantization_["mode"] != "affine") {
    config.refuse(fmt::format("quantization mode {} is not supported (affine)",
                              brief(quantization_["mode"])));
  }
  if (quantization_.is_object() && quantization_.contains("quant_method")) {
    config.refuse(
        fmt::format("quantization method {} is not supported (MLX affine)",
                    brief(quantization_["quant_method"])));
  }
}

const TensorView* Weights::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

const TensorView* Weights::take(const std::string& name) {
  const TensorView* t = find(name);
  if (t) taken_.insert(name);
  return t;
}

const TensorView& Weights::need(const std::string& name) {
  if (const TensorView* t = take(name)) return *t;
  fail("{}: tensor {} is missing", where_, name);
}

bool Weights::has(const std::string& path) const {
  return find(path + ".weight") != nullptr;
}

bool Weights::has_bias(const std::string& path) const {
  return find(path + ".bias") != nullptr;
}

std::string Weights::unused_layer_tensor() const {
  for (const auto& [name, tensor] : tensors_) {
    const bool of_a_layer =
        name.starts_with("model.layers.") || name.starts_with("blk.");
    // Some checkpoints store the rope's frequencies, which are computed here.
    if (of_a_layer && !name.ends_with(".rotary_emb.inv_freq") &&
        !taken_.contains(name)) {
      return tensor.name;
    }
  }
  return {};
}

Weights::Code Weights::code_of(const std::string& path) const {
  auto number = [&](const Json& from, const char* key) -> std::optional<int> {
    const auto it = from.find(key);
    if (it == from.end()) return {};
    if (!it->is_number_integer()) {
      fail("{}: quantization of {}: {} must be an integer", where_, path, key);
    }
    return it->get<int>();
  };
  if (!quantization_.is_object()) {
    fail("{}: {} is quantised, but the configuration has no quantization",
         where_, path);
  }
  auto bits = number(quantization_, "bits");
  auto group = number(quantization_, "group_size");
  auto own = quantization_.find(path);
  if (own == quantization_.end()) {
    own = quantization_.find(std::string(kPrefix) + path);
  }
  if (own != quantization_.end() && own->is_object()) {
    if (auto value = number(*own, "bits")) bits = value;
    if (auto value = number(*own, "group_size")) group = value;
  }
  if (!bits || !group) {
    fail("{}: quantization needs bits and group_size", where_);
  }
  return {*bits, *group};
}

Weight Weights::matrix(const std::string& path, int n, int k) {
  const TensorView& codes = need(path + ".weight");
  Result<Weight> weight = failure("");
  if (const TensorView* scales = take(path + ".scales")) {
    const Code code = code_of(path);
    weight = pack_affine(codes, *scales, need(path + ".biases"), code.bits,
                         code.group);
  } else {
    weight = pack_weight(codes);
  }
  if (!weight) fail("{}: {}", where_, weight.reason());
  if (weight->n != n || weight->k != k) {
    fail("{}: {} must be [{}, {}], got [{}, {}]", where_, path, n, k, weight->n,
         weight->k);
  }
  bytes_ += weight->tiles.nbytes();
  return std::move(weight).value();
}

mx::array Weights::vector(const std::string& name, int size) {
  const TensorView& t = need(name);
  if (t.shape != std::vector<int64_t>{size}) {
    fail("{}: {} must be [{}], got {}", where_, name, size,
         shape_text(t.shape));
  }
  auto values = to_f32(t);
  if (!values) fail("{}: {}", where_, values.reason());
  bytes_ += values->nbytes();
  return std::move(values).value();
}

std::optional<mx::array> Weights::vector_if(const std::string& name, int size) {
  if (!find(name)) return {};
  return vector(name, size);
}

}  // namespace quern
