// Text helpers for bytes that come from outside.
#pragma once

#include <string>
#include <string_view>

namespace quern {

// Whether the bytes are well-formed UTF-8 (no surrogates, no long forms).
bool valid_utf8(std::string_view bytes);

// The bytes with control characters and ill-formed ones as \xNN.
std::string on_one_line(std::string_view bytes);

// The bytes between single quotes, fit for a one-line message: as
// on_one_line writes them, cut with "..." after `limit` bytes.
std::string in_quotes(std::string_view bytes, size_t limit = 96);

}  // namespace quern
