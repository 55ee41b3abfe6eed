#include "sample/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern {
namespace {

// |got - want| in units of the last place of a T at `want`.
template <class T>
double ulps(T got, long double want) {
  T near = static_cast<T>(want);
  T ulp = std::nextafter(near, std::numeric_limits<T>::infinity()) - near;
  return static_cast<double>(std::abs(got - want) / ulp);
}

TEST(ExpMinus, WithinTwoUlp) {
  double worst = 0;
  for (uint32_t bits = 0x30000000; bits < 0x42000000; bits += 101) {
    auto distance = std::bit_cast<float>(bits);  // 4.7e-10 to 32
    worst = std::max(worst, ulps(exp_minus(distance),
                                 std::exp(-static_cast<double>(distance))));
  }
  EXPECT_LT(worst, 2);
}

TEST(ExpMinus, Ends) {
  EXPECT_EQ(exp_minus(0), 1);
  float far = exp_minus(32);
  EXPECT_NEAR(far, 1.2664165549e-14, 1e-20);
  EXPECT_EQ(exp_minus(1e30f), far);
  EXPECT_EQ(exp_minus(std::numeric_limits<float>::infinity()), far);
}

TEST(LogOf, WithinTwoUlp) {
  double worst = 0;
  for (double x = 1e-12; x < 1e12; x *= 1.0007) {
    worst = std::max(worst, ulps(log_of(x), std::log((long double)x)));
  }
  for (double x = 0.5; x < 2; x += 0.000013) {
    worst = std::max(worst, ulps(log_of(x), std::log((long double)x)));
  }
  EXPECT_LT(worst, 2);
  EXPECT_EQ(log_of(1), 0);
}

}  // namespace
}  // namespace quern
