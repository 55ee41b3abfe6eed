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
      if (!holds(p, layout)) return false;
    }
    return true;
  }
  // The last tokens that are there.
  int kept(const Layout& layout) const {
    int first = length_;
    while (first > 0 && holds(first - 1, layout)) first--;
    return length_ - first;
  }
  // Only the last `kept` tokens, in the slots of another layout.
  void restore(int kept, const Layout& layout) {
    slots_.clear();
    for (int p = length_ - kept; p < length_; p++) slots_[layout.slot(p)] = p;
  }
  void trim(int tokens) { length_ -= tokens; }
  int length() const { return length_; }

 private:
  bool holds(int position, const Layout& layout) const {
    const auto slot = slots_.find(layout.slot(position));
    return slot != slots_.end() && slot->second == position;
  }

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
      if (random() % 16 == 0) {
        const int most = layout.kept();
        const int least = std::min(naive.length(), window - 1);
        const int kept = least + int(random() % uint32_t(most - least + 1));
        layout = Layout::ring(window);
        layout.restore(naive.length(), kept);
        naive.restore(kept, layout);
      } else if (random() % 4 == 0 && naive.length() > 0) {
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
      ASSERT_LE(layout.kept(), naive.kept(layout));
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
