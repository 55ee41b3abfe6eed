#include "models/decoder.h"

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

constexpr int kMost = 1 << 24;

// Of one token: the outputs of all layers, which the graph holds until its
// step is done, and what lies between the ops of one layer, in f32; the widest
// input in int8 with its scales and sums.
size_t token_bytes(const DecoderConfig& c) {
  const size_t queries = size_t(c.heads) * c.head_dim;
  const size_t keys = size_t(c.kv_heads) * c.head_dim;
  const size_t hidden = c.hidden, intermediate = c.intermediate;
  const size_t outputs = (c.layers + 1) * hidden;  // the embedding's too
  const size_t inside = 2 * queries + 2 * keys + 2 * hidden + intermediate;
  return sizeof(float) * (outputs + inside) +
         2 * std::max({hidden, queries, intermediate});
}

}  // namespace

DecoderConfig::DecoderConfig(const Config& config, const Weights& weights) {
  hidden = config.integer("hidden_size", 1, kMost);
  layers = config.integer("num_hidden_layers", 1, 4096);
  intermediate = config.integer("intermediate_size", 1, kMost);
  heads = config.integer("num_attention_heads", 1, 65536);
  kv_heads = config.integer_if("num_key_value_heads", 1, 65536).value_or(heads);
  head_dim = config.integer_if("head_dim", 1, 4096).value_or(hidden / heads);
  vocabulary = config.integer("vocab_size", 1, kMost);
  context =
      config.integer_if("max_position_embeddings", 1, 1 << 30).value_or(0);
  eps = config.real("rms_norm_eps");
  if (!(eps >= 0)) config.refuse("rms_norm_eps must not be negative");
  if (heads % kv_heads != 0) {
    config.refuse(fmt::format(
        "num_attention_heads ({}) must be a multiple of num_key_value_heads "
        "({})",
        heads, kv_heads));
  }
  if (head_dim < 2 || head_dim % 2) {
    config.refuse(fmt::format("head_dim must be even, got {}", head_dim));
  }
  rope_theta = config.real_if("rope_theta").value_or(10000);
  tied = config.flag("tie_word_embeddings", !weights.has("lm_head"));
}

std::vector<int> layer_windows(const Config& config, int layers, int window,
                               const std::function<bool(int layer)>& slides) {
  std::vector<int> windows;
  const Json* types = config.find("layer_types");
  if (types && (!types->is_array() || int(types->size()) != layers)) {
    config.refuse(fmt::format("layer_types must be a list of {}", layers));
  }
  for (int i = 0; i < layers; i++) {
    if (!types) {
      windows.push_back(slides(i) ? window : 0);
    } else if ((*types)[i] == "sliding_attention" && window > 0) {
      windows.push_back(window);
    } else if ((*types)[i] == "full_attention") {
      windows.push_back(0);
    } else {
      config.refuse(
          fmt::format("layer_types[{}] is {}, expected full_attention, or "
                      "sliding_attention with a sliding_window",
                      i, brief((*types)[i])));
    }
  }
  return windows;
}

std::vector<int> qwen_windows(const Config& config, int layers) {
  int window = 0, full_layers = layers;
  if (config.flag("use_sliding_window", false)) {
    window = config.integer_if("sliding_window", 0, kMostWindow).value_or(0);
    full_layers =
        config.integer_if("max_window_layers", 0, 4096).value_or(layers);
  }
  return layer_windows(config, layers, window,
                       [&](int layer) { return layer >= full_layers; });
}

const Json* rope_scaling(const Config& config) {
  if (const Json* scaling = config.find("rope_scaling")) return scaling;
  return config.find("rope_parameters");
}

ModelFacts facts_of(const Config& config, const DecoderConfig& c,
                    const Weights& weights, const Vocabulary& vocabulary) {
  return {.type = config.text("model_type"),
          .vocabulary = c.vocabulary,
          .layers = c.layers,
          .head_dims = std::vector<int>(c.layers, c.head_dim),
          .context = c.context,
          .weight_bytes = weights.bytes(),
          .step_bytes = weights.bytes() - vocabulary.looked_up_bytes(),
          .token_bytes = token_bytes(c),
          .key_biases = weights.has_bias("model.layers.0.self_attn.k_proj")};
}

Row empty_row(const std::vector<DecoderLayer>& layers, const KvScheme& scheme) {
  std::vector<std::unique_ptr<LayerState>> states;
  for (const DecoderLayer& layer : layers) {
    states.push_back(layer.make_state(scheme));
  }
  return Row(std::move(states));
}

Decoder::Decoder(const Config& config, const DecoderConfig& c, Weights& weights,
                 const Traits& traits)
    : rope_(config, c.rope_theta, c.head_dim, rope_scaling(config),
            weights.vector_if("rope_freqs.weight", c.head_dim / 2)),
      vocabulary_(weights, c.vocabulary, c.hidden, c.tied,
                  load_norm(weights, "model.norm", c.hidden, c.eps)) {
  for (int i = 0; i < c.layers; i++) {
    const std::string path = fmt::format("model.layers.{}", i);
    const AttentionShape shape{
        .hidden = c.hidden,
        .heads = c.heads,
        .kv_heads = c.kv_heads,
        .head_dim = c.head_dim,
        .scale = 1 / std::sqrt(float(c.head_dim)),
        .window = traits.windows[i],
        .interleaved_rope = config.flag("rope_interleaved", false),
        .head_norms = traits.head_norms,
        .eps = c.eps};
    auto norm = [&](const char* name) {
      return load_norm(weights, path + name, c.hidden, c.eps);
    };
    layers_.emplace_back(
        weights, path, shape, c.intermediate, Gate::silu,
        LayerNorms{norm(".input_layernorm"), norm(".post_attention_layernorm")},
        i);
  }
  facts_ = facts_of(config, c, weights, vocabulary_);
}

mx::array Decoder::hidden(const mx::array& tokens, const Step& step) const {
  const mx::array table = rope_.table(step.positions);
  mx::array x = vocabulary_.embed(tokens);
  for (const DecoderLayer& layer : layers_) x = layer(x, step, table);
  return x;
}

mx::array Decoder::logits(const mx::array& hidden, Precision precision) const {
  return vocabulary_.logits(hidden, precision);
}

Row Decoder::make_row(const KvScheme& scheme) const {
  return empty_row(layers_, scheme);
}

}  // namespace quern
