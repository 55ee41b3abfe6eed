// How many of something a second, over the last seconds.
#pragma once

#include <array>
#include <cstdint>

namespace quern {

// Times are seconds from any fixed moment, in order.
class Meter {
 public:
  void add(double now, uint64_t count);
  // Over the window, or since the first count after silence if that is less.
  double rate(double now) const;

 private:
  static constexpr int kSlots = 20;
  static constexpr double kSlotSeconds = 0.25;

  struct Slot {
    int64_t number = -1;  // of its time: floor(now / kSlotSeconds)
    uint64_t count = 0;
  };
  std::array<Slot, kSlots> slots_;
  double first_ = -1;
};

}  // namespace quern
