// What the tests of ops and of weight codes share.
#pragma once

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error_of.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern::test {

namespace mx = mlx::core;

inline std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kIsas) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

// A test that runs on every instruction set this CPU has.
class OnEachIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { use_isa(GetParam()); }
  void TearDown() override { set_threads(0); }
};

inline std::string name_of(const testing::TestParamInfo<Isa>& info) {
  return isa_name(info.param);
}

#define QUERN_ON_EACH_ISA(Fixture) \
  INSTANTIATE_TEST_SUITE_P(        \
      Isa, Fixture, testing::ValuesIn(test::available_isas()), test::name_of)

inline std::vector<float> normal_floats(size_t count, int seed,
                                        float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

inline mx::array to_array(const std::vector<float>& values, mx::Shape shape) {
  return mx::array(values.data(), std::move(shape), mx::float32);
}

// The values of an array as f32, in row order.
inline std::vector<float> to_floats(const mx::array& a) {
  mx::array f = mx::contiguous(mx::astype(a, mx::float32));
  mx::eval(f);
  return {f.data<float>(), f.data<float>() + f.size()};
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0;
}
inline bool same_bits(const std::vector<float>& a,
                      const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

}  // namespace quern::test
