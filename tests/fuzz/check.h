// What the fuzz targets hold their parsers to.
#pragma once

#include <cstdlib>
#include <string>

#include "base/str.h"

namespace quern::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// A refusal is one short line of text.
inline void require_reason(const std::string& reason) {
  require(!reason.empty() && reason.size() < 4096);
  require(reason.find('\n') == std::string::npos && valid_utf8(reason));
}

}  // namespace quern::fuzz
