#include "base/str.h"

#include <fmt/format.h>

namespace quern {
namespace {

// The length of the well-formed UTF-8 character at the front, 0 if it is not
// one (Unicode 15, table 3-7).
size_t character_length(std::string_view s) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto between = [&](size_t i, int low, int high) {
    return i < s.size() && at(i) >= low && at(i) <= high;
  };
  const int lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return between(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const int low = lead == 0xE0 ? 0xA0 : 0x80;
    const int high = lead == 0xED ? 0x9F : 0xBF;
    return between(1, low, high) && between(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const int low = lead == 0xF0 ? 0x90 : 0x80;
    const int high = lead == 0xF4 ? 0x8F : 0xBF;
    return between(1, low, high) && between(2, 0x80, 0xBF) &&
                   between(3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

std::string escaped(std::string_view bytes, size_t limit) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    if (i >= limit) {
      out += "...";
      break;
    }
    const size_t length = character_length(bytes.substr(i));
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
      ++i;
    } else {
      out += bytes.substr(i, length);
      i += length;
    }
  }
  return out;
}

}  // namespace

bool valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = character_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string on_one_line(std::string_view bytes) {
  return escaped(bytes, bytes.size());
}

std::string in_quotes(std::string_view bytes, size_t limit) {
  return fmt::format("'{}'", escaped(bytes, limit));
}

}  // namespace quern
