// The rotary embedding a configuration asks for.
#pragma once

#include <optional>

#include "nn/config.h"
#include "ops/rope/rope.h"

namespace quern {

class Rope {
 public:
  // Types default, linear, llama3, yarn; another one throws Error by name.
  // `scaling` is the rope_scaling object or null; a rope_theta in it takes the
  // place of `theta`. `divisors` (GGUF's rope_freqs) divide the frequencies.
  Rope(const Config& config, float theta, int rotary_dims, const Json* scaling,
       std::optional<mx::array> divisors = {});

  // Cosines and sines for the positions of a step (ops/rope/rope.h).
  mx::array table(const mx::array& positions) const {
    return rope_table(positions, inv_freq_, factor_);
  }

 private:
  mx::array inv_freq_;  // f32 [rotary_dims / 2]
  float factor_ = 1;    // of yarn
};

}  // namespace quern
