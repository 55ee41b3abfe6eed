// Llama (Touvron et al., 2023), and what shares its graph: Mistral, SmolLM.
#include "models/decoder.h"
#include "models/families.h"

namespace quern {

std::unique_ptr<TextModel> make_llama(const Config& config, Weights& weights) {
  const DecoderConfig c(config, weights);
  const int window =
      config.integer_if("sliding_window", 0, kMostWindow).value_or(0);
  // Mistral's first releases slide in every layer; Llama's only where
  // layer_types says so.
  const bool mistral = config.text("model_type") == "mistral";
  return std::make_unique<Decoder>(
      config, c, weights,
      Decoder::Traits{.windows = layer_windows(config, c.layers, window,
                                               [&](int) { return mistral; })});
}

}  // namespace quern
