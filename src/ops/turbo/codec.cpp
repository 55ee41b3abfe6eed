#include "ops/turbo/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/numbers.h"
#include "ops/simd/portable.h"

namespace quern::turbo {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool all_finite(const float* x) {
  return std::all_of(x, x + kGroup, [](float v) { return std::isfinite(v); });
}

// -0 is less than +0.
bool less(float a, float b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

unsigned key_code(float x, float step, float zero, int bits) {
  const float q = std::nearbyint(x / step - zero);
  return unsigned(
      int(std::min(std::max(q, lowest_key(bits)), highest_key(bits))));
}

void encode_key_group(const float* x, int bits, uint8_t* codes, float* scale,
                      float* zero) {
  std::fill_n(codes, kGroup, 0);
  *scale = *zero = kNan;
  if (!all_finite(x)) return;
  const auto [low, high] = std::minmax_element(x, x + kGroup, less);
  const float mn = *low, mx = *high;
  *scale = (mx - mn) / (highest_key(bits) - lowest_key(bits));
  const float step = *scale + kEpsilon;
  *zero = bits == 8 ? std::nearbyint((mx + mn) / (2.f * step))
                    : std::nearbyint(mn / step);
  if (!std::isfinite(*zero)) return;
  for (int i = 0; i < kGroup; i++) {
    codes[i] = uint8_t(key_code(x[i], step, *zero, bits));
  }
}

void encode_value_group(const float* y, int bits, uint8_t* codes,
                        float* scale) {
  std::fill_n(codes, kGroup, 0);
  *scale = kNan;
  if (!all_finite(y)) return;
  float squares = 0;
  for (int i = 0; i < kGroup; i++) squares += y[i] * y[i];
  *scale = std::sqrt(squares * (1.f / kGroup));
  const float divisor = *scale + kEpsilon;
  const float* bounds = boundaries(bits);
  for (int i = 0; i < kGroup; i++) {
    const float t = y[i] / divisor;
    codes[i] = uint8_t(std::count_if(bounds, bounds + (1 << bits) - 1,
                                     [t](float b) { return t > b; }));
  }
}

}  // namespace

void pack_bits(const uint8_t* codes, int count, int bits, uint8_t* packed) {
  std::fill_n(packed, count * bits / 8, 0);
  for (int i = 0; i < count; i++) {
    const int at = i * bits, shift = at % 8;
    packed[at / 8] |= uint8_t(codes[i] << shift);
    if (shift + bits > 8) packed[at / 8 + 1] |= codes[i] >> (8 - shift);
  }
}

void unpack_bits(const uint8_t* packed, int count, int bits, uint8_t* codes) {
  const unsigned mask = (1u << bits) - 1;
  for (int i = 0; i < count; i++) {
    const int at = i * bits, shift = at % 8;
    unsigned word = packed[at / 8];
    if (shift + bits > 8) word |= unsigned(packed[at / 8 + 1]) << 8;
    codes[i] = uint8_t(word >> shift & mask);
  }
}

void fwht(float* x, int head_dim) {
  for (int h = 1; h < head_dim; h *= 2) {
    for (int i = 0; i < head_dim; i += 2 * h) {
      for (int j = i; j < i + h; j++) {
        const float a = x[j], b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
    }
  }
  const float scale = hadamard_scale(head_dim);
  for (int i = 0; i < head_dim; i++) x[i] *= scale;
}

void unrotate(float* y, int head_dim) {
  fwht(y, head_dim);
  const float* sign = signs(head_dim);
  for (int i = 0; i < head_dim; i++) y[i] *= sign[i];
}

void encode_keys(const float* x, int head_dim, int bits, uint8_t* codes,
                 uint16_t* scales, uint16_t* zeros) {
  uint8_t group[kGroup];
  for (int g = 0; g < head_dim / kGroup; g++) {
    float scale, zero;
    encode_key_group(x + g * kGroup, bits, group, &scale, &zero);
    pack_bits(group, kGroup, bits, codes + g * kGroup * bits / 8);
    scales[g] = portable::float_to_half(scale);
    zeros[g] = portable::float_to_half(zero);
  }
}

void encode_values(const float* x, int head_dim, int bits, uint8_t* codes,
                   uint16_t* scales) {
  float y[kMostHeadDim];
  const float* sign = signs(head_dim);
  for (int i = 0; i < head_dim; i++) y[i] = x[i] * sign[i];
  fwht(y, head_dim);
  uint8_t group[kGroup];
  for (int g = 0; g < head_dim / kGroup; g++) {
    float scale;
    encode_value_group(y + g * kGroup, bits, group, &scale);
    pack_bits(group, kGroup, bits, codes + g * kGroup * bits / 8);
    scales[g] = portable::float_to_half(scale);
  }
}

void decode_keys(const uint8_t* codes, ScaleRow scales, ScaleRow zeros,
                 int head_dim, int bits, float* out) {
  for (int at = 0; at < head_dim; at += kGroup) {
    uint8_t group[kGroup];
    unpack_bits(codes + at * bits / 8, kGroup, bits, group);
    const float scale =
        number_at(scales.data, scales.number, at / scales.group);
    const float zero = number_at(zeros.data, zeros.number, at / zeros.group);
    for (int i = 0; i < kGroup; i++) {
      const float code = bits == 8 ? float(int8_t(group[i])) : float(group[i]);
      out[at + i] = (code + zero) * scale;
    }
  }
}

void decode_values(const uint8_t* codes, ScaleRow scales, int head_dim,
                   int bits, const float* centroids, float* out) {
  for (int at = 0; at < head_dim; at += kGroup) {
    uint8_t group[kGroup];
    unpack_bits(codes + at * bits / 8, kGroup, bits, group);
    const float scale =
        number_at(scales.data, scales.number, at / scales.group);
    for (int i = 0; i < kGroup; i++) out[at + i] = centroids[group[i]] * scale;
  }
}

}  // namespace quern::turbo
