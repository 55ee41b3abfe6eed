// What the families share, and the plain pre-norm decoder that llama, qwen2
// and qwen3 are.
#pragma once

#include <functional>
#include <vector>

#include "models/model.h"

namespace quern {

struct DecoderConfig {
  int hidden, layers, intermediate, heads, kv_heads, head_dim, vocabulary,
      context;
  float eps, rope_theta;
  bool tied;

  // Reads Hugging Face's field names; where the configuration does not say
  // whether the head is tied, `weights` does.
  DecoderConfig(const Config& config, const Weights& weights);
};

// Each layer's sliding window, 0 = full attention: `window` where
// "layer_types" says that it slides, without them where `slides` does.
std::vector<int> layer_windows(const Config& config, int layers, int window,
                               const std::function<bool(int layer)>& slides);

// The windows of qwen2 and qwen3: layers from max_window_layers on slide, if
// use_sliding_window is set.
std::vector<int> qwen_windows(const Config& config, int layers);

// rope_scaling, or rope_parameters where it is kept there; null without one.
const Json* rope_scaling(const Config& config);

// What the program wants to know of a model, once it has all its weights.
ModelFacts facts_of(const Config& config, const DecoderConfig& c,
                    const Weights& weights, const Vocabulary& vocabulary);

// An empty row of a model of these layers.
Row empty_row(const std::vector<DecoderLayer>& layers, const KvScheme& scheme);

// h = x + attention(norm(x)); y = h + mlp(norm(h))
class Decoder final : public TextModel {
 public:
  struct Traits {
    std::vector<int> windows;  // of each layer, see layer_windows
    bool head_norms = false;   // norms of q and k heads
  };
  Decoder(const Config& config, const DecoderConfig& c, Weights& weights,
          const Traits& traits);

  mx::array hidden(const mx::array& tokens, const Step& step) const override;
  mx::array logits(const mx::array& hidden, Precision precision) const override;
  Row make_row(const KvScheme& scheme) const override;

 private:
  Rope rope_;
  Vocabulary vocabulary_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace quern
