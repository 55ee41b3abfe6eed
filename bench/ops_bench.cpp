// Time of the CPU ops: matmul by weight format and rows of x, attention of a
// decode step and of a prefill. Counters: weight (or KV) bytes read and
// floating point operations a second, and the share of the read bandwidth that
// all threads together measure here.
#include <benchmark/benchmark.h>
#include <mlx/mlx.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "ops/attention/attention.h"
#include "ops/kernels.h"
#include "ops/qmm/qmm.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using qmm::Format;
using qmm::Number;
using qmm::Scales;

// Bytes a second of the best of several passes over 256 MB.
double measure_bandwidth() {
  std::vector<uint64_t> words(size_t(32) << 20, 1);
  double best = 0;
  for (int pass = 0; pass < 5; pass++) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(256, 1, [&](int begin, int end) {
      const size_t share = words.size() / 256;
      benchmark::DoNotOptimize(std::accumulate(words.data() + begin * share,
                                               words.data() + end * share,
                                               uint64_t(0)));
    });
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, double(words.size() * 8) / time.count());
  }
  return best;
}

double bandwidth() {
  static const double value = measure_bandwidth();
  return value;
}

void count(benchmark::State& state, double bytes, double operations) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = Counter(bytes * 1e-9, rate);
  state.counters["GFLOP/s"] = Counter(operations * 1e-9, rate);
  state.counters["of_bandwidth"] = Counter(bytes / bandwidth(), rate);
}

// Weights beyond the caches: 64 MB of codes in a few matrices, used in turn.
std::vector<Weight> make_weights(const Format& format, int n, int k) {
  std::mt19937 random(1);
  std::vector<Weight> weights;
  const size_t bytes = format.bytes(n, k);
  for (size_t all = 0; all < size_t(64) << 20; all += bytes) {
    mx::array tiles(mx::allocator::malloc(bytes), {int(bytes)}, mx::uint8);
    auto* words = tiles.data<uint32_t>();
    // Every half and every float is a small number.
    for (size_t i = 0; i < bytes / 4; i++) words[i] = random() & 0x2fff2fff;
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
  count(state, double(format.bytes(n, k)), 2.0 * rows * n * k);
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
        4.0 * tokens * keys * 24 * 128);
}

void add_matmul(const char* name, const Format& format) {
  for (auto precision : {Precision::fast, Precision::exact}) {
    const auto full = std::string("matmul/") + name +
                      (precision == Precision::fast ? "/fast" : "/exact");
    benchmark::RegisterBenchmark(full.c_str(), matmul_rows, format, precision)
        ->Arg(1)
        ->Arg(8)
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
  add_matmul("Q4_K", {4, Scales::k_min, 32, 0, Number::f16});
  add_matmul("Q6_K", {6, Scales::k_signed, 16, 32, Number::f16});
  add_matmul("mlx4", {4, Scales::pair, 64, 0, Number::bf16});
  add_attention("f16", Number::f16);
  add_attention("f32", Number::f32);
  benchmark::AddCustomContext("isa", kernels().name);
  benchmark::AddCustomContext("threads",
                              std::to_string(thread_pool().threads()));
  benchmark::AddCustomContext("bandwidth_GB/s",
                              std::to_string(bandwidth() * 1e-9));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
