// The gate of gated feed-forward blocks (Shazeer, 2020).
#pragma once

#include "ops/cpu_op.h"

namespace quern {

enum class Gate { silu, gelu_tanh };

// act(gate) * up, elementwise; f32.
mx::array gated(Gate gate_kind, const mx::array& gate, const mx::array& up,
                mx::StreamOrDevice s = {});

}  // namespace quern
