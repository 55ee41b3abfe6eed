// Byte-exact model files for the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"

namespace quern::test {

// Appends little-endian numbers and text.
class Blob {
 public:
  Blob& u8(uint8_t value) { return number(value, 1); }
  Blob& u32(uint32_t value) { return number(value, 4); }
  Blob& u64(uint64_t value) { return number(value, 8); }
  Blob& raw(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Blob& str(std::string_view text) { return u64(text.size()).raw(text); }
  Blob& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Blob& number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += char(value >> (8 * i) & 0xFF);
    return *this;
  }

  std::string bytes_;
};

inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace quern::test
