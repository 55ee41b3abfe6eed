// From the weight codes of model files to the tiles the kernels read.
#pragma once

#include "base/error.h"
#include "files/tensor.h"
#include "ops/qmm/qmm.h"

namespace quern {

// A 2-D tensor of a GGUF block type or of F32, F16, BF16 [N, K], repacked in
// its own precision: every code and scale bit is kept, only moved.
// The file's pages are given back as they are read.
Result<Weight> pack_weight(const TensorView& tensor);

// MLX's affine form (w = scale * q + bias by groups along K):
// codes U32 [N, K * bits / 32], scales and biases [N, K / group].
Result<Weight> pack_affine(const TensorView& codes, const TensorView& scales,
                           const TensorView& biases, int bits, int group);

// A plain tensor of F32, F16 or BF16 as an f32 array of its shape.
Result<mx::array> to_f32(const TensorView& tensor);

}  // namespace quern
