// Time of the KV codecs: one row into codes on one thread, a token's keys and
// values of one head into a block, the packed decode of a cache with and
// without the inverse rotation in the same pass, and attention of one token and
// of a prefill's on a past in each form (bytes: what it reads of it). Sides are
// to be compared in one run, with --benchmark_enable_random_interleaving=true
// and some --benchmark_repetitions.
#include <benchmark/benchmark.h>
#include <mlx/mlx.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "ops/attention/attention.h"
#include "ops/huge_pages.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"
#include "ops/turbo/turbo.h"

namespace quern {
namespace {

using turbo::KvBits;
using turbo::KvPlanes;

struct RowBuffers {
  float x[512];
  uint8_t codes[512];
  uint16_t scales[16], zeros[16];
  float wide[32];

  RowBuffers() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(random);
  }
};

void count_rows(benchmark::State& state, int head_dim) {
  state.counters["elements/s"] = benchmark::Counter(
      head_dim, benchmark::Counter::kIsIterationInvariantRate);
}

void encode_keys(benchmark::State& state) {
  RowBuffers row;
  const int D = int(state.range(0)), bits = int(state.range(1));
  for (auto _ : state) {
    kernels().encode_turbo_keys(row.x, D, bits, row.codes, row.scales,
                                row.zeros);
    benchmark::ClobberMemory();
  }
  count_rows(state, D);
}

void encode_values(benchmark::State& state) {
  RowBuffers row;
  const int D = int(state.range(0)), bits = int(state.range(1));
  for (auto _ : state) {
    kernels().encode_turbo_values(row.x, D, bits, row.codes, row.scales);
    benchmark::ClobberMemory();
  }
  count_rows(state, D);
}

void encode_affine(benchmark::State& state) {
  RowBuffers row;
  const int D = int(state.range(0)), bits = int(state.range(1));
  for (auto _ : state) {
    kernels().encode_affine(row.x, D, bits, 64, qmm::Number::f16, row.codes,
                            row.wide, row.wide + 16);
    benchmark::ClobberMemory();
  }
  count_rows(state, D);
}

enum class Decode { joint, joint_then_unrotate, inverse };

void decode(benchmark::State& state, Decode how, KvBits bits) {
  const int tokens = int(state.range(0)), D = int(state.range(1));
  const mx::array x = mx::random::normal({1, 4, tokens, D});
  const KvPlanes p{turbo::encode_keys(x, bits.keys),
                   turbo::encode_values(x, bits.values)};
  const mx::array table = turbo::centroid_array(bits.values);
  const mx::array signs = turbo::sign_array(D);
  mx::eval(p.keys.codes, p.values.codes, table, signs);
  for (auto _ : state) {
    if (how == Decode::inverse) {
      const auto out = turbo::try_decode_inverse(p, table, signs, bits, D);
      mx::eval(out->k, out->v);
    } else {
      const auto out =
          turbo::try_joint_decode(p, table, bits, D, how == Decode::joint);
      mx::array v = out->v;
      if (how == Decode::joint_then_unrotate) {
        v = mx::astype(turbo::unrotate(v), mx::bfloat16);
      }
      mx::eval(out->k, v);
    }
  }
  count_rows(state, 2 * 4 * tokens * D);
}

// A past of made-up tokens: the same block for all of a head.
mx::array past_of(const KvShape& kv, int capacity) {
  const mx::Shape shape = kv.planes(capacity);
  mx::array planes(allocate(kv.bytes(capacity)), shape, kv.dtype());
  prefer_huge_pages(planes.data<uint8_t>(), planes.nbytes());
  if (kv.format.raw()) {
    const mx::array noise = mx::astype(mx::random::normal(shape), kv.dtype());
    mx::eval(noise);
    std::copy_n(noise.data<uint8_t>(), noise.nbytes(), planes.data<uint8_t>());
    return planes;
  }
  mx::array noise = mx::random::normal({kKvBlock, 2, kv.head_dim});
  mx::eval(noise);
  for (int h = 0; h < kv.kv_heads; h++) {
    for (int i = 0; i < kKvBlock; i++) {
      const float* k = noise.data<float>() + i * 2 * kv.head_dim;
      put_kv(kv, k, k + kv.head_dim, h, i, planes);
    }
    uint8_t* first = planes.data<uint8_t>() + int64_t(h) * shape[1] * shape[2];
    for (int i = 1; i < shape[1]; i++) {
      std::copy_n(first, shape[2], first + int64_t(i) * shape[2]);
    }
  }
  return planes;
}

// A token's keys and values of one head, as an append writes them.
void encode_into_block(benchmark::State& state, KvFormat format) {
  const int D = int(state.range(0));
  const KvBlock form = block_of(format, D);
  const RowBuffers k, v;
  std::vector<uint8_t> block(form.bytes);
  int slot = 0;
  for (auto _ : state) {
    encode_token(form, k.x, v.x, slot, block.data());
    slot = (slot + 1) % kKvBlock;
    benchmark::ClobberMemory();
  }
}

// Some tokens of `group` query heads on each KV head.
void attend_tokens(benchmark::State& state, KvFormat format) {
  set_threads(1);
  const int past = int(state.range(0)), D = int(state.range(1));
  const int heads = int(state.range(2)), group = int(state.range(3));
  const int count = int(state.range(4));
  const KvShape kv{format, heads, D};
  const AttendOptions options{.kv = kv, .scale = 1 / std::sqrt(float(D))};
  const int capacity = qmm::round_up(past + count, kKvBlock);
  const mx::array planes = past_of(kv, capacity);
  const mx::array q = mx::random::normal({count, group * heads * D});
  const mx::array k = mx::random::normal({count, heads * D});
  mx::eval(q, k);
  const AttendRow row{0, count, past, capacity, planes};
  for (auto _ : state) {
    mx::eval(attend(q, k, k, {row}, options).out);
  }
  const double bytes = double(planes.nbytes()) * past / capacity;
  state.counters["GB/s"] = benchmark::Counter(
      bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  set_threads(0);
}

void add_attend(const char* name, const KvFormat& format) {
  auto* b = benchmark::RegisterBenchmark(name, attend_tokens, format);
  b->ArgNames({"past", "head_dim", "kv_heads", "group", "tokens"});
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
  const std::pair<int, int> sizes[] = {{4096, 1}, {32768, 1}, {4096, 512}};
  for (const auto& [past, tokens] : sizes) {
    b->Args({past, 64, 3, 3, tokens});   // SmolLM2
    b->Args({past, 64, 2, 7, tokens});   // Qwen2.5
    b->Args({past, 128, 8, 4, tokens});  // Llama 3
    b->Args({past, 256, 1, 4, tokens});  // Gemma 3
  }
}

// The forms that keys and values are measured in.
void add_codes(const char* name, const KvFormat& format) {
  add_attend((std::string("attend/") + name).c_str(), format);
  const std::string encode = std::string("encode_token/") + name;
  benchmark::RegisterBenchmark(encode.c_str(), encode_into_block, format)
      ->ArgName("head_dim")
      ->Arg(64)
      ->Arg(128)
      ->Arg(256);
}

void add_encode(const char* name, void (*bench)(benchmark::State&),
                std::initializer_list<int> widths) {
  auto* b = benchmark::RegisterBenchmark(name, bench);
  b->ArgNames({"head_dim", "bits"});
  for (int D : {64, 128, 256}) {
    for (int bits : widths) b->Args({D, bits});
  }
}

void add_decode(const char* name, Decode how) {
  auto* b = benchmark::RegisterBenchmark(name, decode, how, KvBits{8, 3});
  b->ArgNames({"tokens", "head_dim"})->UseRealTime();
  b->Unit(benchmark::kMicrosecond);
  for (int D : {64, 128, 256, 512}) {
    for (int tokens : {1, 16, 256, 4096}) b->Args({tokens, D});
  }
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  using namespace quern;
  mx::set_default_device(mx::Device::cpu);
  add_encode("encode_keys", encode_keys, {2, 4, 5, 8});
  add_encode("encode_values", encode_values, {2, 3, 4, 5, 8});
  add_encode("encode_affine", encode_affine, {4, 8});
  using Kind = KvFormat::Kind;
  using qmm::Number;
  add_attend("attend/f16", Number::f16);
  add_attend("attend/bf16", Number::bf16);
  add_codes("k8v3", {Kind::turbo, 8, 3, 32, Number::f16});
  add_codes("k8v4", {Kind::turbo, 8, 4, 32, Number::f16});
  add_codes("k4v4", {Kind::turbo, 4, 4, 32, Number::f16});
  add_codes("k5v5", {Kind::turbo, 5, 5, 32, Number::f16});
  add_codes("k8v8", {Kind::turbo, 8, 8, 32, Number::f16});
  add_codes("8", {Kind::affine, 8, 8, 64, Number::f16});
  add_codes("4", {Kind::affine, 4, 4, 64, Number::f16});
  add_decode("decode/rotated", Decode::joint);
  add_decode("decode/then_unrotate", Decode::joint_then_unrotate);
  add_decode("decode/inverse", Decode::inverse);
  benchmark::AddCustomContext("isa", kernels().name);
  benchmark::AddCustomContext("threads",
                              std::to_string(thread_pool().threads()));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
