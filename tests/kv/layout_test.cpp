// Layout against a naive list of what each slot holds.
#include "kv/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quern {
namespace {

// Slots as a plain map: which position was written into each last.
class NaiveSlots {
 public:
  explicit NaiveSlots(int window) : window_(window) {}

  void add(int tokens, const Layout& layout) {
    for (int i = 0; i < tokens; i++, length_++) {
      slots_[layout.slot(length_)] = length_;
    }
  }
  // Whether the next token would see all it should after trimming.
  bool may_trim(int tokens, const Layout& layout) const {
    const int length = length_ - tokens;
    if (length < 0) return false;
    const int first = window_ > 0 ? std::max(0, length - window_ + 1) : 0;
    for (int p = first; p < length; p++) {
      if (slots_.at(layout.slot(p)) != p) return false;
    }
    return true;
  }
  void trim(int tokens) { length_ -= tokens; }
  int length() const { return length_; }

 private:
  int window_, length_ = 0;
  std::map<int, int> slots_;
};

TEST(Layout, AppendGrowsAndKeepsSlots) {
  Layout layout = Layout::append();
  EXPECT_EQ(layout.capacity(), 0);
  layout.add(1);
  EXPECT_EQ(layout.capacity(), 256);
  layout.add(256);
  EXPECT_EQ(layout.length(), 257);
  EXPECT_EQ(layout.capacity(), 512);
  EXPECT_EQ(layout.slot(256), 256);
  EXPECT_EQ(layout.capacity_with(10000), 10496);  // 10257 to the next 256
}

TEST(Layout, RingOf100HasRoomForAWindowAndAStep) {
  Layout layout = Layout::ring(100);
  layout.add(1);
  EXPECT_EQ(layout.capacity(), 256);
  layout.add(256);
  EXPECT_EQ(layout.capacity(), 128 + 256);
  layout.add(744);
  EXPECT_EQ(layout.length(), 1001);
  EXPECT_EQ(layout.capacity(), 384);
  EXPECT_EQ(layout.slot(384), 0);
  EXPECT_EQ(layout.slot(1000), 1000 - 2 * 384);
}

TEST(Layout, RandomHistoriesOfRingsMatchTheList) {
  std::mt19937 random(7);
  for (int history = 0; history < 300; history++) {
    const int window = 2 + int(random() % 200);
    Layout layout = Layout::ring(window);
    NaiveSlots naive(window);
    while (naive.length() < 4 * (window + 320)) {  // three wraps at least
      if (random() % 4 == 0 && naive.length() > 0) {
        const int most = layout.trimmable();
        ASSERT_TRUE(naive.may_trim(most, layout));
        if (most < naive.length()) {
          ASSERT_FALSE(naive.may_trim(most + 1, layout));
        }
        const int tokens = std::min(most, int(random() % 40));
        layout.trim(tokens);
        naive.trim(tokens);
      } else {
        const int tokens = 1 + int(random() % 64);
        layout.add(tokens);
        naive.add(tokens, layout);
      }
      ASSERT_EQ(layout.length(), naive.length());
    }
  }
}

TEST(Layout, AppendTrimsToAnyLength) {
  Layout layout = Layout::append();
  layout.add(1000);
  EXPECT_EQ(layout.trimmable(), 1000);
  layout.trim(1000);
  EXPECT_EQ(layout.length(), 0);
}

}  // namespace
}  // namespace quern
