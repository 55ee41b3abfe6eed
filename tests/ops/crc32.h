// zlib's CRC-32, for known answers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::test {

inline uint32_t crc32(const void* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; bit++) {
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
  }
  return ~crc;
}

}  // namespace quern::test
