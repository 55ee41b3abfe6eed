// Lines from standard input, a terminal or a pipe.
#pragma once

#include <string>

namespace quern {

class LineReader {
 public:
  // Reading ends early while `interrupts`, a descriptor, is readable.
  explicit LineReader(int interrupts) : interrupts_(interrupts) {}

  enum class Read { line, end, interrupted };

  // The next line, without its \n. `interrupted`: what was typed of the line is
  // dropped.
  Read next(std::string& line);

 private:
  int interrupts_;
  std::string pending_;  // read and not yet handed out
  bool at_end_ = false;
};

}  // namespace quern
