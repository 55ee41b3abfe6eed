#include "server/bell.h"

#include <utility>

namespace quern {

Bell::Bell(std::function<void()> wake) : wake_(std::move(wake)) {}

void Bell::ring() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(rung_, true) && wake_) wake_();
}

bool Bell::taken() {
  const std::lock_guard lock(mutex_);
  return std::exchange(rung_, false);
}

void Bell::mute() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
}

}  // namespace quern
