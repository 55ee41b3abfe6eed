#include "ops/affine/codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/numbers.h"

namespace quern::affine {
namespace {

struct Grid {
  float scale, bias;
};

// The extreme that is farther from zero becomes a code's exact value.
Grid grid_of(const float* x, int group, float most) {
  const auto [low, high] = std::minmax_element(x, x + group);
  const bool negative = std::fabs(*low) > std::fabs(*high);
  const float width = std::max((*high - *low) / most, kEpsilon);
  const float scale = negative ? width : -width;
  const float edge = negative ? *low : *high;
  const float steps = std::nearbyint(edge / scale);
  return steps == 0 ? Grid{scale, 0} : Grid{edge / steps, edge};
}

bool all_finite(const float* x, int group) {
  return std::all_of(x, x + group, [](float v) { return std::isfinite(v); });
}

}  // namespace

void encode(const float* x, int size, int bits, int group, qmm::Number number,
            uint8_t* codes, void* scales, void* biases) {
  const float most = float((1 << bits) - 1);
  std::fill_n(codes, size * bits / 8, 0);
  for (int g = 0; g < size / group; g++, x += group) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const bool finite = all_finite(x, group);
    const Grid grid = finite ? grid_of(x, group, most) : Grid{kNan, kNan};
    set_number(scales, number, g, grid.scale);
    set_number(biases, number, g, grid.bias);
    if (!finite || grid.scale == 0) continue;
    for (int i = 0; i < group; i++) {
      float q = std::nearbyint((x[i] - grid.bias) / grid.scale);
      q = std::min(std::max(q, 0.f), most);
      const int at = (g * group + i) * bits;
      codes[at / 8] |= uint8_t(unsigned(q) << at % 8);
    }
  }
}

void decode(const uint8_t* codes, const void* scales, const void* biases,
            int size, int bits, int group, qmm::Number number, float* out) {
  const unsigned mask = (1u << bits) - 1;
  for (int i = 0; i < size; i++) {
    const unsigned code = codes[i * bits / 8] >> i * bits % 8 & mask;
    out[i] = float(code) * number_at(scales, number, i / group) +
             number_at(biases, number, i / group);
  }
}

}  // namespace quern::affine
