// exp and log of our own: the same bits on every machine, and plain enough for
// the compiler to vectorise.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace quern {

// exp(-distance) for distance in [0, inf], within 2 ulp up to 32; beyond that
// it stays at exp(-32).
[[gnu::always_inline]] inline float exp_minus(float distance) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves n in the low bits
  // Bits of floats that are not negative sort like integers; the compiler
  // vectorises this minimum but not that of floats.
  constexpr auto kFarthest = std::bit_cast<int32_t>(32.f);
  auto bits = std::min(std::bit_cast<int32_t>(distance), kFarthest);
  float x = -std::bit_cast<float>(bits);
  float shifted = x * kLog2e + kRound;
  float n = shifted - kRound;
  float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  float p = 1.f / 5040;                        // Taylor, to r^7
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1;
  auto exponent = std::bit_cast<uint32_t>(shifted) << 23;  // n * 2^23
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}

// The natural logarithm of a positive, finite x, within 2 ulp.
double log_of(double x);

}  // namespace quern
