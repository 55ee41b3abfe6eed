#include "sample/distances.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sample/elementary.h"
#include "sample/vector_clones.h"

namespace quern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr size_t kLanes = 16;

size_t blocks_of(size_t tokens) { return (tokens + kBlock - 1) / kBlock; }

std::span<const float> block_of(std::span<const float> row, size_t block) {
  size_t begin = block * kBlock;
  return row.subspan(begin, std::min(kBlock, row.size() - begin));
}

// The largest logit of a block; +inf if one is NaN or +inf.
float block_peak(std::span<const float> block) {
  std::array<float, kLanes> peaks;
  std::array<int32_t, kLanes> bad = {};
  peaks.fill(-kInfinity);
  size_t whole = block.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      float x = block[i + j];
      peaks[j] = x > peaks[j] ? x : peaks[j];
      bad[j] |= !(x <= kLargest);
    }
  }
  for (size_t i = whole; i < block.size(); ++i) {
    peaks[0] = std::max(peaks[0], block[i]);
    bad[0] |= !(block[i] <= kLargest);
  }
  if (std::any_of(bad.begin(), bad.end(), [](int32_t b) { return b != 0; })) {
    return kInfinity;
  }
  return *std::max_element(peaks.begin(), peaks.end());
}

bool usable(float peak) { return peak >= -kLargest && peak <= kLargest; }

[[gnu::always_inline]] inline double weight(float distance,
                                            float inverse_temperature) {
  constexpr double kGrid = 0x1.8p18;  // its ulp is 2^-34
  return (exp_minus(distance * inverse_temperature) + kGrid) - kGrid;
}

double block_mass(std::span<const float> block, float inverse_temperature) {
  std::array<double, kBlock> weights = {};
  weigh(block, inverse_temperature, std::span(weights).first(block.size()));
  for (size_t half = kBlock / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) weights[i] += weights[i + half];
  }
  return weights[0];
}

}  // namespace

bool to_distances(std::span<float> logits, std::vector<float>& nearest) {
  nearest.resize(blocks_of(logits.size()));
  float peak = -kInfinity;
  for (size_t b = 0; b < nearest.size(); ++b) {
    nearest[b] = block_peak(block_of(logits, b));
    peak = std::max(peak, nearest[b]);
  }
  if (!usable(peak)) return false;
  for (float& x : logits) x = peak - x;
  for (float& x : nearest) x = peak - x;
  return true;
}

int32_t arg_max(std::span<const float> logits) {
  float peak = -kInfinity;
  size_t at = 0;
  for (size_t b = 0; b < blocks_of(logits.size()); ++b) {
    float x = block_peak(block_of(logits, b));
    if (x > peak) {
      peak = x;
      at = b;
    }
  }
  if (!usable(peak)) return -1;
  auto first = logits.begin() + at * kBlock;
  return std::find(first, logits.end(), peak) - logits.begin();
}

QUERN_VECTOR_CLONES void weigh(std::span<const float> distances,
                               float inverse_temperature,
                               std::span<double> out) {
  for (size_t i = 0; i < distances.size(); ++i) {
    out[i] = weight(distances[i], inverse_temperature);
  }
}

double mass(std::span<const float> distances, float inverse_temperature) {
  double sum = 0;
  for (size_t b = 0; b < blocks_of(distances.size()); ++b) {
    sum += block_mass(block_of(distances, b), inverse_temperature);
  }
  return sum;
}

size_t draw(std::span<const float> distances, float inverse_temperature,
            double u, std::vector<double>& scratch) {
  scratch.resize(blocks_of(distances.size()));
  double total = 0;
  for (size_t b = 0; b < scratch.size(); ++b) {
    scratch[b] = block_mass(block_of(distances, b), inverse_temperature);
    total += scratch[b];
  }
  // u * total can round up to the total; the mass is a multiple of 2^-34.
  double target = std::min(u * total, total - 0x1p-34);
  double below = 0;
  size_t b = 0;
  while (b + 1 < scratch.size() && below + scratch[b] <= target) {
    below += scratch[b++];
  }
  size_t i = b * kBlock;
  for (; i + 1 < distances.size(); ++i) {
    below += weight(distances[i], inverse_temperature);
    if (below > target) break;
  }
  return i;
}

}  // namespace quern
