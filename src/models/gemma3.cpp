// Gemma 3 text: norms before and after both halves of a block, norms of q and
// k heads, five sliding-window layers to each full one, each kind with its own
// rope.
#include <mlx/mlx.h>

#include <cmath>

#include "models/decoder.h"
#include "models/families.h"

namespace quern {
namespace {

using mx::array;

// rope_parameters' entry for a kind of layer, as transformers 5 writes it; else
// null.
const Json* layer_rope(const Config& config, const char* kind) {
  const Json* ropes = config.find("rope_parameters");
  if (!ropes || !ropes->is_object()) return nullptr;
  const auto own = ropes->find(kind);
  return own == ropes->end() ? nullptr : &*own;
}

struct Gemma3Config {
  DecoderConfig base;
  std::vector<int> windows;  // of each layer
  float local_theta, query_scale, soft_cap, final_soft_cap, norm_offset,
      embed_scale;
  const Json *global_rope, *local_rope;  // scaling, or null

  Gemma3Config(const Config& config, const Weights& weights)
      : base(config, weights) {
    const int window =
        config.integer_if("sliding_window", 1, kMostWindow).value_or(512);
    int pattern = 6;
    for (const char* key :
         {"_sliding_window_pattern", "sliding_window_pattern"}) {
      if (auto value = config.integer_if(key, 1, 4096)) pattern = *value;
    }
    windows = layer_windows(config, base.layers, window, [&](int layer) {
      return (layer + 1) % pattern != 0;
    });
    base.rope_theta = config.real_if("rope_theta").value_or(1e6f);
    local_theta = config.real_if("rope_local_base_freq").value_or(1e4f);
    global_rope = layer_rope(config, "full_attention");
    if (!global_rope) global_rope = rope_scaling(config);
    local_rope = layer_rope(config, "sliding_attention");
    query_scale =
        config.real_if("query_pre_attn_scalar").value_or(float(base.head_dim));
    if (!(query_scale > 0)) {
      config.refuse("query_pre_attn_scalar must be above 0");
    }
    soft_cap = config.real_if("attn_logit_softcapping").value_or(0);
    final_soft_cap = config.real_if("final_logit_softcapping").value_or(0);
    // GGUF files hold the norms' weights with the 1 added, and keep the scale
    // of the embeddings in f32; checkpoints round it to bf16.
    const bool gguf = config.flag("from_gguf", false);
    norm_offset = gguf ? 0.f : 1.f;
    embed_scale = std::sqrt(float(base.hidden));
    if (!gguf) {
      embed_scale = mx::astype(array(embed_scale, mx::bfloat16), mx::float32)
                        .item<float>();
    }
  }
};

class Gemma3 final : public TextModel {
 public:
  Gemma3(const Config& config, Weights& weights)
      : Gemma3(config, weights, Gemma3Config(config, weights)) {}

  array hidden(const array& tokens, const Step& step) const override {
    const array global = global_rope_.table(step.positions);
    const array local = local_rope_.table(step.positions);
    array x = vocabulary_.embed(tokens);
    for (const DecoderLayer& layer : layers_) {
      x = layer(x, step, layer.shape().window > 0 ? local : global);
    }
    return x;
  }

  array logits(const array& hidden, Precision precision) const override {
    const array y = vocabulary_.logits(hidden, precision);
    if (final_soft_cap_ <= 0) return y;
    const array cap(final_soft_cap_);
    return mx::multiply(mx::tanh(mx::divide(y, cap)), cap);
  }

  Row make_row(const KvScheme& scheme) const override {
    return empty_row(layers_, scheme);
  }

 private:
  Gemma3(const Config& config, Weights& weights, const Gemma3Config& g)
      : final_soft_cap_(g.final_soft_cap),
        global_rope_(config, g.base.rope_theta, g.base.head_dim, g.global_rope),
        local_rope_(config, g.local_theta, g.base.head_dim, g.local_rope),
        vocabulary_(weights, g.base.vocabulary, g.base.hidden,
                    !weights.has("lm_head"),
                    load_norm(weights, "model.norm", g.base.hidden, g.base.eps,
                              g.norm_offset),
                    g.embed_scale) {
    const DecoderConfig& c = g.base;
    for (int i = 0; i < c.layers; i++) {
      const std::string path = fmt::format("model.layers.{}", i);
      auto norm = [&](const char* name) {
        return load_norm(weights, path + name, c.hidden, c.eps, g.norm_offset);
      };
      const AttentionShape shape{.hidden = c.hidden,
                                 .heads = c.heads,
                                 .kv_heads = c.kv_heads,
                                 .head_dim = c.head_dim,
                                 .scale = 1 / std::sqrt(g.query_scale),
                                 .window = g.windows[i],
                                 .soft_cap = g.soft_cap,
                                 .head_norms = true,
                                 .eps = c.eps,
                                 .norm_offset = g.norm_offset};
      layers_.emplace_back(weights, path, shape, c.intermediate,
                           Gate::gelu_tanh,
                           LayerNorms{norm(".input_layernorm"),
                                      norm(".pre_feedforward_layernorm"),
                                      norm(".post_attention_layernorm"),
                                      norm(".post_feedforward_layernorm")},
                           i);
    }
    facts_ = facts_of(config, c, weights, vocabulary_);
  }

  float final_soft_cap_;
  Rope global_rope_, local_rope_;
  Vocabulary vocabulary_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace

std::unique_ptr<TextModel> make_gemma3(const Config& config, Weights& weights) {
  return std::make_unique<Gemma3>(config, weights);
}

}  // namespace quern
