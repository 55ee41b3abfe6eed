// Masks against lists written from the rule.
#include "kv/masks.h"

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <random>
#include <string>

namespace quern {
namespace {

// Rows of '0' and '1', one after the other, with blanks between.
std::string text(const mx::array& mask) {
  mx::array m = mx::contiguous(mask);
  mx::eval(m);
  EXPECT_EQ(m.dtype(), mx::bool_);
  const int S = m.shape(-1);
  std::string out;
  for (size_t i = 0; i < m.size(); i++) {
    if (i > 0 && i % S == 0) out += ' ';
    out += m.data<bool>()[i] ? '1' : '0';
  }
  return out;
}

template <class Allow>  // allow(row, query, column)
std::string listed(int B, int N, int S, Allow allow) {
  std::string out;
  for (int b = 0; b < B; b++) {
    for (int i = 0; i < N; i++) {
      if (!out.empty()) out += ' ';
      for (int j = 0; j < S; j++) out += allow(b, i, j) ? '1' : '0';
    }
  }
  return out;
}

TEST(Masks, BatchedExamples) {
  const int two[] = {0, 2}, three[] = {0, 3};
  EXPECT_EQ(text(batched_mask(1, 5, two, {})), "11111 00111");
  EXPECT_EQ(text(batched_mask(2, 5, three, 2)), "00110 00011 00010 00011");
  EXPECT_EQ(batched_mask(2, 5, three, 2).shape(), (mx::Shape{2, 1, 2, 5}));
}

TEST(Masks, BatchedAreTheRule) {
  std::mt19937 random(3);
  for (int run = 0; run < 200; run++) {
    const int B = 1 + int(random() % 4), N = 1 + int(random() % 5);
    const int S = N + int(random() % 30);
    const std::optional<int> window =
        random() % 2 ? std::optional<int>(1 + int(random() % 12))
                     : std::nullopt;
    std::vector<int> pads;
    for (int b = 0; b < B; b++) pads.push_back(int(random() % (S + 1)));
    EXPECT_EQ(text(batched_mask(N, S, pads, window)),
              listed(B, N, S, [&](int b, int i, int j) {
                return j <= S - N + i && j >= pads[b] &&
                       (!window || S - N + i < j + *window);
              }));
  }
}

TEST(Masks, SerialModes) {
  using Mode = Mask::Mode;
  EXPECT_EQ(serial_mask(1, 0, {}).mode, Mode::none);
  EXPECT_EQ(serial_mask(1, 900, 4).mode, Mode::none);
  EXPECT_EQ(serial_mask(7, 0, {}).mode, Mode::causal);
  EXPECT_EQ(serial_mask(7, 100, {}).mode, Mode::causal);
  EXPECT_EQ(serial_mask(7, 0, 7).mode, Mode::causal);
  EXPECT_EQ(serial_mask(8, 0, 7).mode, Mode::array);
  EXPECT_EQ(serial_mask(2, 1, 7).mode, Mode::array);
  EXPECT_EQ(serial_rotating_mask(1, 900, 4).mode, Mode::none);
  EXPECT_EQ(serial_rotating_mask(3, 1, 4).mode, Mode::causal);
  EXPECT_EQ(serial_rotating_mask(3, 2, 4).mode, Mode::array);
  EXPECT_FALSE(serial_mask(7, 0, {}).allow);
}

TEST(Masks, SerialArraysAreTheRule) {
  for (int N : {2, 3, 9}) {
    for (int offset : {1, 4, 20}) {
      for (int window : {1, 3, 8}) {
        const Mask mask = serial_mask(N, offset, window);
        ASSERT_TRUE(mask.allow);
        EXPECT_EQ(mask.allow->shape(), (mx::Shape{N, offset + N}));
        EXPECT_EQ(text(*mask.allow),
                  listed(1, N, offset + N, [&](int, int i, int r) {
                    const int l = offset + i;
                    return l >= r && l < r + window;
                  }));
      }
    }
  }
  // Three kept tokens of a ring of 4, then two more: each sees four.
  EXPECT_EQ(text(*serial_rotating_mask(2, 50, 4).allow), "11110 01111");
}

TEST(Masks, RotatingFollowTheTrace) {
  struct Step {
    const char* mask;
    int column;
    int index, total;
    bool rotated;
    std::vector<int> pads, offsets;
    std::vector<Range> ranges;
  };
  const Step steps[] = {
      {"1111 0011", 3, 4, 4, false, {0, 2}, {4, 2}, {{0, 4}}},
      {"1111 1011", 0, 1, 5, true, {-1, 1}, {5, 3}, {{1, 4}, {0, 1}}},
      {"1111 1111", 1, 2, 6, true, {-2, 0}, {6, 4}, {{2, 4}, {0, 2}}},
      {"1111 1111", 2, 3, 7, true, {-3, -1}, {7, 5}, {{3, 4}, {0, 3}}},
  };
  BatchedRotatingState state(4, {0, 2});
  state.restore_merged(3, {3, 1});
  for (const Step& step : steps) {
    EXPECT_EQ(text(batched_rotating_mask(state, 1)), step.mask);
    EXPECT_EQ(state.begin_write(1), step.column);
    state.commit_write(1);
    EXPECT_EQ(state.ring_index(), step.index);
    EXPECT_EQ(state.total_offset(), step.total);
    EXPECT_EQ(state.rotated(), step.rotated);
    EXPECT_EQ(state.left_pad(), step.pads);
    EXPECT_EQ(state.offsets(), step.offsets);
    EXPECT_EQ(state.temporal_ranges(4), step.ranges);
  }
}

// By the rule, key for key and then column for column.
TEST(Masks, RotatingAreTheRule) {
  std::mt19937 random(5);
  for (int run = 0; run < 300; run++) {
    const int size = 2 + int(random() % 9), width = int(random() % (size + 1));
    const int more = int(random() % (3 * size));
    const int window = random() % 2 ? size : 1 + int(random() % size);
    BatchedRotatingState state(size, {0, width / 2, width});
    state.restore_merged(width, {width, width - width / 2, 0});
    for (int i = 0; i < more; i++) {
      state.begin_write(1);
      state.commit_write(1);
    }
    const int index = state.ring_index();
    const int off = std::min(size - 1, state.total_offset()), S = off + 1;
    const int trim = std::max(0, index - size);
    const bool turns = state.rotated() || index >= size;
    std::string expected = listed(3, 1, S, [&](int b, int, int column) {
      const int shift = turns ? (index >= size ? 0 : index) + 1 : 0;
      const int pad = state.left_pad()[b] - trim - turns;
      for (int j = 0; j < S; j++) {
        if ((j + shift) % S != column) continue;
        return off >= j && off < j + window && j >= pad;
      }
      return false;
    });
    EXPECT_EQ(text(batched_rotating_mask(state, 1, window)), expected);
  }
}

TEST(Masks, RotatingOfManyTokensSeeTheirWindows) {
  BatchedRotatingState state(4, {0, 3});
  state.restore_merged(4, {9, 1});
  // Keys: the last three, then two more; row 1 has one token.
  EXPECT_EQ(text(batched_rotating_mask(state, 2)), "11110 01111 00110 00111");
}

}  // namespace
}  // namespace quern
