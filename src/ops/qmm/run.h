// A projection on plain memory, for the nodes that it is a part of.
#pragma once

#include <span>

#include "ops/qmm/qmm.h"

namespace quern {

// x [rows, K] -> out[i] [rows, widths()[i]], plus residual [rows, N] or null.
// On the calling thread and the pool; x and out share no memory.
void run_projection(const Projection& projection, Precision precision,
                    const float* x, int rows, const float* residual,
                    std::span<float* const> out);

}  // namespace quern
