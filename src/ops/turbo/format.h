// What the turbo codec's rows are made of (docs/formats/turbo.md). For kernels
// as well: everything is static, so that no function compiled for another
// instruction set is linked in its place.
#pragma once

#include "ops/turbo/tables.h"

namespace quern::turbo {

constexpr int kGroup = 32;  // elements that share a scale, as encoded
constexpr int kMostHeadDim = 512;
constexpr float kEpsilon = 1e-8f;

static constexpr bool is_head_dim(int d) {
  return d == 64 || d == 128 || d == 256 || d == 512;
}
static constexpr bool is_value_bits(int b) {
  return b == 2 || b == 3 || b == 4 || b == 5 || b == 8;
}
static constexpr bool is_key_bits(int b) { return is_value_bits(b) && b != 3; }

// Key codes are signed bytes at 8 bits, else unsigned.
static constexpr float lowest_key(int bits) { return bits == 8 ? -127.f : 0.f; }
static constexpr float highest_key(int bits) {
  return bits == 8 ? 127.f : float((1 << bits) - 1);
}

template <int D>
struct SignFloats {
  float v[D];
  constexpr explicit SignFloats(const uint32_t* words) : v() {
    for (int i = 0; i < D; i++) v[i] = words[i / 32] >> i % 32 & 1 ? -1.f : 1.f;
  }
};
inline constexpr SignFloats<64> kSignFloats64{kSigns64};
inline constexpr SignFloats<128> kSignFloats128{kSigns128};
inline constexpr SignFloats<256> kSignFloats256{kSigns256};
inline constexpr SignFloats<512> kSignFloats512{kSigns512};

// -1 or 1 for each element of a head; null for a head_dim without a table.
static constexpr const float* signs(int head_dim) {
  switch (head_dim) {
    case 64: return kSignFloats64.v;
    case 128: return kSignFloats128.v;
    case 256: return kSignFloats256.v;
    case 512: return kSignFloats512.v;
  }
  return nullptr;
}

// 1 / sqrt(head_dim) in f32.
static constexpr float hadamard_scale(int head_dim) {
  switch (head_dim) {
    case 64: return 0x1p-3f;
    case 128: return 0x1.6a09e6p-4f;
    case 256: return 0x1p-4f;
  }
  return 0x1.6a09e6p-5f;
}

// Of 2^bits value codes, ascending; null where there is no table.
static constexpr const float* centroids(int bits) {
  switch (bits) {
    case 2: return kCentroids2;
    case 3: return kCentroids3;
    case 4: return kCentroids4;
    case 5: return kCentroids5;
    case 8: return kCentroids8;
  }
  return nullptr;
}

// The 2^bits - 1 bounds between them: a code is the count of bounds below.
static constexpr const float* boundaries(int bits) {
  switch (bits) {
    case 2: return kBoundaries2;
    case 3: return kBoundaries3;
    case 4: return kBoundaries4;
    case 5: return kBoundaries5;
    case 8: return kBoundaries8;
  }
  return nullptr;
}

}  // namespace quern::turbo
