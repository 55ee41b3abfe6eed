#include "sample/random.h"

#include <gtest/gtest.h>

#include <set>

namespace quern {
namespace {

using Block = std::array<uint32_t, 4>;

// Random123's known answers for philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, TakesItsBitsFromPhilox) {
  // (0xe169c58d6627e8d5 >> 11) / 2^53
  EXPECT_DOUBLE_EQ(uniform(0, 0, 0), 0.8805201978886142);
}

TEST(Uniform, EachArgumentCounts) {
  std::set<double> seen;
  for (uint64_t seed : {1ull, 2ull, 1ull << 32}) {
    for (uint64_t position : {0ull, 1ull, 1ull << 32}) {
      for (uint32_t index : {0u, 1u}) {
        double u = uniform(seed, position, index);
        EXPECT_TRUE(u >= 0 && u < 1) << u;
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 18u);
}

TEST(Uniform, SpreadsEvenly) {
  std::array<int, 16> bins = {};
  constexpr int kDraws = 64000;
  for (int i = 0; i < kDraws; ++i) {
    ++bins[static_cast<size_t>(uniform(42, i, 0) * 16)];
  }
  double chi_square = 0;
  for (int count : bins) {
    chi_square += (count - 4000.0) * (count - 4000.0) / 4000.0;
  }
  EXPECT_LT(chi_square, 37.7);  // 15 degrees of freedom, p = 0.001
}

TEST(FreshSeed, NeverRepeats) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(fresh_seed());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace quern
