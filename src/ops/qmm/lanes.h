// One lane's codes of a unit (ops/qmm/format.h): where packing puts them.
#pragma once

#include <cstdint>
#include <cstring>

namespace quern::qmm {

// Bits [from, from + count) of the 8 quads of a lane, as words of two quads,
// into a plane of `count` lines.
template <int count>
inline void put_plane(const uint64_t (&quads)[4], int from, int lane,
                      uint8_t* lines) {
  constexpr uint64_t kMask = 0x0101010101010101u * ((1u << count) - 1);
  uint64_t words[count == 4 ? 2 : 1] = {};  // of two lines each
  for (int i = 0; i < 4; i++) {
    const uint64_t bits = quads[i] >> from & kMask;
    if constexpr (count == 4) {
      words[i % 2] |= bits << i / 2 * 4;
    } else {
      words[0] |= bits << i * 2;
    }
  }
  const auto put = [&](int line, uint32_t word) {
    std::memcpy(lines + 64 * line + 4 * lane, &word, 4);
  };
  if constexpr (count == 1) {
    put(0, uint32_t(words[0]) | uint32_t(words[0] >> 32) << 1);
  } else {
    for (int i = 0; i < count / 2; i++) {
      put(2 * i, uint32_t(words[i]));
      put(2 * i + 1, uint32_t(words[i] >> 32));
    }
  }
}

// 32 codes, one a byte, into lane `lane` of a unit of `bits` (2 to 6, or 8): its
// four bytes of every line are the lane's own.
inline void put_lane(const uint8_t* codes, int bits, int lane, uint8_t* unit) {
  uint64_t quads[4];
  std::memcpy(quads, codes, sizeof quads);
  switch (bits) {
    case 2: return put_plane<2>(quads, 0, lane, unit);
    case 3:
      put_plane<2>(quads, 0, lane, unit);
      return put_plane<1>(quads, 2, lane, unit + 128);
    case 4: return put_plane<4>(quads, 0, lane, unit);
    case 5:
      put_plane<4>(quads, 0, lane, unit);
      return put_plane<1>(quads, 4, lane, unit + 256);
    case 6:
      put_plane<4>(quads, 0, lane, unit);
      return put_plane<2>(quads, 4, lane, unit + 256);
    default:
      for (int quad = 0; quad < 8; quad++) {
        std::memcpy(unit + 64 * quad + 4 * lane, codes + 4 * quad, 4);
      }
  }
}

}  // namespace quern::qmm
