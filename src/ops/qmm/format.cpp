#include "ops/qmm/format.h"

#include <fmt/format.h>

#include <cstring>

#include "ops/numbers.h"

namespace quern::qmm {
namespace {

// Bits [from, from + count) of the 8 quads into a plane of `count` lines.
template <int count>
void put_plane(const uint8_t* codes, int from, int row, uint8_t* lines) {
  const uint32_t mask = 0x01010101u * ((1u << count) - 1);
  for (int line = 0; line < count; line++) {
    uint32_t bytes = 0;
    for (int j = 0; j < 8 / count; j++) {
      uint32_t quad;
      std::memcpy(&quad, codes + 4 * (line + count * j), 4);
      bytes |= (quad >> from & mask) << (count * j);
    }
    std::memcpy(lines + 64 * line + 4 * row, &bytes, 4);
  }
}

}  // namespace

void put_unit(const uint8_t* codes, int bits, int row, uint8_t* unit) {
  int done = 0;
  auto put = [&]<int count>() {
    if (!(bits & count)) return;
    put_plane<count>(codes, done, row, unit + 64 * done);
    done += count;
  };
  put.template operator()<8>();
  put.template operator()<4>();
  put.template operator()<2>();
  put.template operator()<1>();
}

size_t Format::scale_bytes(int k) const {
  size_t bytes = 0;
  switch (scales) {
    case Scales::none: return 0;
    case Scales::pair:
      bytes = size_t(k / group) * 2 * kTileRows * number_bytes(number);
      break;
    case Scales::single: bytes = size_t(k / 32) * kTileRows * 2; break;
    case Scales::k_min:
    case Scales::k_nibble: bytes = size_t(k / 256) * kTileRows * 20; break;
    case Scales::k_signed: bytes = size_t(k / 256) * kTileRows * 18; break;
  }
  return (bytes + 63) / 64 * 64;
}

size_t Format::code_bytes(int k) const {
  return size_t(round_up(k, kUnit)) * kTileRows * bits / 8;
}

std::string Format::name() const {
  static constexpr const char* kScales[] = {"dense", "pair",     "single",
                                            "k_min", "k_nibble", "k_signed"};
  if (dense()) return fmt::format("dense {}", number_name(number));
  return fmt::format("{}-bit {}/{} {}", bits, kScales[int(scales)], group,
                     number_name(number));
}

}  // namespace quern::qmm
