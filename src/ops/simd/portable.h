// The vector interface the kernels are written on, and its plain C++ form.
// Each simd/<isa>.h gives the same names in its own namespace, and
// cpu_<isa>.cpp compiles every kernel on them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace quern::portable {

inline constexpr const char* kName = "portable";
inline constexpr int W = 4;           // lanes; divides 16
inline constexpr int kRowTile = 4;    // rows of x a matmul kernel takes at once
inline constexpr int kOneRow = 1;     // vectors of a tile, for one row of x
inline constexpr int kDenseTile = 4;  // the same, dense kernels
// Queries an attention kernel takes at once.
inline constexpr int kQueryTile = 2;
inline constexpr int kRegisters = 16;

struct F {  // W floats
  float v[W];
};
struct I {  // W 32-bit integers
  int32_t v[W];
};
struct Bytes {  // W quads of bytes
  uint8_t v[4 * W];
};

template <class Fn>
inline F map(Fn fn) {
  F r;
  for (int i = 0; i < W; i++) r.v[i] = fn(i);
  return r;
}
template <class Fn>
inline I map_int(Fn fn) {
  I r;
  for (int i = 0; i < W; i++) r.v[i] = fn(i);
  return r;
}
inline float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline uint32_t to_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  const uint32_t rest = uint32_t(h & 0x7fff) << 13;
  if ((h & 0x7c00) == 0x7c00) return from_bits(sign | rest | 0x7f800000);
  // 2^112 moves the exponent's bias from 15 to 127, subnormals included.
  return from_bits(sign | to_bits(from_bits(rest) * 0x1p112f));
}
inline uint16_t float_to_half(float x) {
  const uint32_t bits = to_bits(x);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const float a = from_bits(bits & 0x7fffffff);
  if (!(a < 65520.f)) return sign | (a != a ? 0x7e00 : 0x7c00);
  if (a < 0x1p-14f) {  // subnormal: count of 2^-24, rounded to even
    return sign | uint16_t(std::nearbyint(a * 0x1p24f));
  }
  const uint32_t m = to_bits(a);
  return sign | uint16_t((m + 0xfff + (m >> 13 & 1) - (112u << 23)) >> 13);
}
inline uint16_t float_to_bfloat(float x) {
  if (x != x) return 0x7fc0;
  const uint32_t bits = to_bits(x);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline F zero() { return F{}; }
inline F set(float x) {
  return map([&](int) { return x; });
}
inline F load(const float* p) {
  return map([&](int i) { return p[i]; });
}
inline void store(float* p, F x) { std::memcpy(p, x.v, sizeof x.v); }
inline F load_f16(const uint16_t* p) {
  return map([&](int i) { return half_to_float(p[i]); });
}
inline F load_bf16(const uint16_t* p) {
  return map([&](int i) { return from_bits(uint32_t(p[i]) << 16); });
}
// Rounded to nearest even; NaN of bf16 is 0x7fc0.
inline void store_f16(uint16_t* p, F x) {
  for (int i = 0; i < W; i++) p[i] = float_to_half(x.v[i]);
}
inline void store_bf16(uint16_t* p, F x) {
  for (int i = 0; i < W; i++) p[i] = float_to_bfloat(x.v[i]);
}
inline F add(F a, F b) {
  return map([&](int i) { return a.v[i] + b.v[i]; });
}
inline F sub(F a, F b) {
  return map([&](int i) { return a.v[i] - b.v[i]; });
}
inline F mul(F a, F b) {
  return map([&](int i) { return a.v[i] * b.v[i]; });
}
inline F div(F a, F b) {
  return map([&](int i) { return a.v[i] / b.v[i]; });
}
// a * b + c, rounded once where the device has it (here twice).
inline F fma(F a, F b, F c) {
  return map([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
// The second operand where the first is NaN.
inline F min(F a, F b) {
  return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F max(F a, F b) {
  return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F abs(F a) {
  return map([&](int i) { return std::fabs(a.v[i]); });
}
// To the nearest integer, ties to even.
inline F nearest(F a) {
  return map([&](int i) { return std::nearbyint(a.v[i]); });
}
// a < b ? yes : no
inline F below(F a, F b, F yes, F no) {
  return map([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
// Each pair of lanes i, i + h (i / h even) becomes its sum and difference; h is
// a power of two below W.
template <int h>
inline F butterfly(F a) {
  return map([&](int i) {
    return i / h % 2 ? a.v[i - h] - a.v[i] : a.v[i] + a.v[i + h];
  });
}
// The lanes' sum (in a fixed order of the device's) and maximum.
inline float total(F a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
inline float most(F a) {
  float m = a.v[0];
  for (float v : a.v) m = v > m ? v : m;
  return m;
}
// The maxima and sums of four vectors in lanes 0 to 3; the sums in an order
// that is the same for all.
inline F most4(F a, F b, F c, F d) {
  return {{most(a), most(b), most(c), most(d)}};
}
inline F total4(F a, F b, F c, F d) {
  return {{total(a), total(b), total(c), total(d)}};
}
// x * 2^n for an integral n in [-126, 127]; NaN where x is.
inline F scale_by_power(F x, F n) {
  return map([&](int i) {
    if (x.v[i] != x.v[i]) return x.v[i];
    return x.v[i] * from_bits(uint32_t(int32_t(n.v[i]) + 127) << 23);
  });
}

inline I set_int(int32_t x) {
  return map_int([&](int) { return x; });
}
inline I add(I a, I b) {
  return map_int([&](int i) { return a.v[i] + b.v[i]; });
}
inline F to_float(I x) {
  return map([&](int i) { return float(x.v[i]); });
}
inline I load_u8(const uint8_t* p) {
  return map_int([&](int i) { return p[i]; });
}
inline I load_i8(const int8_t* p) {
  return map_int([&](int i) { return p[i]; });
}
inline I low_nibble(I x) {
  return map_int([&](int i) { return x.v[i] & 15; });
}
inline I high_nibble(I x) {
  return map_int([&](int i) { return x.v[i] >> 4; });
}
// Byte n of each quad.
template <int n>
inline I byte_of(Bytes x) {
  return map_int([&](int i) { return x.v[4 * i + n]; });
}
// W values of [-127, 127] rounded to nearest even and stored as int8; anything
// for NaN.
inline void store_i8(int8_t* p, F x) {
  for (int i = 0; i < W; i++) {
    p[i] = x.v[i] == x.v[i] ? int8_t(std::nearbyint(x.v[i])) : 0;
  }
}

inline Bytes load_bytes(const void* p) {
  Bytes r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
// Each byte shifted right by n (left if negative); bits that come in from a
// neighbour byte are for keep() to cut.
template <int n>
inline Bytes shift(Bytes x) {
  Bytes r;
  for (int i = 0; i < 4 * W; i++) {
    r.v[i] = uint8_t(n >= 0 ? x.v[i] >> (n >= 0 ? n : 0)
                            : x.v[i] << (n < 0 ? -n : 0));
  }
  return r;
}
inline Bytes keep(Bytes x, uint8_t mask) {
  for (auto& b : x.v) b &= mask;
  return x;
}
inline Bytes merge(Bytes a, Bytes b) {
  for (int i = 0; i < 4 * W; i++) a.v[i] |= b.v[i];
  return a;
}
// dot4 sums (code - kOffset) . a.
template <int bits>
inline constexpr int kOffset = 0;
// acc + the dot product of each quad of codes (unsigned, `bits` wide) with the
// four signed bytes at a.
template <int bits>
inline I dot4(I acc, Bytes w, const int8_t* a) {
  return map_int([&](int i) {
    const uint8_t* q = w.v + 4 * i;
    return acc.v[i] + q[0] * a[0] + q[1] * a[1] + q[2] * a[2] + q[3] * a[3];
  });
}

// How many quads' pairs4 can be added up in 16 bits; 1 where dot4 is as good
// and pairs4 is not defined.
template <int bits>
inline constexpr int kPairQuads = 1;
// Sums of the products of neighbours, two for each quad, and their sum.
using Pairs = I;
Pairs pairs4(Bytes, const int8_t*);
I joined(Pairs);

// Whether scale_by_power is right for every n, infinite ones too.
inline constexpr bool kAnyPower = false;

// Weights of attention are bytes in [0, kMostWeight].
inline constexpr int kMostWeight = 255;
inline void store_bytes(void* p, Bytes x) { std::memcpy(p, x.v, sizeof x.v); }
// Four numbers a lane, of [-128, 255], rounded to nearest even and stored as
// the four bytes of its quad; any bytes for NaN.
inline Bytes quads(F a, F b, F c, F d) {
  Bytes r;
  const F* from[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4 * W; i++) {
    const float x = from[i % 4]->v[i / 4];
    r.v[i] = x == x ? uint8_t(int(std::nearbyint(x))) : 0;
  }
  return r;
}
// The same for numbers of [0, 255].
inline Bytes quads_unsigned(F a, F b, F c, F d) { return quads(a, b, c, d); }
// Unsigned bytes as signed ones of 128 less.
inline Bytes less_128(Bytes x) {
  for (auto& b : x.v) b ^= 0x80;
  return x;
}
// acc + the dot product of each quad of signed bytes with the
// four weights at w.
inline I dot4_weights(I acc, Bytes x, const uint8_t* w) {
  return map_int([&](int i) {
    const uint8_t* p = x.v + 4 * i;
    return acc.v[i] + int8_t(p[0]) * w[0] + int8_t(p[1]) * w[1] +
           int8_t(p[2]) * w[2] + int8_t(p[3]) * w[3];
  });
}
// Of 16 bytes, or of 32: what each index names.
struct Table {
  int8_t v[32];
};
template <int size>
inline Table load_table(const int8_t* p) {
  Table t = {};
  std::memcpy(t.v, p, size);
  return t;
}
template <int size>
inline Bytes look_up(const Table& t, Bytes index) {
  for (auto& b : index.v) b = uint8_t(t.v[b % size]);
  return index;
}

}  // namespace quern::portable
