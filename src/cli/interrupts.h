// Signals as a wish to stop what is being done, not the program.
#pragma once

#include <csignal>
#include <vector>

namespace quern {

// While it lives, Ctrl-C (or other signals) sets a flag; after it, they end the
// program again. One at a time.
class Interrupts {
 public:
  explicit Interrupts(std::vector<int> signals = {SIGINT});
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool seen() const;
  void forget();
  void wait() const;  // until the flag is set
  // Readable while the flag is set: for a poll beside other input.
  int descriptor() const;

 private:
  const std::vector<int> signals_;
};

}  // namespace quern
