// Starting work on the device, and what happens when that fails half way.
#pragma once

#include <vector>

#include "ops/cpu_op.h"

namespace quern {

// Starts the evaluation of `arrays`. If it throws, nothing of it is still
// running: its memory may be let go.
void start(const std::vector<mx::array>& arrays);

// Waits until nothing is running on this thread's stream; forgets faults of
// work that was.
void settle() noexcept;

}  // namespace quern
