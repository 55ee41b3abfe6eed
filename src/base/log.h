// What the program tells while it runs: lines on stderr, with the time.
#pragma once

#include <string_view>

namespace quern {

enum class LogLevel { debug, info, warning, error, off };

// Lines below `level` are dropped; at first that is info. Thread-safe, as all
// here.
void set_log_level(LogLevel level);

// One line; control characters and bytes that are not UTF-8 are escaped. Never
// waits for stderr: when its reader is too far behind, the oldest lines go.
void log(LogLevel level, std::string_view line);

}  // namespace quern
