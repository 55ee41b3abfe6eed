// Ctrl-C as a wish to stop what is being done, not the program.
#pragma once

namespace quern {

// While it lives, Ctrl-C sets a flag; after it, it ends the program again.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool seen() const;
  void forget();
};

}  // namespace quern
