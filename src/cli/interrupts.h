// Ctrl-C as a wish to stop what is being done, not the program.
#pragma once

namespace quern {

// While it lives, Ctrl-C sets a flag; after it, it ends the program again.
// One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool seen() const;
  void forget();
  // Readable while the flag is set: for a poll beside other input.
  int descriptor() const;
};

}  // namespace quern
