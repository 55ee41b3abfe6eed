// Wakes one waiter from any thread.
#pragma once

#include <functional>
#include <mutex>

namespace quern {

class Bell {
 public:
  // `wake` is called at the first ring after each taken(); it must not block.
  explicit Bell(std::function<void()> wake);

  void ring();
  bool taken();  // whether it rang since the last call
  void mute();   // no call of `wake` comes after this one

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  bool rung_ = false;
};

}  // namespace quern
