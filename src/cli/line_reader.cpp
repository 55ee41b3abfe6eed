#include "cli/line_reader.h"

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
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) {
      pending_.append(bytes, count);
    } else if (count == 0) {
      at_end_ = true;
    } else if (errno == EINTR) {
      pending_.clear();
      return Read::interrupted;
    } else {
      fail("cannot read from stdin: {}", std::strerror(errno));
    }
  }
}

}  // namespace quern
