// The lowest rate of a transfer.
#pragma once

#include <chrono>
#include <cstddef>

namespace quern {

// Each stretch of a transfer, of as many bytes as the lowest rate brings in
// `patience_s`, has to come within that time: what came fast before is no
// credit for later.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSlowest = 1024;  // bytes a second

  Pace(double patience_s, Clock::time_point now)
      : patience_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(patience_s))),
        stretch_(size_t(patience_s * kSlowest)),
        deadline_(now + patience_) {}

  // The deadline once `bytes` of it have passed in all.
  Clock::time_point after(size_t bytes, Clock::time_point now) {
    if (bytes - begin_ > stretch_) {
      begin_ = bytes;
      deadline_ = now + patience_;
    }
    return deadline_;
  }

 private:
  const Clock::duration patience_;
  const size_t stretch_;
  size_t begin_ = 0;  // of the stretch
  Clock::time_point deadline_;
};

}  // namespace quern
