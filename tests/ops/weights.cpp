#include "ops/weights.h"

#include <cmath>
#include <random>

#include "ops/support.h"

namespace quern::test {
namespace {

using qmm::Format;
using qmm::kTileRows;
using qmm::Number;
using qmm::Scales;

void put_number(Number number, float x, uint8_t* at) {
  if (number == Number::f32) {
    std::memcpy(at, &x, 4);
  } else if (number == Number::f16) {
    const mx::float16_t h(x);
    std::memcpy(at, &h, 2);
  } else {
    const mx::bfloat16_t h(x);
    std::memcpy(at, &h, 2);
  }
}

// Writes numbers over the random bytes of a tile, line by line.
class NumberLines {
 public:
  NumberLines(std::mt19937& random, uint8_t* at) : random_(random), at_(at) {}

  void put(Number number, float scale) {
    std::normal_distribution<float> normal(0, scale);
    for (int row = 0; row < kTileRows; row++) {
      put_number(number, normal(random_), at_);
      at_ += qmm::number_bytes(number);
    }
  }
  void skip(int bytes) { at_ += bytes; }

 private:
  std::mt19937& random_;
  uint8_t* at_;
};

void put_scales(const Format& f, int k, NumberLines lines) {
  const float step = 2.f / float(1 << std::min(f.bits, 8));
  switch (f.scales) {
    case Scales::none:
      for (int i = 0; i < qmm::round_up(k, qmm::kUnit); i++) {
        lines.put(f.number, 1);
      }
      break;
    case Scales::pair:
      for (int i = 0; i < k / f.group; i++) {
        lines.put(f.number, step);
        lines.put(f.number, 1);
      }
      break;
    case Scales::single:
      for (int i = 0; i < k / 32; i++) lines.put(Number::f16, step);
      break;
    case Scales::k_min:
    case Scales::k_nibble:
      for (int i = 0; i < k / 256; i++) {
        const float most = f.scales == Scales::k_min ? 64 : 16;
        lines.put(Number::f16, step / most);
        lines.put(Number::f16, 1 / most);
        lines.skip(256);
      }
      break;
    case Scales::k_signed:
      for (int i = 0; i < k / 256; i++) {
        lines.put(Number::f16, step / 64);
        lines.skip(256);
      }
      break;
  }
}

}  // namespace

std::vector<Format> main_formats() {
  std::vector<Format> formats = {
      {32, Scales::none, 0, 0, Number::f32},
      {16, Scales::none, 0, 0, Number::f16},
      {16, Scales::none, 0, 0, Number::bf16},
      {4, Scales::single, 32, 8, Number::f16},     // Q4_0
      {5, Scales::single, 32, 16, Number::f16},    // Q5_0
      {8, Scales::single, 32, 128, Number::f16},   // Q8_0
      {2, Scales::k_nibble, 16, 0, Number::f16},   // Q2_K
      {3, Scales::k_signed, 16, 4, Number::f16},   // Q3_K
      {4, Scales::k_min, 32, 0, Number::f16},      // Q4_K
      {5, Scales::k_min, 32, 0, Number::f16},      // Q5_K
      {6, Scales::k_signed, 16, 32, Number::f16},  // Q6_K
  };
  int i = 0;
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    const int group = 32 << i % 3;
    formats.push_back({bits, Scales::pair, group, 0, Number(i++ * 2 % 3)});
  }
  return formats;
}

std::vector<Format> all_formats() {
  std::vector<Format> formats = main_formats();
  std::erase_if(formats, [](auto& f) { return f.scales == Scales::pair; });
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      for (Number number : {Number::f32, Number::f16, Number::bf16}) {
        formats.push_back({bits, Scales::pair, group, 0, number});
      }
    }
  }
  return formats;
}

Weight random_weight(const Format& f, int n, int k, int seed) {
  std::mt19937 random(seed);
  mx::array tiles(mx::allocator::malloc(f.bytes(n, k)), {int(f.bytes(n, k))},
                  mx::uint8);
  auto* bytes = tiles.data<uint8_t>();
  for (size_t i = 0; i < tiles.size(); i++) bytes[i] = uint8_t(random() >> 8);
  for (size_t at = 0; at < tiles.size(); at += f.tile_bytes(k)) {
    put_scales(f, k, NumberLines(random, bytes + at));
  }
  return {f, n, k, tiles};
}

std::vector<int> sizes_of_k(const Format& f) {
  if (f.dense()) return {1, 7, 130};
  const int least =
      f.scales == Scales::pair || f.scales == Scales::single ? f.group : 256;
  return {least, 3 * least};
}

std::vector<double> product(const float* x, const std::vector<float>& w, int n,
                            int k) {
  std::vector<double> y(n);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < k; j++) y[i] += double(x[j]) * w[size_t(i) * k + j];
  }
  return y;
}

std::vector<float> rounded_to_int8(const float* x, int k) {
  std::vector<float> rounded(k);
  for (int at = 0; at < k; at += 32) {
    float most = 0;
    for (int i = at; i < at + 32; i++) most = std::max(most, std::fabs(x[i]));
    const float inverse = most > 0 ? 127.f / most : 0;
    for (int i = at; i < at + 32; i++) {
      rounded[i] = most / 127.f * std::nearbyint(x[i] * inverse);
    }
  }
  return rounded;
}

std::vector<double> magnitudes(const float* x, const std::vector<float>& w,
                               int n, int k) {
  double sum = 0;
  for (int j = 0; j < k; j++) sum += std::fabs(x[j]);
  std::vector<double> all(n);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < k; j++) {
      all[i] = std::max(all[i], std::fabs(double(w[size_t(i) * k + j])));
    }
    all[i] *= sum;
  }
  return all;
}

}  // namespace quern::test
