// Vectors of the AVX-512 (VNNI) kernels. See simd/portable.h for the meaning
// of each function.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace quern::avx512 {

inline constexpr const char* kName = "avx512";
inline constexpr int W = 16;
inline constexpr int kRowTile = 8;    // rows of x a matmul kernel takes at once
inline constexpr int kOneRow = 1;     // vectors of a tile, for one row of x
inline constexpr int kDenseTile = 4;  // the same, dense kernels
// Queries an attention kernel takes at once.
inline constexpr int kQueryTile = 4;
inline constexpr int kRegisters = 32;

using F = __m512;
using I = __m512i;
using Bytes = __m512i;

inline F zero() { return _mm512_setzero_ps(); }
inline F set(float x) { return _mm512_set1_ps(x); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F x) { _mm512_storeu_ps(p, x); }
inline F load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
inline F load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
inline void store_f16(uint16_t* p, F x) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x, 0));
}
inline void store_bf16(uint16_t* p, F x) {
  const I bits = _mm512_castps_si512(x);
  const I odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  I r =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  r = _mm512_mask_set1_epi32(r, nan, 0x7fc00000);
  _mm256_storeu_si256((__m256i*)p,
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F abs(F a) { return _mm512_abs_ps(a); }
inline F nearest(F a) { return _mm512_roundscale_ps(a, 8); }
inline F below(F a, F b, F yes, F no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
template <int h>
inline F butterfly(F a) {
  F b;
  if constexpr (h == 1) b = _mm512_permute_ps(a, 0xb1);
  if constexpr (h == 2) b = _mm512_permute_ps(a, 0x4e);
  if constexpr (h == 4) b = _mm512_shuffle_f32x4(a, a, 0xb1);
  if constexpr (h == 8) b = _mm512_shuffle_f32x4(a, a, 0x4e);
  constexpr __mmask16 upper[] = {0xaaaa, 0xcccc, 0xf0f0, 0xff00};
  constexpr int at = h == 1 ? 0 : h == 2 ? 1 : h == 4 ? 2 : 3;
  return _mm512_mask_sub_ps(_mm512_add_ps(a, b), upper[at], b, a);
}
inline float total(F a) { return _mm512_reduce_add_ps(a); }
inline float most(F a) { return _mm512_reduce_max_ps(a); }
// The lanes of four vectors by fours, joined by `join` down to one each.
template <class Join>
inline F joined4(F a, F b, F c, F d, Join join) {
  const F ab = join(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const F cd = join(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  F all =
      join(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  all = join(all, _mm512_shuffle_f32x4(all, all, 0x4e));
  return join(all, _mm512_shuffle_f32x4(all, all, 0xb1));
}
inline F most4(F a, F b, F c, F d) {
  return joined4(a, b, c, d, [](F x, F y) { return max(x, y); });
}
inline F total4(F a, F b, F c, F d) {
  return joined4(a, b, c, d, [](F x, F y) { return add(x, y); });
}
inline constexpr bool kAnyPower = true;
inline F scale_by_power(F x, F n) { return _mm512_scalef_ps(x, n); }

inline I set_int(int32_t x) { return _mm512_set1_epi32(x); }
inline I add(I a, I b) { return _mm512_add_epi32(a, b); }
inline F to_float(I x) { return _mm512_cvtepi32_ps(x); }
inline I load_u8(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
}
inline I load_i8(const int8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p));
}
inline I low_nibble(I x) { return _mm512_and_si512(x, _mm512_set1_epi32(15)); }
inline I high_nibble(I x) { return _mm512_srli_epi32(x, 4); }
template <int n>
inline I byte_of(Bytes x) {
  return _mm512_and_si512(_mm512_srli_epi32(x, 8 * n), _mm512_set1_epi32(255));
}
inline void store_i8(int8_t* p, F x) {
  _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}

inline Bytes load_bytes(const void* p) { return _mm512_loadu_si512(p); }
template <int n>
inline Bytes shift(Bytes x) {
  if constexpr (n > 0) return _mm512_srli_epi16(x, n);
  if constexpr (n < 0) return _mm512_slli_epi16(x, -n);
  return x;
}
inline Bytes keep(Bytes x, uint8_t mask) {
  return _mm512_and_si512(x, _mm512_set1_epi8(char(mask)));
}
inline Bytes less_128(Bytes x) {
  return _mm512_xor_si512(x, _mm512_set1_epi8(-128));
}
inline Bytes merge(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
// dot4 sums (code - kOffset) . a.
template <int bits>
inline constexpr int kOffset = 0;
template <int bits>
inline I dot4(I acc, Bytes w, const int8_t* a) {
  int32_t quad;
  std::memcpy(&quad, a, 4);
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(quad));
}

// dot4 alone: its sums are 32 bits wide.
template <int bits>
inline constexpr int kPairQuads = 1;
using Pairs = I;
Pairs pairs4(Bytes, const int8_t*);
I joined(Pairs);

inline constexpr int kMostWeight = 255;
inline void store_bytes(void* p, Bytes x) { _mm512_storeu_si512(p, x); }
inline Bytes quads(F a, F b, F c, F d) {
  const I low = _mm512_set1_epi32(255);
  const I x = _mm512_and_si512(_mm512_cvtps_epi32(a), low);
  const I y = _mm512_and_si512(_mm512_cvtps_epi32(b), low);
  const I z = _mm512_and_si512(_mm512_cvtps_epi32(c), low);
  const I xy = _mm512_or_si512(x, _mm512_slli_epi32(y, 8));
  return _mm512_ternarylogic_epi32(xy, _mm512_slli_epi32(z, 16),
                                   _mm512_slli_epi32(_mm512_cvtps_epi32(d), 24),
                                   0xfe);
}
inline Bytes quads_unsigned(F a, F b, F c, F d) {
  const I bc = _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtps_epi32(b), 8),
                               _mm512_slli_epi32(_mm512_cvtps_epi32(c), 16));
  return _mm512_ternarylogic_epi32(_mm512_cvtps_epi32(a), bc,
                                   _mm512_slli_epi32(_mm512_cvtps_epi32(d), 24),
                                   0xfe);
}
inline I dot4_weights(I acc, Bytes x, const uint8_t* w) {
  int32_t quad;
  std::memcpy(&quad, w, 4);
  return _mm512_dpbusd_epi32(acc, _mm512_set1_epi32(quad), x);
}
struct Table {
  __m512i low, high;
};
template <int size>
inline Table load_table(const int8_t* p) {
  return {
      _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)p)),
      _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)(p + size - 16)))};
}
template <int size>
inline Bytes look_up(const Table& t, Bytes index) {
  const Bytes low = _mm512_shuffle_epi8(t.low, index);
  if constexpr (size == 16) return low;
  const __mmask64 upper = _mm512_test_epi8_mask(index, _mm512_set1_epi8(16));
  return _mm512_mask_shuffle_epi8(low, upper, t.high, index);
}

}  // namespace quern::avx512
