#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/str.h"

namespace quern {
namespace {

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0) {
    fail("cannot write to stdout: {}", std::strerror(errno));
  }
}

void print_json(const Json& json) {
  print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_error(std::string_view reason) {
  write_stderr(fmt::format("quern: {}\n", on_one_line(reason)));
}

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

Progress::Progress(std::string label, int total)
    : label_(std::move(label)),
      total_(total),
      terminal_(is_terminal(STDERR_FILENO)),
      next_s_(terminal_ ? 1 : 10) {
  if (terminal_ && total_ == 0) draw(label_ + " ...");
}

Progress::~Progress() {
  if (drawn_) write_stderr("\r\033[K");
}

void Progress::update(int done) {
  const double now = watch_.seconds();
  if (now < next_s_ || total_ == 0) return;
  next_s_ = now + (terminal_ ? 0.1 : 10);
  const std::string text = fmt::format("{}: {} of {} ({:.0f} %)", label_, done,
                                       total_, 100.0 * done / total_);
  if (terminal_) {
    draw(text);
  } else {
    print_error(text);
  }
}

void Progress::draw(std::string_view text) {
  write_stderr(fmt::format("\r\033[K{}", text));
  drawn_ = true;
}

}  // namespace quern
