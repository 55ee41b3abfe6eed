// The AVX-512 kernels, with AMX for the int8 matmul of several rows: the
// products of 16 rows of x and a tile's 16 columns, over the k of one scale,
// are one instruction. Their int32 sums are exact and meet the scales in the
// order of kernels_matmul.inc, so a row's bits are those of the AVX-512 kernel.
// Compiled with these instruction sets' flags: nothing from the standard
// library may be instantiated here.
#include <immintrin.h>

#include "ops/kernels.h"
#include "ops/simd/avx512.h"

namespace quern {
namespace avx512 {
const Kernels& table();
}

namespace amx {
using namespace avx512;  // NOLINT: the vectors that the .inc file is written on

// clang-format off
#include "ops/kernels_tiles.inc"
// clang-format on

// Fewer rows, or fewer that are left of a block, are faster in vectors.
constexpr int kLeastRows = 24;
constexpr int kLeastLeft = 10;
constexpr int kDepth = 2048;  // k whose codes lie unpacked at once
constexpr int kRows = 128;    // of x that meet one unpacking
constexpr int kParts = 4;     // stretches of k under one scale, at a time

// Halves of a unit have scales of their own, or not.
template <qmm::Scales kind>
inline constexpr int kPartsOfUnit = kByHalves<kind> ? 2 : 1;

// The tile registers: codes of kParts parts in 0 to 3, x in 4 and 5, sums in 6
// and 7. The k of a part are 32, or 16.
inline void configure(int k) {
  struct alignas(64) {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t bytes[16] = {};  // of a row
    uint8_t rows[16] = {};
  } c;
  for (int i = 0; i < 8; i++) {
    c.bytes[i] = uint16_t(i == 4 || i == 5 ? k : 64);
    c.rows[i] = uint8_t(i < 4 ? k / 4 : kBlockRows);
  }
  asm volatile("ldtilecfg %0" ::"m"(c));  // the intrinsic hides what it reads
}

// Products of a part: [kBlockRows][16 columns].
using Sums = int32_t[kBlockRows][W];

// One tile's codes, kDepth k of them, and what is made of them.
struct alignas(64) Work {
  uint8_t codes[kDepth * W];  // [k / 4][16 columns][4 k]
  ScaleMin scales[kDepth / 16];
  Sums sums[2][kParts];
  float y[kRows][W];
};

// Codes as bytes; signed, less the code of zero, where the weight has no
// minimum.
template <int bits, qmm::Scales kind, int quad = 0>
inline void unpack(const uint8_t* unit, int zero_code, uint8_t* to) {
  Bytes c = codes<bits, quad>(unit);
  if constexpr (!kHasMin<kind>) {
    c = _mm512_sub_epi8(c, _mm512_set1_epi8(char(zero_code)));
  }
  _mm512_store_si512(to + 64 * quad, c);
  if constexpr (quad < 7) unpack<bits, kind, quad + 1>(unit, zero_code, to);
}

// sums = a block of rows times codes, both of part p.
template <qmm::Scales kind, int p>
inline void multiply(const int8_t* q, const uint8_t* codes,
                     int32_t (*sums)[W]) {
  // The intrinsics want plain numbers.
#define QUERN_MULTIPLY(w, x, sum) \
  {                               \
    _tile_loadd(w, codes, 64);    \
    _tile_loadd(x, q, 32);        \
    _tile_zero(sum);              \
    if constexpr (kHasMin<kind>)  \
      _tile_dpbsud(sum, x, w);    \
    else                          \
      _tile_dpbssd(sum, x, w);    \
    _tile_stored(sum, sums, 64);  \
  }
  if constexpr (p == 0) QUERN_MULTIPLY(0, 4, 6)
  if constexpr (p == 1) QUERN_MULTIPLY(1, 5, 7)
  if constexpr (p == 2) QUERN_MULTIPLY(2, 4, 6)
  if constexpr (p == 3) QUERN_MULTIPLY(3, 5, 7)
#undef QUERN_MULTIPLY
}

// A block of rows of x from some unit on.
struct Block {
  const int8_t* q;
  const float* scale;
  const float* sum;
  const int32_t* half_sums;
};

template <qmm::Scales kind, int count>
inline void multiply_parts(const Block& x, int first, const Work& work,
                           Sums* sums) {
  constexpr int per_unit = kPartsOfUnit<kind>, k = 32 / per_unit;
  auto part = [&]<int i>() {
    const int p = first + i;
    multiply<kind, i>(
        x.q + (p / per_unit) * kBlockRows * 32 + (i % per_unit) * k,
        work.codes + p * k * W, sums[i]);
  };
  [&]<int... i>(Indices<i...>) {
    (part.template operator()<i>(), ...);
  }(FirstIndices<count>{});
}

// y += the parts' sums in their scales.
template <qmm::Scales kind, int count>
inline void scale_parts(const Block& x, int first, const Work& work,
                        const Sums* sums, F* y) {
  constexpr int per_unit = kPartsOfUnit<kind>;
  const int at = first / per_unit * kBlockRows;
#pragma GCC unroll 4
  for (int p = 0; p < count; p++) {
    const ScaleMin sm = work.scales[first + p];
    const int unit = at + p / per_unit * kBlockRows;
#pragma GCC unroll 16
    for (int r = 0; r < kBlockRows; r++) {
      const float s = x.scale[unit + r];
      const F products = to_float(_mm512_load_si512(sums[p][r]));
      y[r] = fma(products, mul(sm.s, set(s)), y[r]);
      if constexpr (kHasMin<kind>) {
        const float codes =
            per_unit == 2
                ? s * float(x.half_sums[2 * unit + p % 2 * kBlockRows + r])
                : x.sum[unit + r];
        y[r] = fma(sm.m, set(codes), y[r]);
      }
    }
  }
}

// y += parts [0, count) of a block of rows times the codes in `work`.
template <qmm::Scales kind>
inline void add_parts(const Block& x, int count, Work& work, F* y) {
  // The sums of some parts are scaled while the next are multiplied.
  int p = 0, turn = 0;
  if (count >= kParts) {
    multiply_parts<kind, kParts>(x, 0, work, work.sums[0]);
    for (; p + 2 * kParts <= count; p += kParts, turn ^= 1) {
      multiply_parts<kind, kParts>(x, p + kParts, work, work.sums[turn ^ 1]);
      scale_parts<kind, kParts>(x, p, work, work.sums[turn], y);
    }
    scale_parts<kind, kParts>(x, p, work, work.sums[turn], y);
    p += kParts;
    turn ^= 1;
  }
  for (; p < count; p += kPartsOfUnit<kind>, turn ^= 1) {
    multiply_parts<kind, kPartsOfUnit<kind>>(x, p, work, work.sums[turn]);
    scale_parts<kind, kPartsOfUnit<kind>>(x, p, work, work.sums[turn], y);
  }
}

// Blocks of rows from m_begin on times one tile, units [u_begin, u_end) of k.
template <int bits, qmm::Scales kind>
inline void add_units(const Tiles& w, int tile, const Int8Rows& x, int m_begin,
                      int m_end, int u_begin, int u_end,
                      ScaleReader<kind>& scales, Work& work,
                      const MatmulOut& out) {
  constexpr int per_unit = kPartsOfUnit<kind>;
  const uint8_t* code =
      w.data + tile * w.format.tile_bytes(w.k) + w.format.scale_bytes(w.k);
  for (int u = u_begin; u < u_end; u++) {
    const int at = u - u_begin;
    unpack<bits, kind>(code + int64_t(u) * 64 * bits, w.format.zero,
                       work.codes + at * 32 * W);
    for (int half = 0; half < per_unit; half++) {
      work.scales[at * per_unit + half] = *scales.next(u, half);
    }
  }
  asm volatile("" ::: "memory");  // tile loads do not say what they read
  for (int m = m_begin; m < m_end; m += kBlockRows) {
    float(*kept)[W] = work.y + (m - m_begin);
    F y[kBlockRows];
#pragma GCC unroll 16
    for (int r = 0; r < kBlockRows; r++) {
      y[r] = u_begin == 0 ? zero() : load(kept[r]);
    }
    const int64_t at = x.at(m, u_begin);
    add_parts<kind>(
        {x.q + at * 32, x.scale + at, x.sum + at, x.half_sums + at * 2},
        (u_end - u_begin) * per_unit, work, y);
#pragma GCC unroll 16
    for (int r = 0; r < kBlockRows; r++) store(kept[r], y[r]);
    if (u_end < x.k / 32) continue;
    const int rows = m_end - m < kBlockRows ? m_end - m : kBlockRows;
    for (int r = 0; r < rows; r++) {
      put(out, w.n, m + r, tile * qmm::kTileRows, load(kept[r]));
    }
  }
}

template <int bits, qmm::Scales kind>
void multiply_tiles(const Tiles& w, int t_begin, int t_end, const Int8Rows& x,
                    int m_begin, int m_end, const MatmulOut& out) {
  Work work;
  configure(32 / kPartsOfUnit<kind>);
  const int units = x.k / 32;
  for (int m = m_begin; m < m_end; m += kRows) {
    const int to = m_end - m < kRows ? m_end : m + kRows;
    for (int t = t_begin; t < t_end; t++) {
      ScaleReader<kind> scales(w, w.data + t * w.format.tile_bytes(w.k), 0);
      for (int u = 0; u < units; u += kDepth / 32) {
        const int u_end = units - u < kDepth / 32 ? units : u + kDepth / 32;
        add_units<bits, kind>(w, t, x, m, to, u, u_end, scales, work, out);
      }
    }
  }
  _tile_release();
}

void matmul_int8(const Tiles& w, int t_begin, int t_end, const Int8Rows& x,
                 int m_begin, int m_end, const MatmulOut& out) {
  int m = m_begin;  // up to here on tiles
  if (x.block == kBlockRows && m_begin % kBlockRows == 0 &&
      m_end - m_begin >= kLeastRows) {
    const int left = (m_end - m_begin) % kBlockRows;
    m = left < kLeastLeft ? m_end - left : m_end;
  }
  if (m_begin < m) {
    for_code(w.format, [&]<int bits, qmm::Scales kind>() {
      multiply_tiles<bits, kind>(w, t_begin, t_end, x, m_begin, m, out);
    });
  }
  if (m < m_end) {
    avx512::table().matmul_int8(w, t_begin, t_end, x, m, m_end, out);
  }
}

const Kernels& table() {
  static const Kernels kTable = [] {
    Kernels all = avx512::table();
    all.name = "amx";
    all.matmul_int8 = matmul_int8;
    return all;
  }();
  return kTable;
}

}  // namespace amx
}  // namespace quern
