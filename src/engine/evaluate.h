// Work on the device, and what happens when it fails half way.
#pragma once

#include <vector>

#include "base/error.h"
#include "ops/cpu_op.h"

namespace quern {

// Something failed on this thread's stream. MLX does not tell whose work it
// was: it may be any that is under way.
class DeviceFault : public Error {
 public:
  using Error::Error;
};

// Waits until nothing is running on this thread's stream; forgets faults of
// work that was.
void settle() noexcept;

// Runs `act`. What it throws becomes a DeviceFault, thrown when nothing is
// running any more: memory may be let go.
template <class Act>
void on_device(Act act) {
  try {
    act();
  } catch (const std::exception& e) {
    settle();
    throw DeviceFault(e.what());
  }
}

// Starts the evaluation of `arrays`.
void start(const std::vector<mx::array>& arrays);
// Evaluates `array`.
void wait(mx::array& array);

// Gives the memory that the allocators keep for later back to the system.
void give_back_memory();

}  // namespace quern
