// Qwen2 and Qwen2.5: Llama's graph with biases on q, k and v.
#include "models/decoder.h"
#include "models/families.h"

namespace quern {

std::unique_ptr<TextModel> make_qwen2(const Config& config, Weights& weights) {
  const DecoderConfig c(config, weights);
  return std::make_unique<Decoder>(
      config, c, weights,
      Decoder::Traits{.windows = qwen_windows(config, c.layers)});
}

}  // namespace quern
