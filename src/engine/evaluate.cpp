#include "engine/evaluate.h"

#include <mlx/mlx.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quern {

void settle() noexcept {
  try {
    mx::synchronize();
  } catch (const std::exception&) {
    // Whoever started that work gives it up.
  }
}

void start(const std::vector<mx::array>& arrays) {
  on_device([&] { mx::async_eval(arrays); });
}

void wait(mx::array& array) {
  on_device([&] { mx::eval(array); });
}

void give_back_memory() {
  mx::clear_cache();
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace quern
