#include "engine/tiny_model.h"

#include <cstring>
#include <random>

#include "base/temp_dir.h"
#include "models/registry.h"

namespace quern::test {
namespace {

constexpr int kHidden = 64, kLayers = 4, kHeads = 4, kKvHeads = 2,
              kIntermediate = 96, kVocabulary = 96;

// Collects tensors and gives the bytes of a safetensors file.
class Writer {
 public:
  explicit Writer(bool bf16) : bf16_(bf16) {}

  void add(const std::string& name, std::vector<int64_t> shape, float spread,
           float center = 0) {
    size_t count = 1;
    for (int64_t size : shape) count *= size_t(size);
    std::normal_distribution<float> normal(center, spread);
    const size_t begin = data_.size();
    for (size_t i = 0; i < count; i++) {
      uint32_t bits;
      const float value = normal(random_);
      std::memcpy(&bits, &value, 4);
      const char* bytes = reinterpret_cast<const char*>(&bits);
      // The upper half of a little-endian f32 is its bf16.
      data_.append(bf16_ ? bytes + 2 : bytes, bf16_ ? 2 : 4);
    }
    header_[name] = {{"dtype", bf16_ ? "BF16" : "F32"},
                     {"shape", shape},
                     {"data_offsets", {begin, data_.size()}}};
  }

  std::string file() const {
    const std::string header = header_.dump();
    const uint64_t size = header.size();
    std::string bytes(reinterpret_cast<const char*>(&size), 8);
    return bytes + header + data_;
  }

 private:
  bool bf16_;
  std::mt19937 random_{42};
  Json header_;
  std::string data_;
};

}  // namespace

std::unique_ptr<TextModel> tiny_model(const std::string& type,
                                      const std::string& dtype, int head_dim) {
  const bool gemma = type == "gemma3_text";
  Writer w(dtype == "BF16");
  const float norm = gemma ? 0.f : 1.f;
  w.add("model.embed_tokens.weight", {kVocabulary, kHidden}, 1);
  w.add("model.norm.weight", {kHidden}, 0.1f, norm);
  for (int i = 0; i < kLayers; i++) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    auto matrix = [&](const char* name, int n, int k) {
      w.add(layer + name + ".weight", {n, k}, 0.15f);
    };
    auto gain = [&](const char* name, int size) {
      w.add(layer + name + ".weight", {size}, 0.1f, norm);
    };
    matrix("self_attn.q_proj", kHeads * head_dim, kHidden);
    matrix("self_attn.k_proj", kKvHeads * head_dim, kHidden);
    matrix("self_attn.v_proj", kKvHeads * head_dim, kHidden);
    matrix("self_attn.o_proj", kHidden, kHeads * head_dim);
    matrix("mlp.gate_proj", kIntermediate, kHidden);
    matrix("mlp.up_proj", kIntermediate, kHidden);
    matrix("mlp.down_proj", kHidden, kIntermediate);
    gain("input_layernorm", kHidden);
    gain("post_attention_layernorm", kHidden);
    if (gemma) {
      gain("pre_feedforward_layernorm", kHidden);
      gain("post_feedforward_layernorm", kHidden);
      gain("self_attn.q_norm", head_dim);
      gain("self_attn.k_norm", head_dim);
    }
  }
  Json config{{"model_type", type},
              {"hidden_size", kHidden},
              {"num_hidden_layers", kLayers},
              {"intermediate_size", kIntermediate},
              {"num_attention_heads", kHeads},
              {"num_key_value_heads", kKvHeads},
              {"head_dim", head_dim},
              {"vocab_size", kVocabulary},
              {"rms_norm_eps", 1e-5},
              {"max_position_embeddings", 8192},
              {"tie_word_embeddings", true}};
  if (gemma) {
    config["sliding_window"] = 16;
    config["sliding_window_pattern"] = 2;
  }
  const TempDir dir;
  write_file(dir.path() / "config.json", config.dump()).or_throw();
  write_file(dir.path() / "model.safetensors", w.file()).or_throw();
  return load_model(dir.path()).or_throw();
}

}  // namespace quern::test
