// config.json against the tensors of a tiny llama: a model that loads must
// run, anything else is one line.
#include <mlx/mlx.h>

#include <cstdint>
#include <vector>

#include "check.h"
#include "engine/prefill.h"
#include "models/registry.h"

namespace {

using namespace quern;

// hidden 32, 2 heads of 16, intermediate 64, vocabulary 16, 1 layer; the head
// is quantised, 4 bits in groups of 32. Norms as the family has them.
TensorSet tiny_tensors(std::string_view type) {
  const bool gemma = type.starts_with("gemma");
  static const std::vector<std::byte> zeros(64 * 64 * 4);
  TensorSet set;
  auto add = [&](const std::string& name, TensorType type,
                 std::vector<int64_t> shape) {
    const size_t bytes = tensor_bytes(type, shape).value();
    set[name] = {name, type, shape, Bytes(zeros).first(bytes), nullptr};
  };
  add("model.embed_tokens.weight", TensorType::F32, {16, 32});
  add("model.norm.weight", TensorType::F32, {32});
  add("lm_head.weight", TensorType::U32, {16, 4});
  add("lm_head.scales", TensorType::F16, {16, 1});
  add("lm_head.biases", TensorType::F16, {16, 1});
  const std::string layer = "model.layers.0.";
  auto norm = [&](const char* name, int64_t size) {
    add(layer + name + ".weight", TensorType::F32, {size});
  };
  norm("input_layernorm", 32);
  norm("post_attention_layernorm", 32);
  if (gemma) {
    norm("pre_feedforward_layernorm", 32);
    norm("post_feedforward_layernorm", 32);
  }
  if (gemma || type == "qwen3") {
    norm("self_attn.q_norm", 16);
    norm("self_attn.k_norm", 16);
  }
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    add(layer + "self_attn." + name + ".weight", TensorType::BF16, {32, 32});
  }
  add(layer + "mlp.gate_proj.weight", TensorType::F16, {64, 32});
  add(layer + "mlp.up_proj.weight", TensorType::F16, {64, 32});
  add(layer + "mlp.down_proj.weight", TensorType::F16, {32, 64});
  return set;
}

std::string model_type(const Json& config) {
  for (const char* place : {"/text_config/model_type", "/model_type"}) {
    const Json::json_pointer at(place);
    if (config.contains(at) && config[at].is_string()) return config[at];
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto json = parse_json({reinterpret_cast<const char*>(data), size}, "c");
  if (!json) return 0;
  const auto model = make_model(*json, tiny_tensors(model_type(*json)), "c");
  if (!model) {
    fuzz::require_reason(model.reason());
    return 0;
  }
  Row row = (*model)->make_row(qmm::Number::f16);
  const std::vector<int32_t> ids{1, 2, 3};
  mx::array logits = (*model)->logits(
      forward(**model, row, ids, Precision::fast), Precision::fast);
  mx::eval(logits);
  fuzz::require(logits.shape() == mx::Shape{3, (*model)->facts().vocabulary});
  return 0;
}
