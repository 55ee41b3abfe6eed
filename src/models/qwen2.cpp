// Qwen2 and Qwen2.5: Llama's graph with biases on q, k and v.
#include "models/decoder.h"
#include "models/families.h"

namespace quern {

std::unique_ptr<TextModel> make_qwen2(const Config& config, Weights& weights) {
  const int layers = config.integer("num_hidden_layers", 1, 4096);
  int window = 0, full_layers = layers;
  if (config.flag("use_sliding_window", false)) {
    window = config.integer_if("sliding_window", 0, kMostWindow).value_or(0);
    full_layers =
        config.integer_if("max_window_layers", 0, 4096).value_or(layers);
  }
  return std::make_unique<Decoder>(
      config, weights,
      Decoder::Traits{.windows = layer_windows(
                          config, layers, window, [&](int layer, int w) {
                            return layer >= full_layers ? w : 0;
                          })});
}

}  // namespace quern
