#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace quern {

LineReader::Read LineReader::next(std::string& line) {
  while (true) {
    if (const size_t end = pending_.find('\n'); end != pending_.npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return Read::line;
    }
    if (at_end_) {
      line = std::exchange(pending_, {});
      return line.empty() ? Read::end : Read::line;
    }
    pollfd inputs[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_, POLLIN, 0}};
    if (::poll(inputs, 2, -1) < 0 && errno != EINTR) {
      fail("cannot wait for stdin: {}", std::strerror(errno));
    }
    if (inputs[1].revents & POLLIN) {
      pending_.clear();
      return Read::interrupted;
    }
    if (inputs[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) {
      pending_.append(bytes, count);
    } else if (count == 0) {
      at_end_ = true;
    } else if (errno != EINTR) {
      fail("cannot read from stdin: {}", std::strerror(errno));
    }
  }
}

}  // namespace quern
