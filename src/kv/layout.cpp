#include "kv/layout.h"

#include <algorithm>

#include "ops/attention/attention.h"

namespace quern {

int Layout::capacity_with(int tokens) const {
  if (is_ring()) return ring_capacity(window_);
  const int needed = length_ + tokens;
  if (needed <= capacity_) return capacity_;
  const int grown = capacity_ < 4096 ? capacity_ * 2 : capacity_ + capacity_ / 4;
  return qmm::round_up(std::max(needed, grown), 256);
}

void Layout::add(int tokens) {
  capacity_ = capacity_with(tokens);
  length_ += tokens;
  written_ = std::max(written_, length_);
}

int Layout::trimmable() const {
  if (!is_ring()) return length_;
  // Positions below `lost` were overwritten; after trimming t tokens the next
  // one sees [length - t - window + 1, length - t).
  const int lost = std::max(0, written_ - capacity_);
  if (lost == 0) return length_;
  return std::max(0, length_ - window_ + 1 - lost);
}

void Layout::trim(int tokens) { length_ -= tokens; }

}  // namespace quern
