// What the families' configurations share, and the plain pre-norm decoder that
// llama, qwen2 and qwen3 are.
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

// Each layer's sliding window (0 = full attention): from "layer_types", else
// `otherwise(layer, window)`.
std::vector<int> layer_windows(
    const Config& config, int layers, int window,
    const std::function<int(int layer, int window)>& otherwise);

// rope_scaling, or rope_parameters where it is kept there; null without one.
const Json* rope_scaling(const Config& config);

// h = x + attention(norm(x)); y = h + mlp(norm(h))
class Decoder final : public TextModel {
 public:
  struct Traits {
    bool head_norms = false;   // norms of q and k heads
    std::vector<int> windows;  // of each layer
  };
  Decoder(const Config& config, Weights& weights, const Traits& traits);

  mx::array hidden(const mx::array& tokens, const Step& step) const override;
  mx::array logits(const mx::array& hidden, Precision precision) const override;
  Row make_row(qmm::Number number) const override;

 private:
  Decoder(const Config& config, Weights& weights, const Traits& traits,
          const DecoderConfig& c);

  struct Block {
    Norm input_norm, post_norm;
    Attention attention;
    GatedMlp mlp;
  };

  Rope rope_;
  Vocabulary vocabulary_;
  std::vector<Block> blocks_;
  Norm norm_;
};

}  // namespace quern
