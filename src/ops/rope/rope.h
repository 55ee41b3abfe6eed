// Rotary position embedding (Su et al., 2021).
#pragma once

#include <optional>

#include "ops/cpu_op.h"

namespace quern {

// Cosines and sines of position * inv_freq, times `factor` (yarn's attention
// factor): f32 [T, 2, R] for positions int32 [T] and inv_freq f32 [R]. The
// angle is taken in double precision. Made once a step, read by every layer.
mx::array rope_table(const mx::array& positions, const mx::array& inv_freq,
                     float factor = 1, mx::StreamOrDevice s = {});

struct RopeOptions {
  int head_dim;              // D
  bool interleaved = false;  // pairs (2i, 2i + 1), not (i, i + R)
  // Normalise each head first (qwen3, gemma3): weight [D].
  std::optional<mx::array> norm;
  float norm_eps = 1e-6f;
  float norm_offset = 0;
};

// Rotates the first 2 R of each head of x [T, H * D]; f32.
mx::array rope(const mx::array& x, const mx::array& table,
               const RopeOptions& options, mx::StreamOrDevice s = {});

}  // namespace quern
