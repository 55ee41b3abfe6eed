// Time of the CPU ops: matmul by weight format and rows of x, attention of a
// decode step and of a prefill, ops on rows. Counters: bytes of weights, KV or
// rows, and operations a second; the label is what bounds the op, and the
// context has the bounds as measured here, on all threads.
#include <benchmark/benchmark.h>
#include <mlx/mlx.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "ops/activation/gated.h"
#include "ops/attention/attention.h"
#include "ops/huge_pages.h"
#include "ops/kernels.h"
#include "ops/norm/rms_norm.h"
#include "ops/qmm/qmm.h"
#include "ops/rope/rope.h"
#include "ops/thread_pool.h"
#include "peaks.h"

namespace quern {
namespace {

using qmm::Format;
using qmm::Number;
using qmm::Scales;

// Counters of an op, which `bound` (memory, f32 or int8) holds back.
void count(benchmark::State& state, double bytes, double operations,
           const char* bound) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = Counter(bytes * 1e-9, rate);
  state.counters["GFLOP/s"] = Counter(operations * 1e-9, rate);
  state.SetLabel(bound);
}

// Weights beyond the caches: 256 MB of codes in some equal matrices, used in
// turn.
std::vector<Weight> make_weights(const Format& format, int n, int k) {
  const size_t bytes = format.bytes(n, k);
  std::mt19937 random(1);
  std::vector<uint32_t> words(bytes / 4);
  // No half and no float is below the normal numbers, or large.
  for (uint32_t& word : words) word = (random() & 0x0fff0fff) | 0x30003000;
  std::vector<Weight> weights;
  for (size_t all = 0; all < size_t(256) << 20; all += bytes) {
    mx::array tiles(weight_memory(bytes), {int(bytes)}, mx::uint8);
    std::memcpy(tiles.data<uint8_t>(), words.data(), bytes);
    weights.push_back({format, n, k, tiles});
  }
  return weights;
}

void matmul_rows(benchmark::State& state, Format format, Precision precision) {
  const int rows = int(state.range(0)), n = 4096, k = 2048;
  const auto weights = make_weights(format, n, k);
  const mx::array x = mx::random::normal({rows, k});
  mx::eval(x);
  size_t turn = 0;
  for (auto _ : state) {
    mx::eval(matmul(x, weights[turn++ % weights.size()], precision));
  }
  const bool f32 = precision == Precision::exact || format.dense();
  count(state, double(format.bytes(n, k)), 2.0 * rows * n * k,
        rows < 64 ? "memory"
        : f32     ? "f32"
                  : "int8");
}

// `tokens` new tokens of one row on a past of `past`; 24 heads on 8.
void attend_tokens(benchmark::State& state, Number number) {
  const int past = int(state.range(0)), tokens = int(state.range(1));
  const KvShape kv{number, 8, 128};
  const AttendOptions options{.kv = kv, .scale = 1 / std::sqrt(128.f)};
  const int capacity = qmm::round_up(past + tokens, 64);
  const mx::array planes =
      mx::astype(mx::random::normal(kv.planes(capacity)), kv.dtype());
  const mx::array q = mx::random::normal({tokens, 24 * 128});
  const mx::array k = mx::random::normal({tokens, 8 * 128});
  mx::eval(planes, q, k);
  const AttendRow row{0, tokens, past, capacity, planes};
  for (auto _ : state) {
    mx::eval(attend(q, k, k, {row}, options).out);
  }
  const double keys = past + (tokens + 1) / 2.0;  // a token sees on average
  count(state, 2.0 * (past + tokens) * 8 * 128 * qmm::number_bytes(number),
        4.0 * tokens * keys * 24 * 128, tokens == 1 ? "memory" : "f32");
}

// 512 rows of 4096 through an op that reads `reads` such arrays.
template <class Op>
void row_op(benchmark::State& state, int reads, Op op) {
  const mx::array a = mx::random::normal({512, 4096});
  const mx::array b = mx::random::normal({512, 4096});
  mx::eval(a, b);
  for (auto _ : state) mx::eval(op(a, b));
  count(state, (reads + 1.0) * a.nbytes(), 0, "memory");
}

template <class Op>
void add_row_op(const char* name, int reads, Op op) {
  benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { row_op(state, reads, op); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void add_row_ops() {
  const mx::array weight = mx::ones({4096}), head_weight = mx::ones({128});
  const mx::array table = rope_table(mx::arange(512), mx::full({64}, 0.1f), 1);
  mx::eval(weight, head_weight, table);
  add_row_op("rms_norm", 1, [=](const mx::array& a, const mx::array&) {
    return rms_norm(a, weight, 1e-6f);
  });
  add_row_op("rope", 1, [=](const mx::array& a, const mx::array&) {
    return rope(a, table, {.head_dim = 128});
  });
  add_row_op("silu_mul", 2, [](const mx::array& a, const mx::array& b) {
    return gated(Gate::silu, a, b);
  });
  add_row_op("gelu_tanh_mul", 2, [](const mx::array& a, const mx::array& b) {
    return gated(Gate::gelu_tanh, a, b);
  });
}

void add_matmul(const char* name, const Format& format) {
  for (auto precision : {Precision::fast, Precision::exact}) {
    const auto full = std::string("matmul/") + name +
                      (precision == Precision::fast ? "/fast" : "/exact");
    benchmark::RegisterBenchmark(full.c_str(), matmul_rows, format, precision)
        ->Arg(1)
        ->Arg(8)
        ->Arg(12)
        ->Arg(512)
        ->ArgName("rows")
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    if (format.dense()) break;  // both are the same
  }
}

void add_attention(const char* name, Number number) {
  const auto full = std::string("attend/") + name;
  benchmark::RegisterBenchmark(full.c_str(), attend_tokens, number)
      ->Args({512, 1})
      ->Args({8192, 1})
      ->Args({65536, 1})
      ->Args({0, 512})
      ->Args({4096, 256})
      ->ArgNames({"past", "tokens"})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  using namespace quern;
  mx::set_default_device(mx::Device::cpu);
  add_matmul("F32", {32, Scales::none, 0, 0, Number::f32});
  add_matmul("BF16", {16, Scales::none, 0, 0, Number::bf16});
  add_matmul("Q8_0", {8, Scales::single, 32, 128, Number::f16});
  add_matmul("Q4_0", {4, Scales::single, 32, 8, Number::f16});
  add_matmul("Q4_1", {4, Scales::pair, 32, 0, Number::f16});
  add_matmul("Q5_0", {5, Scales::single, 32, 16, Number::f16});
  add_matmul("Q2_K", {2, Scales::k_nibble, 16, 0, Number::f16});
  add_matmul("Q3_K", {3, Scales::k_signed, 16, 4, Number::f16});
  add_matmul("Q4_K", {4, Scales::k_min, 32, 0, Number::f16});
  add_matmul("Q6_K", {6, Scales::k_signed, 16, 32, Number::f16});
  add_matmul("mlx4", {4, Scales::pair, 64, 0, Number::bf16});
  add_matmul("mlx8", {8, Scales::pair, 64, 0, Number::bf16});
  add_attention("f16", Number::f16);
  add_attention("f32", Number::f32);
  add_row_ops();
  benchmark::AddCustomContext("isa", kernels().name);
  benchmark::AddCustomContext("threads",
                              std::to_string(thread_pool().threads()));
  for (auto [name, value] : {std::pair("memory_GB/s", read_bandwidth()),
                             {"f32_GFLOP/s", f32_peak()},
                             {"int8_GFLOP/s", int8_peak()}}) {
    benchmark::AddCustomContext(name, std::to_string(value * 1e-9));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
