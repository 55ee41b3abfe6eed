#include "base/str.h"

#include <fmt/format.h>

#include <cstdint>

namespace quern {
namespace {

struct Lead {
  size_t length;      // bytes of the character; 0 if no character begins so
  uint8_t low, high;  // the range of the second byte
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

std::string escaped(std::string_view bytes, size_t limit) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    if (i >= limit) {
      out += "...";
      break;
    }
    const Utf8Front front = utf8_front(bytes.substr(i));
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (!front.is_character() || byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
      ++i;
    } else {
      out += bytes.substr(i, front.length);
      i += front.length;
    }
  }
  return out;
}

}  // namespace

Utf8Front utf8_front(std::string_view bytes) {
  const Lead lead = lead_of(bytes[0]);
  size_t fits = 1;
  while (fits < bytes.size() && fits < lead.length) {
    const uint8_t byte = bytes[fits];
    const uint8_t low = fits == 1 ? lead.low : 0x80;
    const uint8_t high = fits == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++fits;
  }
  return {lead.length, fits};
}

bool valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Front front = utf8_front(bytes);
    if (!front.is_character()) return false;
    bytes.remove_prefix(front.length);
  }
  return true;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string on_one_line(std::string_view bytes) {
  return escaped(bytes, bytes.size());
}

std::string in_quotes(std::string_view bytes, size_t limit) {
  return fmt::format("'{}'", escaped(bytes, limit));
}

}  // namespace quern
