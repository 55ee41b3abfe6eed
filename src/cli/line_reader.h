// Lines from standard input, a terminal or a pipe.
#pragma once

#include <string>

namespace quern {

class LineReader {
 public:
  enum class Read { line, end, interrupted };

  // The next line, without its \n. `interrupted`: a signal came, and what was
  // typed of the line is dropped.
  Read next(std::string& line);

 private:
  std::string pending_;  // read and not yet handed out
  bool at_end_ = false;
};

}  // namespace quern
