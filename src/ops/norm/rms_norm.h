// Root mean square normalisation (Zhang and Sennrich, 2019).
#pragma once

#include <optional>

#include "ops/cpu_op.h"

namespace quern {

// A norm that another op applies on its way.
struct RmsNorm {
  mx::array weight;  // f32 [D]
  float eps = 1e-6f;
  float offset = 0;
};

// y = x / sqrt(mean(x^2) + eps) * (weight + offset) (+ residual), over the last
// dimension; f32. offset is 1 for checkpoints that store weight - 1 (Gemma).
mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps,
                   float offset = 0,
                   const std::optional<mx::array>& residual = std::nullopt,
                   mx::StreamOrDevice s = {});

inline mx::array rms_norm(const mx::array& x, const RmsNorm& norm,
                          mx::StreamOrDevice s = {}) {
  return rms_norm(x, norm.weight, norm.eps, norm.offset, std::nullopt, s);
}

}  // namespace quern
