// Memory and processor time of a process, seen from outside.
#pragma once

#include <vector>

#include "base/json.h"

namespace quern {

class ProcessWatch {
 public:
  // Throws Error if there is no such process, or it cannot be seen.
  explicit ProcessWatch(int pid);

  // Looks once, at `now` on the watcher's clock, in s; nothing once the
  // process is gone.
  void look(double now);

  // Mean memory of the first and of the last third of the looks, and the most;
  // mean number of cores in use from the first look to the last.
  Json json() const;
  double cores() const;
  // The last third's anonymous memory over the first third's.
  double growth() const;

 private:
  struct Look {
    double at, cpu_s;
    double resident_mb, anonymous_mb;
  };

  int pid_;
  std::vector<Look> looks_;
};

}  // namespace quern
