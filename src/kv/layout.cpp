#include "kv/layout.h"

#include <algorithm>
#include <cstdint>

#include "ops/attention/attention.h"

namespace quern {

int Layout::capacity_with(int tokens) const {
  const int64_t needed = int64_t(length_) + tokens;
  if (needed <= capacity_) return capacity_;
  const int64_t grown =
      capacity_ < 4096 ? capacity_ * 2 : capacity_ + int64_t(capacity_) / 4;
  const int64_t most = is_ring() ? ring_capacity(window_) : kMostTokens;
  if (!is_ring() && needed > most) {
    fail("[kv.append] {} tokens, the most a row can hold is {}", needed, most);
  }
  const int64_t rounded = (std::max(needed, grown) + 255) / 256 * 256;
  return int(std::min(rounded, most));
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
