// Text helpers for bytes that come from outside.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern {

// What the bytes begin with, read as UTF-8 (Unicode 15, table 3-7).
struct Utf8Front {
  size_t length;  // of the character that the first byte begins; 0 if none
  size_t fits;  // the bytes at the front that can be of it, at least the first

  bool is_character() const { return fits == length; }
};
Utf8Front utf8_front(std::string_view bytes);  // not empty

// Whether the bytes are well-formed UTF-8 (no surrogates, no long forms).
bool valid_utf8(std::string_view bytes);

// Capital letters of ASCII as small ones.
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
std::string lower(std::string_view text);

// The bytes with control characters and ill-formed ones as \xNN.
std::string on_one_line(std::string_view bytes);

// The bytes between single quotes, fit for a one-line message: as
// on_one_line writes them, cut with "..." after `limit` bytes.
std::string in_quotes(std::string_view bytes, size_t limit = 96);

}  // namespace quern
