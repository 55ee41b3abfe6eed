// Qwen3: Llama's graph with a norm on each head of q and k.
#include "models/decoder.h"
#include "models/families.h"

namespace quern {

std::unique_ptr<TextModel> make_qwen3(const Config& config, Weights& weights) {
  const DecoderConfig c(config, weights);
  return std::make_unique<Decoder>(
      config, c, weights,
      Decoder::Traits{.windows = qwen_windows(config, c.layers),
                      .head_norms = true});
}

}  // namespace quern
