#include "kv/layout.h"

#include <algorithm>
#include <cstdint>

#include "ops/attention/attention.h"

namespace quern {

int Layout::most() const {
  return is_ring() ? ring_capacity(window_) : kMostTokens;
}

int Layout::capacity_for(int tokens) const {
  const int64_t rounded = (int64_t(tokens) + 255) / 256 * 256;
  return int(std::min<int64_t>(rounded, most()));
}

int Layout::room() const {
  if (is_ring() && capacity_ == most()) return kMostTokens;
  return capacity_ - length_;
}

void Layout::reserve(int tokens) {
  capacity_ = std::max(capacity_, capacity_for(tokens));
}

int Layout::capacity_with(int tokens) const {
  const int64_t needed = int64_t(length_) + tokens;
  if (needed <= capacity_) return capacity_;
  if (!is_ring() && needed > kMostTokens) {
    fail("[kv.append] {} tokens, the most a row can hold is {}", needed,
         kMostTokens);
  }
  return capacity_for(int(std::max<int64_t>(needed, grown(capacity_))));
}

void Layout::add(int tokens) {
  capacity_ = capacity_with(tokens);
  length_ += tokens;
  lost_ = std::max(lost_, length_ - capacity_);
}

void Layout::restore(int length, int kept) {
  const int most = is_ring() ? std::min(length, capacity_for(length)) : length;
  const int least = is_ring() ? std::min(length, window_ - 1) : length;
  if (length < 0 || length > kMostTokens || kept < least || kept > most) {
    fail("[kv.restore] {} tokens of {}, expected {} to {}", kept, length, least,
         most);
  }
  capacity_ = capacity_for(length);
  length_ = length;
  lost_ = length - kept;
}

int Layout::trimmable() const {
  if (!is_ring()) return length_;
  // After trimming t tokens the next one sees
  // [length - t - window + 1, length - t).
  if (lost_ == 0) return length_;
  return std::max(0, length_ - window_ + 1 - lost_);
}

void Layout::trim(int tokens) { length_ -= tokens; }

}  // namespace quern
