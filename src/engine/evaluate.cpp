#include "engine/evaluate.h"

#include <mlx/mlx.h>

namespace quern {

void start(const std::vector<mx::array>& arrays) {
  try {
    mx::async_eval(arrays);
  } catch (...) {
    settle();
    throw;
  }
}

void settle() noexcept {
  try {
    mx::synchronize();
  } catch (const std::exception&) {
    // Whoever waits for that work hears of it.
  }
}

}  // namespace quern
