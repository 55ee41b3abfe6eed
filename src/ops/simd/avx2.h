// Vectors of the AVX2 + FMA + F16C kernels, and of those that have AVX-VNNI
// besides. See simd/portable.h for the meaning of each function.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#if defined(__AVXVNNI__)
namespace quern::avx_vnni {
inline constexpr const char* kName = "avx_vnni";
#else
namespace quern::avx2 {
inline constexpr const char* kName = "avx2";
#endif

inline constexpr int W = 8;
inline constexpr int kRowTile = 4;
inline constexpr int kOneRow = 2;
inline constexpr int kDenseTile = 2;
// Queries an attention kernel takes at once.
inline constexpr int kQueryTile = 4;
inline constexpr int kRegisters = 16;

using F = __m256;
struct I {
  __m256i v;
};
struct Bytes {
  __m256i v;
};

inline F zero() { return _mm256_setzero_ps(); }
inline F set(float x) { return _mm256_set1_ps(x); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F x) { _mm256_storeu_ps(p, x); }
inline F load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
inline F load_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
inline void store_f16(uint16_t* p, F x) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(x, 0));
}
inline void store_bf16(uint16_t* p, F x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i r =
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const F nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  r = _mm256_blendv_epi8(r, _mm256_set1_epi32(0x7fc00000),
                         _mm256_castps_si256(nan));
  r = _mm256_srli_epi32(r, 16);
  r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(r));
}
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.f), a); }
inline F nearest(F a) { return _mm256_round_ps(a, 8); }
inline F below(F a, F b, F yes, F no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
template <int h>
inline F butterfly(F a) {
  F b;
  if constexpr (h == 1) b = _mm256_permute_ps(a, 0xb1);
  if constexpr (h == 2) b = _mm256_permute_ps(a, 0x4e);
  if constexpr (h == 4) b = _mm256_permute2f128_ps(a, a, 1);
  constexpr int upper = h == 1 ? 0xaa : h == 2 ? 0xcc : 0xf0;
  return _mm256_blend_ps(_mm256_add_ps(a, b), _mm256_sub_ps(b, a), upper);
}
inline float total(F a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
inline float most(F a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
// The lanes of four vectors by fours, joined by `join` down to one each.
template <class Join>
inline F joined4(F a, F b, F c, F d, Join join) {
  const F ab = join(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const F cd = join(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const F all =
      join(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  return join(all, _mm256_permute2f128_ps(all, all, 1));
}
inline F most4(F a, F b, F c, F d) {
  return joined4(a, b, c, d, [](F x, F y) { return max(x, y); });
}
inline F total4(F a, F b, F c, F d) {
  return joined4(a, b, c, d, [](F x, F y) { return add(x, y); });
}
inline constexpr bool kAnyPower = false;
inline F scale_by_power(F x, F n) {
  const __m256i e =
      _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)));
}

inline I set_int(int32_t x) { return {_mm256_set1_epi32(x)}; }
inline I add(I a, I b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline F to_float(I x) { return _mm256_cvtepi32_ps(x.v); }
inline I load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p))};
}
inline I load_i8(const int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))};
}
inline I low_nibble(I x) {
  return {_mm256_and_si256(x.v, _mm256_set1_epi32(15))};
}
inline I high_nibble(I x) { return {_mm256_srli_epi32(x.v, 4)}; }
template <int n>
inline I byte_of(Bytes x) {
  return {
      _mm256_and_si256(_mm256_srli_epi32(x.v, 8 * n), _mm256_set1_epi32(255))};
}
inline void store_i8(int8_t* p, F x) {
  __m256i r = _mm256_cvtps_epi32(x);
  r = _mm256_packs_epi32(r, r);
  r = _mm256_packs_epi16(r, r);
  const int32_t low = _mm256_extract_epi32(r, 0);
  const int32_t high = _mm256_extract_epi32(r, 4);
  std::memcpy(p, &low, 4);
  std::memcpy(p + 4, &high, 4);
}

inline Bytes load_bytes(const void* p) {
  return {_mm256_loadu_si256((const __m256i*)p)};
}
template <int n>
inline Bytes shift(Bytes x) {
  if constexpr (n > 0) return {_mm256_srli_epi16(x.v, n)};
  if constexpr (n < 0) return {_mm256_slli_epi16(x.v, -n)};
  return x;
}
inline Bytes keep(Bytes x, uint8_t mask) {
  return {_mm256_and_si256(x.v, _mm256_set1_epi8(char(mask)))};
}
inline Bytes less_128(Bytes x) {
  return {_mm256_xor_si256(x.v, _mm256_set1_epi8(-128))};
}
inline Bytes merge(Bytes a, Bytes b) { return {_mm256_or_si256(a.v, b.v)}; }
inline void store_bytes(void* p, Bytes x) {
  _mm256_storeu_si256((__m256i*)p, x.v);
}
inline Bytes quads(F a, F b, F c, F d) {
  const __m256i low = _mm256_set1_epi32(255);
  const __m256i x = _mm256_and_si256(_mm256_cvtps_epi32(a), low);
  const __m256i y = _mm256_and_si256(_mm256_cvtps_epi32(b), low);
  const __m256i z = _mm256_and_si256(_mm256_cvtps_epi32(c), low);
  const __m256i xy = _mm256_or_si256(x, _mm256_slli_epi32(y, 8));
  const __m256i zd = _mm256_or_si256(
      _mm256_slli_epi32(z, 16), _mm256_slli_epi32(_mm256_cvtps_epi32(d), 24));
  return {_mm256_or_si256(xy, zd)};
}
inline Bytes quads_unsigned(F a, F b, F c, F d) {
  const __m256i ab = _mm256_or_si256(
      _mm256_cvtps_epi32(a), _mm256_slli_epi32(_mm256_cvtps_epi32(b), 8));
  const __m256i cd =
      _mm256_or_si256(_mm256_slli_epi32(_mm256_cvtps_epi32(c), 16),
                      _mm256_slli_epi32(_mm256_cvtps_epi32(d), 24));
  return {_mm256_or_si256(ab, cd)};
}
struct Table {
  __m256i low, high;
};
template <int size>
inline Table load_table(const int8_t* p) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p)),
          _mm256_broadcastsi128_si256(
              _mm_loadu_si128((const __m128i*)(p + size - 16)))};
}
template <int size>
inline Bytes look_up(const Table& t, Bytes index) {
  const __m256i low = _mm256_shuffle_epi8(t.low, index.v);
  if constexpr (size == 16) return {low};
  const __m256i high = _mm256_shuffle_epi8(t.high, index.v);
  return {_mm256_blendv_epi8(low, high, _mm256_slli_epi16(index.v, 3))};
}

// dot4 sums (code - kOffset) . a.
#if defined(__AVXVNNI__)
template <int bits>
inline constexpr int kOffset = 0;
template <int bits>
inline I dot4(I acc, Bytes w, const int8_t* a) {
  int32_t quad;
  std::memcpy(&quad, a, 4);
  return {_mm256_dpbusd_avx_epi32(acc.v, w.v, _mm256_set1_epi32(quad))};
}

// dot4 alone: its sums are 32 bits wide.
template <int bits>
inline constexpr int kPairQuads = 1;
using Pairs = I;
Pairs pairs4(Bytes, const int8_t*);
I joined(Pairs);

inline constexpr int kMostWeight = 255;
inline I dot4_weights(I acc, Bytes x, const uint8_t* w) {
  int32_t quad;
  std::memcpy(&quad, w, 4);
  return {_mm256_dpbusd_avx_epi32(acc.v, _mm256_set1_epi32(quad), x.v)};
}

}  // namespace quern::avx_vnni
#else
// Sums stay in their registers: g++ would add the products up as a tree, and
// keep all of them on the stack for it.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}
template <int bits>
inline constexpr int kOffset = bits == 8 ? 128 : 0;
// Pairs of products are summed in 16 bits: exact up to 7-bit codes, and for
// 8-bit ones as |code - 128| <= 128 times a with the sign of the other.
template <int bits>
inline I dot4(I acc, Bytes w, const int8_t* a) {
  int32_t quad;
  std::memcpy(&quad, a, 4);
  __m256i x = _mm256_set1_epi32(quad);
  __m256i codes = w.v;
  if constexpr (bits == 8) {
    const __m256i moved = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    x = _mm256_sign_epi8(x, moved);
    codes = _mm256_abs_epi8(moved);
  }
  const __m256i p =
      _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1));
  return {in_order(_mm256_add_epi32(acc.v, p))};
}

// 2 * 127 * (2^bits - 1) a quad, of 32767.
template <int bits>
inline constexpr int kPairQuads = bits <= 4   ? 8
                                  : bits == 5 ? 4
                                  : bits == 6 ? 2
                                              : 1;
struct Pairs {
  __m256i v;
};
inline Pairs add(Pairs a, Pairs b) {
  return {in_order(_mm256_add_epi16(a.v, b.v))};
}
inline Pairs pairs4(Bytes w, const int8_t* a) {
  int32_t quad;
  std::memcpy(&quad, a, 4);
  return {_mm256_maddubs_epi16(w.v, _mm256_set1_epi32(quad))};
}
inline I joined(Pairs a) {
  return {_mm256_madd_epi16(a.v, _mm256_set1_epi16(1))};
}

// Products with two signed bytes are summed in 16 bits.
inline constexpr int kMostWeight = 127;
inline I dot4_weights(I acc, Bytes x, const uint8_t* w) {
  int32_t quad;
  std::memcpy(&quad, w, 4);
  const __m256i p = _mm256_madd_epi16(
      _mm256_maddubs_epi16(_mm256_set1_epi32(quad), x.v), _mm256_set1_epi16(1));
  return {in_order(_mm256_add_epi32(acc.v, p))};
}

}  // namespace quern::avx2
#endif
