// The turbo codec of one row (a token's head_dim numbers of one KV head) in
// plain C++: the meaning of the vector kernels (ops/kernels_kv.inc), to the
// bit. All arithmetic is f32 in the order of docs/formats/turbo.md.
//
// Numbers that are not finite: a group of keys that holds one, and a group of
// values whose rotated row holds one, stores codes 0 and NaN for its scale and
// zero, so that it decodes to NaN. A constant group of keys so large that its
// zero is not finite in f32 (beyond 3.4e30) stores codes 0 under its own scale
// and zero. Of equal extremes -0 counts as less than +0.
#pragma once

#include <cstdint>

#include "ops/qmm/format.h"
#include "ops/turbo/format.h"

namespace quern::turbo {

// The scales (or zeros) of a row as stored: one for each `group` elements.
struct ScaleRow {
  const void* data;
  qmm::Number number = qmm::Number::f16;
  int group = kGroup;
};

// Element i owns bits [i * bits, (i + 1) * bits) of `packed`, counted from the
// lowest bit of byte 0. count * bits is a multiple of 8.
void pack_bits(const uint8_t* codes, int count, int bits, uint8_t* packed);
void unpack_bits(const uint8_t* packed, int count, int bits, uint8_t* codes);

// The normalised Walsh-Hadamard transform in place: order of Sylvester, stages
// from the nearest neighbours outward.
void fwht(float* x, int head_dim);
// signs * fwht(y): from the space in which values are stored.
void unrotate(float* y, int head_dim);

// head_dim is a multiple of 32 for keys, one of 64, 128, 256, 512 for values;
// bits are of is_key_bits and is_value_bits. Scales and zeros are f16.
void encode_keys(const float* x, int head_dim, int bits, uint8_t* codes,
                 uint16_t* scales, uint16_t* zeros);
void encode_values(const float* x, int head_dim, int bits, uint8_t* codes,
                   uint16_t* scales);

// (code + zero) * scale
void decode_keys(const uint8_t* codes, ScaleRow scales, ScaleRow zeros,
                 int head_dim, int bits, float* out);
// centroid[code] * scale, still rotated.
void decode_values(const uint8_t* codes, ScaleRow scales, int head_dim,
                   int bits, const float* centroids, float* out);

}  // namespace quern::turbo
