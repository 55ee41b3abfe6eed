// How a weight matrix [N, K] lies in memory for the matmul kernels: tiles of
// 16 rows, so that one kernel serves every weight code and every batch size
// with the lanes of a vector over rows. Sums over K never cross lanes, which
// keeps a row's result the same in any company (the numeric contract).
//
// Tile = [scales][codes], each a whole number of 64-byte lines; the last tile
// is padded with zero rows. K is padded to a multiple of 32 (dense only; every
// code's group divides K).
//
// Codes come in units of 32 k: 64 * bits bytes that hold 8 quads of
// [16 rows][4 k] bytes, cut into bit planes of 4, 2 and 1 bits:
//   8 bits        8 lines, quad i in line i
//   4-bit plane   4 lines, quad i in line i % 4, nibble i / 4
//   2-bit plane   2 lines, quad i in line i % 2, bits 2 * (i / 2)
//   1-bit plane   1 line, quad i in bit i
// 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2 planes, the low bits first.
// Dense weights (16 or 32 bits) lie as [K][16 rows].
//
// Scales of a tile, in order of K:
//   pair      per group:  s[16], m[16]                     w = s * q + m
//   single    per 32:     s[16] f16                        w = s * (q - zero)
//   k_min     per 256:    d[16], dmin[16] f16,
//                         8 x (sc[16], m[16]) u8           w = d sc q - dmin m
//   k_nibble  per 256:    d[16], dmin[16] f16,
//                         16 x (sc | m << 4)[16] u8        w = d sc q - dmin m
//   k_signed  per 256:    d[16] f16, 16 x sc[16] i8        w = d sc (q - zero)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quern::qmm {

constexpr int kTileRows = 16;
constexpr int kUnit = 32;

enum class Scales : uint8_t { none, pair, single, k_min, k_nibble, k_signed };
enum class Number : uint8_t { f32, f16, bf16 };

constexpr int number_bytes(Number n) { return n == Number::f32 ? 4 : 2; }

struct Format {
  int bits = 32;  // 2, 3, 4, 5, 6, 8 codes; 16, 32 dense
  Scales scales = Scales::none;
  int group = 0;                // k elements that share a scale
  int zero = 0;                 // single, k_signed: code of zero
  Number number = Number::f32;  // type of pair's scales, or of dense weights

  bool dense() const { return scales == Scales::none; }
  bool operator==(const Format&) const = default;

  size_t scale_bytes(int k) const;  // of a tile, 64-byte multiple
  size_t code_bytes(int k) const;   // of a tile
  size_t tile_bytes(int k) const { return scale_bytes(k) + code_bytes(k); }
  size_t bytes(int n, int k) const {
    return size_t((n + kTileRows - 1) / kTileRows) * tile_bytes(k);
  }
  std::string name() const;  // "4-bit pair/64 bf16"
};

// 32 codes, one a byte, into row `row` of a unit: its four bytes of each line
// are the row's own.
void put_unit(const uint8_t* codes, int bits, int row, uint8_t* unit);

constexpr int round_up(int value, int step) {
  return (value + step - 1) / step * step;
}

}  // namespace quern::qmm
