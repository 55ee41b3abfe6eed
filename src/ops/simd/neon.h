// Vectors of the NEON (Armv8.2 dot product) kernels. See simd/portable.h for
// the meaning of each function.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace quern::neon {

inline constexpr const char* kName = "neon";
inline constexpr int W = 4;
inline constexpr int kRowTile = 8;
inline constexpr int kOneRow = 1;
inline constexpr int kDenseTile = 4;
// Queries an attention kernel takes at once.
inline constexpr int kQueryTile = 4;
inline constexpr int kRegisters = 32;

using F = float32x4_t;
using I = int32x4_t;
using Bytes = uint8x16_t;

inline F zero() { return vdupq_n_f32(0); }
inline F set(float x) { return vdupq_n_f32(x); }
inline F load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, F x) { vst1q_f32(p, x); }
inline F load_f16(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
inline F load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
inline void store_f16(uint16_t* p, F x) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
inline void store_bf16(uint16_t* p, F x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  uint32x4_t r = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  r = vbslq_u32(vceqq_f32(x, x), r, vdupq_n_u32(0x7fc00000));
  vst1_u16(p, vshrn_n_u32(r, 16));
}
inline F add(F a, F b) { return vaddq_f32(a, b); }
inline F sub(F a, F b) { return vsubq_f32(a, b); }
inline F mul(F a, F b) { return vmulq_f32(a, b); }
inline F div(F a, F b) { return vdivq_f32(a, b); }
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline F abs(F a) { return vabsq_f32(a); }
inline F nearest(F a) { return vrndnq_f32(a); }
inline F below(F a, F b, F yes, F no) {
  return vbslq_f32(vcltq_f32(a, b), yes, no);
}
template <int h>
inline F butterfly(F a) {
  if constexpr (h == 1) {
    const F b = vrev64q_f32(a);
    return vtrn1q_f32(vaddq_f32(a, b), vsubq_f32(a, b));
  } else {
    const F b = vextq_f32(a, a, 2);
    return vcombine_f32(vget_low_f32(vaddq_f32(a, b)),
                        vget_high_f32(vsubq_f32(b, a)));
  }
}
inline float total(F a) { return vaddvq_f32(a); }
inline float most(F a) { return vmaxvq_f32(a); }
inline F most4(F a, F b, F c, F d) {
  return vpmaxq_f32(vpmaxq_f32(a, b), vpmaxq_f32(c, d));
}
inline F total4(F a, F b, F c, F d) {
  return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}
inline constexpr bool kAnyPower = false;
inline F scale_by_power(F x, F n) {
  const int32x4_t e = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
  return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(e, 23)));
}

inline I set_int(int32_t x) { return vdupq_n_s32(x); }
inline I add(I a, I b) { return vaddq_s32(a, b); }
inline F to_float(I x) { return vcvtq_f32_s32(x); }
inline I load_u8(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  const uint16x8_t wide = vmovl_u8(vcreate_u8(word));
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
}
inline I load_i8(const int8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  const int16x8_t wide = vmovl_s8(vcreate_s8(word));
  return vmovl_s16(vget_low_s16(wide));
}
inline I low_nibble(I x) { return vandq_s32(x, vdupq_n_s32(15)); }
inline I high_nibble(I x) {
  return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), 4));
}
template <int n>
inline I byte_of(Bytes x) {
  uint32x4_t v = vreinterpretq_u32_u8(x);
  if constexpr (n > 0) v = vshrq_n_u32(v, 8 * n);
  return vreinterpretq_s32_u32(vandq_u32(v, vdupq_n_u32(255)));
}
inline void store_i8(int8_t* p, F x) {
  const int16x4_t h = vqmovn_s32(vcvtnq_s32_f32(x));
  const int8x8_t b = vqmovn_s16(vcombine_s16(h, h));
  vst1_lane_s32((int32_t*)p, vreinterpret_s32_s8(b), 0);
}

inline Bytes load_bytes(const void* p) { return vld1q_u8((const uint8_t*)p); }
template <int n>
inline Bytes shift(Bytes x) {
  const uint16x8_t v = vreinterpretq_u16_u8(x);
  if constexpr (n > 0) return vreinterpretq_u8_u16(vshrq_n_u16(v, n));
  if constexpr (n < 0) return vreinterpretq_u8_u16(vshlq_n_u16(v, -n));
  return x;
}
inline Bytes keep(Bytes x, uint8_t mask) {
  return vandq_u8(x, vdupq_n_u8(mask));
}
inline Bytes merge(Bytes a, Bytes b) { return vorrq_u8(a, b); }
// dot4 sums (code - kOffset) . a.
template <int bits>
inline constexpr int kOffset = 0;
// The dot product is of signed bytes, so the top bit of an 8-bit code goes its
// own way.
template <int bits>
inline I dot4(I acc, Bytes w, const int8_t* a) {
  int32_t quad;
  std::memcpy(&quad, a, 4);
  const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(quad));
  if constexpr (bits < 8) {
    return vdotq_s32(acc, vreinterpretq_s8_u8(w), x);
  } else {
    const int8x16_t low = vreinterpretq_s8_u8(keep(w, 0x7f));
    const int8x16_t top = vreinterpretq_s8_u8(vshrq_n_u8(w, 7));
    const I t = vdotq_s32(vdupq_n_s32(0), top, x);
    return vaddq_s32(vdotq_s32(acc, low, x), vshlq_n_s32(t, 7));
  }
}

// dot4 alone: its sums are 32 bits wide.
template <int bits>
inline constexpr int kPairQuads = 1;
using Pairs = I;
Pairs pairs4(Bytes, const int8_t*);
I joined(Pairs);

// The dot product is of signed bytes.
inline constexpr int kMostWeight = 127;
inline void store_bytes(void* p, Bytes x) { vst1q_u8((uint8_t*)p, x); }
inline Bytes quads(F a, F b, F c, F d) {
  const int32x4_t low = vdupq_n_s32(255);
  int32x4_t r = vandq_s32(vcvtnq_s32_f32(a), low);
  r = vsliq_n_s32(r, vcvtnq_s32_f32(b), 8);
  r = vsliq_n_s32(r, vcvtnq_s32_f32(c), 16);
  r = vsliq_n_s32(r, vcvtnq_s32_f32(d), 24);
  return vreinterpretq_u8_s32(r);
}
inline Bytes less_128(Bytes x) { return veorq_u8(x, vdupq_n_u8(0x80)); }
inline Bytes quads_unsigned(F a, F b, F c, F d) { return quads(a, b, c, d); }
inline I dot4_weights(I acc, Bytes x, const uint8_t* w) {
  int32_t quad;
  std::memcpy(&quad, w, 4);
  return vdotq_s32(acc, vreinterpretq_s8_u8(x),
                   vreinterpretq_s8_s32(vdupq_n_s32(quad)));
}
struct Table {
  uint8x16x2_t v;
};
template <int size>
inline Table load_table(const int8_t* p) {
  return {
      {{vld1q_u8((const uint8_t*)p), vld1q_u8((const uint8_t*)p + size - 16)}}};
}
template <int size>
inline Bytes look_up(const Table& t, Bytes index) {
  if constexpr (size == 16) return vqtbl1q_u8(t.v.val[0], index);
  return vqtbl2q_u8(t.v, index);
}

}  // namespace quern::neon
