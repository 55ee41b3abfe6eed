#include "engine/meter.h"

#include <algorithm>

namespace quern {

void Meter::add(double now, uint64_t count) {
  if (rate(now) == 0) first_ = now;
  const auto number = int64_t(now / kSlotSeconds);
  Slot& slot = slots_[number % kSlots];
  if (slot.number != number) slot = {number, 0};
  slot.count += count;
}

double Meter::rate(double now) const {
  if (first_ < 0) return 0;
  const auto number = int64_t(now / kSlotSeconds);
  uint64_t sum = 0;
  for (const Slot& slot : slots_) {
    if (slot.number > number - kSlots) sum += slot.count;
  }
  // The newest slot is not full yet.
  const double window = now - (number - kSlots + 1) * kSlotSeconds;
  return sum / std::max(std::min(window, now - first_), kSlotSeconds);
}

}  // namespace quern
