// The inner loops of the CPU ops, one table for each instruction set.
// Plain pointers and integers: MLX arrays, checks and threads are the ops'
// business (ops/<op>/). Every function works on a range that one thread owns.
#pragma once

#include <cstdint>

#include "ops/attention/kv_format.h"
#include "ops/qmm/format.h"

namespace quern {

// Rows of x prepared for the integer matmul: int8 with one scale for 32 k.
// Units of 32 k of B rows lie together, so that many rows are read in order.
// Memory is of whole blocks.
struct Int8Rows {
  int k;               // multiple of 32
  int8_t* q;           // [M / B, k / 32, B, 32]
  float* scale;        // [M / B, k / 32, B]      x = scale * q
  float* sum;          // [M / B, k / 32, B]      scale * sum of q
  int32_t* half_sums;  // [M / B, k / 32, 2, B]   sum of q over each 16
  int block = 1;       // B: 1 or kBlockRows

  // Where the scale of row m and of a unit is.
  int64_t at(int m, int unit) const {
    return (int64_t(m / block) * (k / 32) + unit) * block + m % block;
  }
  int8_t* q_at(int m, int unit) const { return q + at(m, unit) * 32; }
  int32_t* half_sum_at(int m, int unit, int half) const {
    return half_sums + at(m, unit) * 2 + half * block - m % block;
  }
};
constexpr int kBlockRows = 16;

// y[m, n] = sum + bias[n] + residual[m, n]
struct MatmulOut {
  float* y;
  int64_t stride;         // of y, between rows
  const float* bias;      // [N] or null
  const float* residual;  // [M, residual_stride] or null
  int64_t residual_stride;
};

struct Tiles {
  qmm::Format format;
  const uint8_t* data;
  int n, k;
};

// Attention of some query rows on keys of one KV head. Keys lie in tiles of
// 16 tokens: k [tokens / 16, D, 16], v [tokens, D].
struct AttendSpan {
  qmm::Number number;  // of k and v
  const void* k;
  const void* v;
  int head_dim;
  int queries;
  const float* q;    // [queries, D], already scaled
  const int* first;  // [queries] keys [first, last) each query may see, as
  const int* last;   //   positions; the span covers [begin, end) of them
  int begin, end;  // begin is a multiple of 64; slot of position p is p - begin
  float soft_cap;  // 0 = none
  float* max;      // [queries]     running maximum (-inf at the start)
  float* sum;      // [queries]     running sum of exp (0)
  float* out;      // [queries, D]  running sum of exp * v (0)
  float*
      scratch;  // [2 * 64 * D] for many queries, aligned to 64 bytes, or null
};

// Queries rounded to int8, by groups of 32 numbers of a row.
struct PackedQueries {
  int8_t* q;       // [queries, D]
  float* scale;    // [queries, D / 32]  x = scale * q
  float* sum;      // [queries, D / 32]  sum of x
  int32_t* total;  // [queries, D / 32]  sum of q
};

// Attention on codes, in blocks of 64 tokens; values of turbo are summed in
// the space they are stored in. Otherwise as AttendSpan.
struct PackedSpan {
  KvBlock form;
  const uint8_t* blocks;  // of positions from `begin` on
  int queries;
  const float* q;
  PackedQueries int8;  // of q; without them all is f32
  const int *first, *last;
  int begin, end;
  float soft_cap;
  float *max, *sum, *out;
  float* scratch;  // [2 * 64 * D], aligned to 64 bytes
};

struct Kernels {
  const char* name;

  // x [M, k] with rows `stride` apart -> rows [begin, end) of `out`.
  void (*quantize_rows)(const float* x, int64_t stride, int begin, int end,
                        const Int8Rows& out);
  // Rows [m_begin, m_end) of x times tiles [t_begin, t_end) of w. m_begin is a
  // multiple of kBlockRows, where x has such blocks.
  void (*matmul_int8)(const Tiles& w, int t_begin, int t_end, const Int8Rows& x,
                      int m_begin, int m_end, const MatmulOut& out);
  void (*matmul_f32)(const Tiles& w, int t_begin, int t_end, const float* x,
                     int64_t stride, int m_begin, int m_end,
                     const MatmulOut& out);
  // Row n of w, dequantised to f32.
  void (*dequantize_row)(const Tiles& w, int n, float* out);

  // y = x / rms(x) * (weight + offset)
  void (*rms_norm)(const float* x, const float* weight, float offset, float eps,
                   int size, float* y);
  // Rotates [heads, D]: pairs (i, i + rotary/2), or (2i, 2i + 1) if
  // interleaved, by angles whose cosine and sine [rotary / 2] are given.
  void (*rope)(float* x, int heads, int head_dim, int rotary, bool interleaved,
               const float* cos, const float* sin);
  void (*silu_mul)(const float* gate, const float* up, int size, float* y);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int size, float* y);
  // One token's k and v of one head into slot `slot`.
  void (*store_kv)(qmm::Number number, const float* k, const float* v,
                   int head_dim, int slot, void* keys, void* values);
  // Adds the keys [begin, end) to each query's running softmax.
  void (*attend)(const AttendSpan& span);
  void (*attend_packed)(const PackedSpan& span);
  // x of some queries, `size` numbers in all.
  void (*quantize_queries)(const float* x, int size, const PackedQueries& to);
  // Joins b's running softmax into a's.
  void (*attend_join)(float* max, float* sum, float* out, const float* max_b,
                      const float* sum_b, const float* out_b, int head_dim);
  // y = x * factor
  void (*scale)(const float* x, float factor, int size, float* y);

  // One row of keys or values into its codes, as turbo/codec.h and
  // affine/codec.h say, to the bit.
  void (*encode_turbo_keys)(const float* x, int head_dim, int bits,
                            uint8_t* codes, uint16_t* scales, uint16_t* zeros);
  void (*encode_turbo_values)(const float* x, int head_dim, int bits,
                              uint8_t* codes, uint16_t* scales);
  void (*encode_affine)(const float* x, int size, int bits, int group,
                        qmm::Number number, uint8_t* codes, void* scales,
                        void* biases);
  // x [head_dim]: its normalised Walsh-Hadamard transform, in place.
  void (*fwht)(float* x, int head_dim);
  // The way back, with one scale (and zero) for each `group` elements.
  void (*decode_turbo_keys)(const uint8_t* codes, const float* scales,
                            const float* zeros, int group, int head_dim,
                            int bits, float* out);
  void (*decode_turbo_values)(const uint8_t* codes, const float* scales,
                              int group, int head_dim, int bits,
                              const float* centroids, float* out);
  // Numbers of another type to f32 and back; size is a multiple of 32.
  void (*widen)(qmm::Number number, const void* x, int size, float* y);
  void (*narrow)(qmm::Number number, const float* x, int size, void* y);
};

enum class Isa { portable, neon, avx2, avx_vnni, avx512, amx };
inline constexpr Isa kIsas[] = {
    Isa::amx,  Isa::avx512, Isa::avx_vnni,
    Isa::avx2, Isa::neon,   Isa::portable};  // the best first
const char* isa_name(Isa isa);               // as QUERN_ISA spells it

// The table in use: the best this CPU has, or what QUERN_ISA or use_isa names.
const Kernels& kernels();
bool isa_available(Isa isa);
// Throws Error if this CPU lacks it. Not while ops run.
void use_isa(Isa isa);

}  // namespace quern
