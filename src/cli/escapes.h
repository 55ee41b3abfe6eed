// Backslash escapes of the command line.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace quern {

// \n, \t, \r, \\, \' and \" as the characters they stand for; another escape
// is refused.
Result<std::string> unescape(std::string_view text);

}  // namespace quern
