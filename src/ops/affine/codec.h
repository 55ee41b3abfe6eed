// MLX's affine codes of one row in plain C++: x = scale * code + bias by groups
// of 32 or 64, 4 or 8 bits. The meaning of the vector kernel
// (ops/kernels_kv.inc), and the same bytes as mlx::quantize gives for the row
// in the type of its scales, to the bit.
//
// A group that holds a NaN or an infinity stores codes 0 under a NaN scale and
// bias. A constant group beyond 3.4e31, whose scale comes out as 0, stores
// codes 0 too, and decodes to its value.
#pragma once

#include <cstdint>

#include "ops/qmm/format.h"

namespace quern::affine {

constexpr float kEpsilon = 1e-7f;

static constexpr bool is_bits(int bits) { return bits == 4 || bits == 8; }
static constexpr bool is_group(int group) { return group == 32 || group == 64; }

// codes: size * bits / 8 bytes, the first code in the lowest bits (MLX's words
// of 32 bits, little-endian); scales and biases: one a group, of type `number`.
// size is a multiple of group.
void encode(const float* x, int size, int bits, int group, qmm::Number number,
            uint8_t* codes, void* scales, void* biases);
// scale * code + bias in f32, rounded twice.
void decode(const uint8_t* codes, const void* scales, const void* biases,
            int size, int bits, int group, qmm::Number number, float* out);

}  // namespace quern::affine
