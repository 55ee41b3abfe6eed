#include "server/http_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/str.h"

namespace quern {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_alphanumeric(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool triple = text[i] == '%' && i + 2 < text.size();
    const size_t high =
        triple ? kHexDigits.find(lower(text[i + 1])) : text.npos;
    const size_t low = triple ? kHexDigits.find(lower(text[i + 2])) : text.npos;
    if (high == text.npos || low == text.npos) {
      out += text[i];
    } else {
      out += char(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

bool sane_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return is_alphanumeric(c) ||
                  std::string_view("._:/+=-").find(c) != std::string_view::npos;
         });
}

std::string fresh_id() {
  thread_local std::random_device random;
  return fmt::format("req_{:08x}{:08x}{:08x}", random(), random(), random());
}

bool is_json_type(std::string_view content_type) {
  const std::string type =
      lower(trimmed(content_type.substr(0, content_type.find(';'))));
  return type == "application/json" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

bool is_known_key(std::string_view key, std::span<const std::string> keys) {
  bool known = false;
  for (const std::string& one : keys) known |= equal_in_constant_time(key, one);
  return known;
}

std::string chunk(std::string_view bytes) {
  return bytes.empty() ? ""
                       : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string http_date(int64_t seconds) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT",
                     fmt::gmtime(std::time_t(seconds)));
}

}  // namespace quern
