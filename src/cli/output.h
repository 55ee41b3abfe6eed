// What commands write: results on stdout, all else on stderr.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"

namespace quern {

// Writes to stdout at once; throws Error if that fails.
void print(std::string_view text);
// One line of JSON; bytes that are not UTF-8 become U+FFFD.
void print_json(const Json& json);
// One line on stderr that begins with "quern: ".
void print_error(std::string_view reason);

bool is_terminal(int fd);

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// How far a piece of work is, on stderr: on a terminal one line that is
// rewritten and goes away at the end; elsewhere a plain line every ten
// seconds. Nothing for work of less than a second whose total is known.
class Progress {
 public:
  // `total` = 0: not known; the label is shown at once, on a terminal only.
  explicit Progress(std::string label, int total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int done);

 private:
  void draw(std::string_view text);

  std::string label_;
  int total_;
  bool terminal_;
  bool drawn_ = false;
  double next_s_;  // when to show the next figure
  Stopwatch watch_;
};

}  // namespace quern
