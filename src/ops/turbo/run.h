// The turbo codec on the CPU: evaluated arrays of any strides, row by row.
#pragma once

#include "ops/turbo/turbo.h"

namespace quern::turbo {

void run_encode_keys(const mx::array& k, int bits, mx::array& codes,
                     mx::array& scales, mx::array& zeros);
void run_encode_values(const mx::array& v, int bits, mx::array& codes,
                       mx::array& scales);
void run_decode_keys(const KeyPlanes& planes, int bits, mx::array& out);
// signs: null leaves the values rotated. out is f32 or bf16.
void run_decode_values(const ValuePlanes& planes, int bits,
                       const float* centroids, const float* signs,
                       mx::array& out);
void run_unrotate(const mx::array& x, mx::array& out);

}  // namespace quern::turbo
