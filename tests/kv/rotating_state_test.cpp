// BatchedRotatingState against naive lists of what each row has seen.
#include "kv/rotating_state.h"

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <algorithm>
#include <random>

#include "base/error_of.h"
#include "kv/masks.h"

namespace quern {
namespace {

TEST(RotatingState, OffsetsAreMinusThePadsUnlessGiven) {
  const BatchedRotatingState state(8, {0, 3});
  EXPECT_EQ(state.offsets(), (std::vector{0, -3}));
  EXPECT_EQ(state.batch_size(), 2);
  EXPECT_EQ(state.valid_length(), 0);
  EXPECT_TRUE(state.trimmable());
  EXPECT_EQ(BatchedRotatingState(8, {0, 3}, std::vector{5, 1}).offsets(),
            (std::vector{5, 1}));
}

TEST(RotatingState, RefusesWhatDoesNotFit) {
  EXPECT_EQ(
      test::error_of([] { BatchedRotatingState(4, {0}, std::vector{1, 2}); }),
      "[kv.state] 1 rows have 2 offsets");
  EXPECT_EQ(test::error_of([] { BatchedRotatingState(0, {0}); }),
            "[kv.state] a window of 0 tokens");
  BatchedRotatingState state(4, {0, 1});
  const int keep[] = {0, 2};
  EXPECT_EQ(test::error_of([&] { state.filter(keep); }),
            "[kv.filter] no row 2 of 2");
}

TEST(RotatingState, GrowsOvershootsAndTrims) {
  BatchedRotatingState state(4, {0, 1});
  state.mark_grown(0);
  EXPECT_EQ(state.begin_write(6), 0);
  state.commit_write(6);
  EXPECT_EQ(state.ring_index(), 6);
  EXPECT_EQ(state.valid_length(), 4);
  EXPECT_FALSE(state.trimmable());
  state.trim_overshoot(0);
  EXPECT_EQ(state.ring_index(), 6);
  state.trim_overshoot(2);
  EXPECT_EQ(state.ring_index(), 4);
  EXPECT_EQ(state.left_pad(), (std::vector{-2, -1}));
  EXPECT_EQ(state.offsets(), (std::vector{6, 5}));
}

TEST(RotatingState, TrimTakesWhatThereIs) {
  BatchedRotatingState state(10, {0, 1});
  state.begin_write(5);
  state.commit_write(5);
  EXPECT_EQ(state.trim(2), 2);
  EXPECT_EQ(state.ring_index(), 3);
  EXPECT_EQ(state.offsets(), (std::vector{3, 2}));
  EXPECT_EQ(state.left_pad(), (std::vector{0, 1}));
  EXPECT_EQ(state.trim(9), 3);
  EXPECT_EQ(state.total_offset(), 0);
}

// What the state says of a buffer, beside lists of the tokens of each row.
class History {
 public:
  explicit History(int seed) : random_(seed), size_(2 + below(12)) {}

  void run() {
    start();
    while (written_ < 4 * size_) {  // three wraps at least
      switch (below(12)) {
        case 0: return_some(); break;
        case 1: reorder(); break;
        case 2: merge_again(); break;
        default: write(); break;
      }
      check();
    }
  }

 private:
  int below(int n) { return int(random_() % unsigned(n)); }

  // Rows of other lengths, put together.
  void start() {
    std::vector<std::vector<int>> rows;
    for (int b = 0, B = 1 + below(4); b < B; b++) {
      rows.emplace_back();
      for (int i = 0, n = below(3 * size_); i < n; i++) {
        rows.back().push_back(next_++);
      }
    }
    rows_ = rows;
    restore();
  }

  // The buffer of all rows' last tokens.
  void restore() {
    int width = 0;
    for (const auto& row : rows_) {
      width = std::max(width, std::min(size_, int(row.size())));
    }
    std::vector<int> pads, offsets;
    buffer_.clear();
    for (const auto& row : rows_) {
      const int held = std::min(size_, int(row.size()));
      pads.push_back(width - held);
      offsets.push_back(int(row.size()));
      buffer_.emplace_back(pads.back(), -1);
      buffer_.back().insert(buffer_.back().end(), row.end() - held, row.end());
    }
    state_.emplace(size_, pads);
    state_->restore_merged(width, offsets);
  }

  int length() const { return int(buffer_[0].size()); }

  void write() {
    if (state_->total_offset() >= length() && length() < size_) {
      const int prev = state_->total_offset();
      const int more = std::min(1 + below(4), size_ - prev);
      for (auto& row : buffer_) row.insert(row.end(), more, -1);
      state_->mark_grown(prev);
    }
    mask_ = batched_rotating_mask(*state_, 1);
    const int column = state_->begin_write(1);
    for (size_t b = 0; b < rows_.size(); b++) {
      rows_[b].push_back(next_);
      buffer_[b][column] = next_++;
    }
    state_->commit_write(1);
    written_++;
  }

  void return_some() {
    int most = state_->trimmable() ? state_->total_offset() : 0;
    for (int offset : state_->offsets()) most = std::min(most, offset);
    const int taken = below(std::max(most, 0) + 1);
    EXPECT_EQ(state_->trim(taken), taken);
    for (auto& row : rows_) row.resize(row.size() - taken);
    mask_.reset();
  }

  void reorder() {
    std::vector<int> keep;
    for (int i = 0, n = 1 + below(4); i < n; i++) {
      keep.push_back(below(int(rows_.size())));
    }
    std::vector<std::vector<int>> rows, buffer;
    for (int i : keep) {
      rows.push_back(rows_[i]);
      buffer.push_back(buffer_[i]);
    }
    rows_ = rows;
    buffer_ = buffer;
    state_->filter(keep);
    mask_.reset();
  }

  // Another row joins.
  void merge_again() {
    rows_.emplace_back();
    for (int i = 0, n = below(2 * size_); i < n; i++) {
      rows_.back().push_back(next_++);
    }
    if (rows_.size() > 4) rows_.erase(rows_.begin());
    restore();
    mask_.reset();
  }

  void check() {
    for (size_t b = 0; b < rows_.size(); b++) {
      ASSERT_EQ(state_->offsets()[b], int(rows_[b].size()));
      std::vector<int> order;
      for (const Range& r : state_->temporal_ranges(length())) {
        order.insert(order.end(), buffer_[b].begin() + r.begin,
                     buffer_[b].begin() + r.end);
      }
      ASSERT_EQ(int(order.size()), state_->valid_length());
      order.erase(order.begin(),
                  order.begin() + std::max(0, state_->left_pad()[b]));
      const int held = std::min(size_, int(rows_[b].size()));
      ASSERT_EQ(order, std::vector<int>(rows_[b].end() - held, rows_[b].end()));
      if (mask_) check_mask(int(b), held);
    }
  }

  // The mask of the last write shows the row's last tokens, and no others.
  void check_mask(int b, int held) {
    mx::array mask = *mask_;
    mx::eval(mask);
    const int S = mask.shape(-1);
    ASSERT_EQ(S, state_->valid_length());
    std::vector<int> seen;
    for (int column = 0; column < S; column++) {
      if (mask.data<bool>()[b * S + column]) seen.push_back(buffer_[b][column]);
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen, std::vector<int>(rows_[b].end() - held, rows_[b].end()));
  }

  std::mt19937 random_;
  int size_;
  std::vector<std::vector<int>> rows_, buffer_;
  std::optional<BatchedRotatingState> state_;
  std::optional<mx::array> mask_;
  int next_ = 0, written_ = 0;  // tokens are numbers that go up
};

TEST(RotatingState, RandomHistoriesMatchTheLists) {
  for (int seed = 0; seed < 300; seed++) {
    SCOPED_TRACE(seed);
    History(seed).run();
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace quern
