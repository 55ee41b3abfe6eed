#include "ops/qmm/format.h"

#include <fmt/format.h>

#include "ops/numbers.h"

namespace quern::qmm {

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
