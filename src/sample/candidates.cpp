#include "sample/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "sample/elementary.h"

namespace quern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distances are not negative, so their bits sort like the values.
uint32_t sort_key(float distance) { return std::bit_cast<uint32_t>(distance); }

// The nearest distance at which the mass up to and including it reaches
// `limit`; +inf if it never does. A radix select over the 31 bits of the keys.
float distance_at_mass(std::span<const float> distances,
                       std::span<const double> weights, double limit) {
  struct Digit {
    int shift, bits;
  };
  uint32_t prefix = 0;  // the digits found so far
  double below = 0;     // the mass of the keys with a smaller prefix
  for (auto [shift, bits] : {Digit{20, 11}, Digit{10, 10}, Digit{0, 10}}) {
    std::array<double, 2048> bins = {};
    uint32_t digit_mask = (1u << bits) - 1;
    for (size_t i = 0; i < distances.size(); ++i) {
      uint32_t key = sort_key(distances[i]) >> shift;
      if (key >> bits == prefix) bins[key & digit_mask] += weights[i];
    }
    uint32_t digit = 0;
    while (digit <= digit_mask && below + bins[digit] < limit) {
      below += bins[digit++];
    }
    if (digit > digit_mask) return kInfinity;
    prefix = prefix << bits | digit;
  }
  return std::bit_cast<float>(prefix);
}

}  // namespace

template <class Keep>
void Candidates::filter(Keep keep) {
  size_t kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    bool stays = keep(i);
    ids_[kept] = ids_[i];
    distances_[kept] = distances_[i];
    kept += stays;
  }
  ids_.resize(kept);
  distances_.resize(kept);
}

void Candidates::collect(std::span<const float> distances,
                         std::span<const float> nearest, float reach) {
  auto within = [&](float distance) { return distance <= reach; };
  size_t room = kBlock * std::count_if(nearest.begin(), nearest.end(), within);
  ids_.resize(room);
  distances_.resize(room);
  size_t count = 0;
  for (size_t b = 0; b < nearest.size(); ++b) {
    if (!within(nearest[b])) continue;
    size_t end = std::min((b + 1) * kBlock, distances.size());
    for (size_t i = b * kBlock; i < end; ++i) {
      ids_[count] = static_cast<int32_t>(i);
      distances_[count] = distances[i];
      count += within(distances[i]);
    }
  }
  ids_.resize(count);
  distances_.resize(count);
}

void Candidates::keep_top_p(float top_p, double total) {
  weigh_all();
  float cut = distance_at_mass(distances_, weights_, top_p * total);
  filter([&](size_t i) { return distances_[i] <= cut; });
}

void Candidates::keep_min_p(float min_p) {
  float cut = min_p_reach(min_p);
  filter([&](size_t i) { return distances_[i] <= cut; });
}

void Candidates::drop_top_choices(float threshold,
                                  std::span<const int32_t> exempt) {
  weigh_all();
  double limit = threshold * mass(distances_, 1);
  float least = -1;  // the farthest distance above the threshold
  for (size_t i = 0; i < size(); ++i) {
    if (weights_[i] > limit) least = std::max(least, distances_[i]);
  }
  filter([&](size_t i) {
    return distances_[i] >= least ||
           std::find(exempt.begin(), exempt.end(), ids_[i]) != exempt.end();
  });
}

void Candidates::keep_top_k(int k) {
  if (static_cast<size_t>(k) >= size()) return;
  order_.assign(distances_.begin(), distances_.end());
  std::nth_element(order_.begin(), order_.begin() + (k - 1), order_.end());
  float cut = order_[k - 1];
  auto nearer = [&](float distance) { return distance < cut; };
  auto equals = k - std::count_if(distances_.begin(), distances_.end(), nearer);
  filter([&](size_t i) {
    return distances_[i] < cut || (distances_[i] == cut && equals-- > 0);
  });
}

void Candidates::rebase() {
  float nearest = *std::min_element(distances_.begin(), distances_.end());
  for (float& distance : distances_) distance -= nearest;
}

void Candidates::weigh_all() {
  weights_.resize(size());
  weigh(distances_, 1, weights_);
}

float top_p_reach(float top_p, double total, size_t tokens) {
  // All tokens of at most this weight hold at most 1 - top_p of the mass.
  double least = (1 - top_p) * total / tokens;
  return least > 0x1p-27 ? static_cast<float>(-log_of(least)) + 0.01f
                         : kInfinity;
}

float top_k_reach(std::span<const float> nearest, int k,
                  std::vector<float>& scratch) {
  if (static_cast<size_t>(k) > nearest.size()) return kInfinity;
  scratch.assign(nearest.begin(), nearest.end());
  std::nth_element(scratch.begin(), scratch.begin() + (k - 1), scratch.end());
  return scratch[k - 1];
}

float min_p_reach(float min_p) { return static_cast<float>(-log_of(min_p)); }

}  // namespace quern
