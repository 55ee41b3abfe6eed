#include "cli/process.h"

#include <mlx/device.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>

#include "ops/cpu_op.h"
#include "ops/kernels.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quern {

void prepare_process() {
#ifdef __GLIBC__
  // The arrays of a forward pass are large and live for a moment. By default
  // glibc maps each one and unmaps it again, and every page of it faults; kept
  // on the heap they use the same pages over and over.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
  // A closed pipe ends the program quietly, also when the parent ignores it.
  std::signal(SIGPIPE, SIG_DFL);
  // A file past the size limit is a failed write, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  kernels();  // a bad QUERN_ISA is refused here, not on another thread
  if (!mx::is_available(mx::Device::gpu)) {
    mx::set_default_device(mx::Device::cpu);
  }
}

size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    size_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

}  // namespace quern
