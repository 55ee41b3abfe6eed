// Runs every NEON kernel and the portable one on the same random inputs and
// compares the results. Built with a cross compiler and run under emulation,
// without MLX (CMakeLists.txt).
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/kernels.h"
#include "ops/turbo/format.h"

namespace quern {
namespace {

using qmm::Format;
using qmm::Number;
using qmm::Scales;
using Floats = std::vector<float>;

std::mt19937 random_engine(1);
int failures = 0;

Floats normal(size_t count, float scale = 1) {
  std::normal_distribution<float> distribution(0, scale);
  Floats values(count);
  for (float& x : values) x = distribution(random_engine);
  return values;
}

// Runs `fill` on both tables. Portable rounds a fused product twice, so that
// results differ by `tolerance` of the largest one at most.
void compare(const std::string& what, float tolerance, size_t count,
             const std::function<void(const Kernels&, float*)>& fill) {
  Floats results[2];
  for (Isa isa : {Isa::portable, Isa::neon}) {
    use_isa(isa);
    Floats& y = results[isa == Isa::neon];
    y.assign(count, 0);
    fill(kernels(), y.data());
  }
  float most = 0;
  for (float x : results[0]) most = std::max(most, std::fabs(x));
  for (size_t i = 0; i < count; i++) {
    const float expected = results[0][i], got = results[1][i];
    if (std::isnan(expected) && std::isnan(got)) continue;
    if (std::fabs(got - expected) <= tolerance * most) continue;
    std::printf("%s: [%zu] is %g, portable has %g\n", what.c_str(), i, got,
                expected);
    failures++;
    return;
  }
}

std::vector<Format> formats() {
  std::vector<Format> all = {
      {32, Scales::none, 0, 0, Number::f32},
      {16, Scales::none, 0, 0, Number::f16},
      {16, Scales::none, 0, 0, Number::bf16},
      {4, Scales::single, 32, 8, Number::f16},
      {5, Scales::single, 32, 16, Number::f16},
      {8, Scales::single, 32, 128, Number::f16},
      {2, Scales::k_nibble, 16, 0, Number::f16},
      {3, Scales::k_signed, 16, 4, Number::f16},
      {4, Scales::k_min, 32, 0, Number::f16},
      {5, Scales::k_min, 32, 0, Number::f16},
      {6, Scales::k_signed, 16, 32, Number::f16},
  };
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (Number number : {Number::f32, Number::f16, Number::bf16}) {
      all.push_back({bits, Scales::pair, 64, 0, number});
    }
  }
  return all;
}

// Random bytes, every 16-bit word a number below 2 in f16 and bf16 (and so
// every f32 too); codes and small scales may be any bytes.
std::vector<uint8_t> random_tiles(const Format& f, int n, int k) {
  std::vector<uint8_t> bytes(f.bytes(n, k));
  for (uint8_t& b : bytes) b = uint8_t(random_engine() >> 8);
  for (size_t at = 0; at < bytes.size(); at += f.tile_bytes(k)) {
    const size_t size = f.dense() ? f.tile_bytes(k) : f.scale_bytes(k);
    for (size_t i = 1; i < size; i += 2) bytes[at + i] &= 0xbf;
  }
  return bytes;
}

void check_matmul() {
  constexpr int n = 37, k = 512, rows = 13;
  const Floats x = normal(rows * k), bias = normal(n);
  const Floats residual = normal(rows * n);
  for (const Format& f : formats()) {
    const auto bytes = random_tiles(f, n, k);
    const Tiles w{f, bytes.data(), n, k};
    const int tiles = (n + 15) / 16;
    auto out = [&](float* y) {
      return MatmulOut{y, n, bias.data(), residual.data(), n};
    };
    compare(f.name() + " dequantize_row", 0, n * k,
            [&](const Kernels& kernel, float* y) {
              for (int i = 0; i < n; i++)
                kernel.dequantize_row(w, i, y + i * k);
            });
    compare(f.name() + " matmul_f32", 1e-5f, rows * n,
            [&](const Kernels& kernel, float* y) {
              kernel.matmul_f32(w, 0, tiles, x.data(), k, 0, rows, out(y));
            });
    if (f.dense()) continue;
    std::vector<int8_t> q(rows * k);
    Floats scale(rows * k / 32), sum(rows * k / 32);
    std::vector<int32_t> half_sums(rows * k / 16);
    const Int8Rows int8{k, q.data(), scale.data(), sum.data(),
                        half_sums.data()};
    compare(f.name() + " matmul_int8", 1e-5f, rows * n,
            [&](const Kernels& kernel, float* y) {
              kernel.quantize_rows(x.data(), k, 0, rows, int8);
              kernel.matmul_int8(w, 0, tiles, int8, 0, rows, out(y));
            });
  }
}

// Codes, scales and sums of 16, as floats one after the other.
void check_quantize_rows() {
  constexpr int k = 256, rows = 6;
  Floats x = normal(rows * k);
  for (int i = 0; i < k; i++) {
    x[k + i] *= 1e30f;
    x[2 * k + i] *= 1e-30f;
    x[3 * k + i] = 0;
  }
  for (int i = 0; i < 127; i++) x[4 * k + i] = float(i) + 0.5f;  // ties
  x[5 * k] = INFINITY;
  x[5 * k + 40] = NAN;
  compare("quantize_rows", 0, rows * k + rows * k / 32 * 4,
          [&](const Kernels& kernel, float* y) {
            std::vector<int8_t> q(rows * k);
            Floats scale(rows * k / 32), sum(rows * k / 32);
            std::vector<int32_t> half_sums(rows * k / 16);
            kernel.quantize_rows(
                x.data(), k, 0, rows,
                {k, q.data(), scale.data(), sum.data(), half_sums.data()});
            for (size_t i = 0; i < q.size(); i++) {
              *y++ = std::isfinite(scale[i / 32]) ? q[i] : 0;
            }
            auto put = [&](float value) {
              *y++ = std::isfinite(value) ? value : NAN;
            };
            for (float s : scale) put(s);
            for (float s : sum) put(s);
            for (int32_t s : half_sums) put(float(s));
          });
}

void check_rows() {
  for (int size : {1, 3, 4, 31, 64, 577}) {
    const std::string suffix = " of " + std::to_string(size);
    const Floats x = normal(size), other = normal(size);
    compare("rms_norm" + suffix, 1e-6f, size,
            [&](const Kernels& kernel, float* y) {
              kernel.rms_norm(x.data(), other.data(), 1, 1e-6f, size, y);
            });
    compare("scale" + suffix, 0, size, [&](const Kernels& kernel, float* y) {
      kernel.scale(x.data(), 1.7f, size, y);
    });
    for (float scale : {1.f, 40.f}) {
      const Floats gate = normal(size, scale);
      compare("silu_mul" + suffix, 1e-6f, size,
              [&](const Kernels& kernel, float* y) {
                kernel.silu_mul(gate.data(), other.data(), size, y);
              });
      compare("gelu_tanh_mul" + suffix, 1e-6f, size,
              [&](const Kernels& kernel, float* y) {
                kernel.gelu_tanh_mul(gate.data(), other.data(), size, y);
              });
    }
  }
  const Floats x = normal(3 * 80), cos = normal(20), sin = normal(20);
  for (bool interleaved : {false, true}) {
    compare("rope", 1e-6f, x.size(), [&](const Kernels& kernel, float* y) {
      std::copy(x.begin(), x.end(), y);
      kernel.rope(y, 3, 80, 40, interleaved, cos.data(), sin.data());
    });
  }
}

struct Planes {
  std::vector<uint8_t> keys, values;
};

void store(const Kernels& kernel, Number number, int head_dim, const Floats& k,
           const Floats& v, Planes& planes) {
  planes.keys.assign(k.size() * 4, 0);
  planes.values.assign(v.size() * 4, 0);
  for (int slot = 0; slot < int(k.size()) / head_dim; slot++) {
    kernel.store_kv(number, &k[slot * head_dim], &v[slot * head_dim], head_dim,
                    slot, planes.keys.data(), planes.values.data());
  }
}

// Stored bytes, one float each.
void check_store(Number number, int head_dim, const Floats& k,
                 const Floats& v) {
  compare("store_kv", 0, (k.size() + v.size()) * 4,
          [&](const Kernels& kernel, float* y) {
            Planes planes;
            store(kernel, number, head_dim, k, v, planes);
            for (uint8_t b : planes.keys) *y++ = b;
            for (uint8_t b : planes.values) *y++ = b;
          });
}

void check_attend(Number number, int head_dim, float soft_cap) {
  constexpr int queries = 7, tokens = 192, begin = 64;
  const Floats q = normal(queries * head_dim, 0.5f);
  Floats k = normal(tokens * head_dim), v = normal(tokens * head_dim);
  check_store(number, head_dim, k, v);
  std::vector<int> first, last;
  for (int i = 0; i < queries; i++) {
    first.push_back(begin + i * 11);
    last.push_back(begin + 130 + i);
  }
  compare(
      "attend of " + std::to_string(head_dim), 1e-5f,
      queries * head_dim + 2 * queries, [&](const Kernels& kernel, float* y) {
        Planes planes;
        store(kernel, number, head_dim, k, v, planes);
        auto attend = [&](int from, int to, float* max) {
          std::fill_n(max, queries, -INFINITY);
          kernel.attend({.number = number,
                         .k = planes.keys.data(),
                         .v = planes.values.data(),
                         .head_dim = head_dim,
                         .queries = queries,
                         .q = q.data(),
                         .first = first.data(),
                         .last = last.data(),
                         .begin = from,
                         .end = to,
                         .soft_cap = soft_cap,
                         .max = max,
                         .sum = max + queries,
                         .out = max + 2 * queries,
                         .scratch = nullptr});
        };
        attend(begin, begin + 192, y);
        Floats more(queries * (head_dim + 2));  // other keys, to join
        attend(begin + 64, begin + 128, more.data());
        for (int i = 0; i < queries; i++) {
          kernel.attend_join(
              y + i, y + queries + i, y + 2 * queries + i * head_dim, &more[i],
              &more[queries + i], &more[2 * queries + i * head_dim], head_dim);
        }
      });
}

void check_attention() {
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    for (int head_dim : {1, 16, 22, 64, 80}) {
      for (float soft_cap : {0.f, 2.f}) {
        check_attend(number, head_dim, soft_cap);
      }
    }
    // Ties, subnormal, overflow, infinity and NaN of the stored type.
    const Floats odd = {1.f + 0x1p-11f, 1.f + 3 * 0x1p-11f,
                        1.f + 0x1p-8f,  1.f + 3 * 0x1p-8f,
                        1e-7f,          -3e-8f,
                        65519.f,        65520.f,
                        1e9f,           3.4e38f,
                        -0.f,           INFINITY,
                        -INFINITY,      NAN,
                        1e-40f,         0.1f};
    check_store(number, 16, odd, odd);
  }
}

KvBlock packed_block(bool turbo, int key_bits, int value_bits, int head_dim) {
  const int group = turbo ? 32 : 64;
  const int numbers = head_dim / group * kKvBlock * 2;
  KvBlock b{turbo, head_dim, key_bits, value_bits, group, Number::f16,
            0,     0,        0,        0,          0,     0};
  b.key_scales = kKvBlock * head_dim * key_bits / 8;
  b.key_zeros = b.key_scales + numbers;
  b.value_codes = b.key_zeros + numbers;
  b.value_scales = b.value_codes + kKvBlock * head_dim * value_bits / 8;
  b.value_biases = b.value_scales + numbers;
  b.bytes = b.value_biases + (turbo ? 0 : numbers);
  return b;
}

// Blocks of random codes with scales of [1/128, 1/64) and zeros or biases of
// (-4, 4).
std::vector<uint8_t> random_blocks(const KvBlock& b, int blocks) {
  std::vector<uint8_t> bytes(size_t(b.bytes) * blocks);
  for (uint8_t& x : bytes) x = uint8_t(random_engine() >> 8);
  for (size_t at = 0; at < bytes.size(); at += b.bytes) {
    auto set = [&](int from, int to, int high, int mask) {
      for (int i = from + 1; i < to; i += 2) {
        bytes[at + i] = uint8_t((bytes[at + i] & mask) | high);
      }
    };
    set(b.key_scales, b.key_zeros, 0x20, 3);
    set(b.key_zeros, b.value_codes, 0x40, 0x83);
    set(b.value_scales, b.value_biases, 0x20, 3);
    set(b.value_biases, b.bytes, 0x40, 0x83);
  }
  return bytes;
}

// Queries and weights are rounded, NEON's weights to 7 bits.
void check_packed(const KvBlock& form, int queries, bool exact) {
  constexpr int most = 12, blocks = 6, end = 64 * blocks - 9;
  const int D = form.head_dim;
  const auto bytes = random_blocks(form, blocks);
  const Floats q = normal(queries * D, 3);
  const std::vector<int> first(most, 3), last(most, end - 20);
  compare("attend_packed k" + std::to_string(form.key_bits) + "v" +
              std::to_string(form.value_bits),
          exact ? 1e-4f : 4e-2f, queries * D,
          [&](const Kernels& kernel, float* out) {
            Floats max(most, -INFINITY), sum(most), scratch(2 * kKvBlock * D);
            Floats scale(queries * D / 32), sums(scale.size());
            std::vector<int8_t> int8(queries * D);
            std::vector<int32_t> totals(scale.size());
            const PackedQueries packed{int8.data(), scale.data(), sums.data(),
                                       totals.data()};
            kernel.quantize_queries(q.data(), queries * D, packed);
            kernel.attend_packed({.form = form,
                                  .blocks = bytes.data(),
                                  .queries = queries,
                                  .q = q.data(),
                                  .int8 = exact ? PackedQueries{} : packed,
                                  .first = first.data(),
                                  .last = last.data(),
                                  .begin = 0,
                                  .end = end,
                                  .soft_cap = 0,
                                  .max = max.data(),
                                  .sum = sum.data(),
                                  .out = out,
                                  .scratch = scratch.data()});
            for (int i = 0; i < queries * D; i++) out[i] /= sum[i / D];
          });
}

void check_packed_attention() {
  for (int D : {64, 128}) {
    for (int queries : {1, 3, 7, 12}) {
      for (bool exact : {false, true}) {
        for (int bits : {2, 4, 5, 8}) {
          check_packed(packed_block(true, bits, bits, D), queries, exact);
        }
        check_packed(packed_block(true, 8, 3, D), queries, exact);
        for (int bits : {4, 8}) {
          check_packed(packed_block(false, bits, bits, D), queries, exact);
        }
      }
    }
  }
}

// Rows with ties, zeros, constants, far offsets and odd numbers.
std::vector<Floats> kv_rows(int head_dim) {
  std::vector<Floats> rows;
  for (float scale : {1.f, 1e-20f, 1e30f}) {
    rows.push_back(normal(head_dim, scale));
  }
  Floats mixed = normal(head_dim, 3);
  for (int i = 0; i < 32; i++) mixed[i] = std::nearbyint(mixed[i]);
  for (int i = 32; i < 64; i++) mixed[i] += 300;
  rows.push_back(mixed);
  rows.push_back(Floats(head_dim, -0.f));
  rows.push_back(Floats(head_dim, 0.5f));
  mixed[3] = NAN;
  mixed[40] = -INFINITY;
  rows.push_back(mixed);
  return rows;
}

// Every byte of a row's codes and scales as a float.
template <class Encode>
void compare_bytes(const std::string& what, size_t size, Encode encode) {
  compare(what, 0, size, [&](const Kernels& kernel, float* y) {
    std::vector<uint8_t> bytes(size);
    encode(kernel, bytes.data());
    for (size_t i = 0; i < size; i++) y[i] = bytes[i];
  });
}

void check_encoders() {
  for (int D : {64, 128, 256, 512}) {
    for (const Floats& x : kv_rows(D)) {
      compare("fwht", 0, D, [&](const Kernels& kernel, float* y) {
        std::copy(x.begin(), x.end(), y);
        kernel.fwht(y, D);
      });
      const size_t halves = 2 * D / 32;
      const Floats scales = normal(D / 32), zeros = normal(D / 32);
      for (int bits : {2, 3, 4, 5, 8}) {
        const size_t codes = D * bits / 8;
        const auto* any = (const uint8_t*)x.data();
        compare("decode_turbo", 0, 2 * D, [&](const Kernels& kernel, float* y) {
          kernel.decode_turbo_keys(any, scales.data(), zeros.data(), 32, D,
                                   bits, y);
          kernel.decode_turbo_values(any, scales.data(), 32, D, bits,
                                     turbo::centroids(bits), y + D);
        });
        compare_bytes("encode_turbo_keys", codes + 2 * halves,
                      [&](const Kernels& kernel, uint8_t* out) {
                        uint16_t* scales = (uint16_t*)(out + codes);
                        kernel.encode_turbo_keys(x.data(), D, bits, out, scales,
                                                 scales + D / 32);
                      });
        compare_bytes("encode_turbo_values", codes + halves,
                      [&](const Kernels& kernel, uint8_t* out) {
                        kernel.encode_turbo_values(x.data(), D, bits, out,
                                                   (uint16_t*)(out + codes));
                      });
      }
      for (int bits : {4, 8}) {
        for (Number number : {Number::f32, Number::f16, Number::bf16}) {
          for (int group : {32, 64}) {
            const size_t codes = D * bits / 8;
            const size_t scales = D / group * qmm::number_bytes(number);
            compare_bytes("encode_affine", codes + 2 * scales,
                          [&](const Kernels& kernel, uint8_t* out) {
                            kernel.encode_affine(x.data(), D, bits, group,
                                                 number, out, out + codes,
                                                 out + codes + scales);
                          });
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern

int main() {
  quern::check_quantize_rows();
  quern::check_matmul();
  quern::check_rows();
  quern::check_attention();
  quern::check_packed_attention();
  quern::check_encoders();
  std::printf("%d differences\n", quern::failures);
  return quern::failures != 0;
}
