// Time of one draw from one row of logits, by sampler and vocabulary. Rows are
// normal with a few likely tokens ("peaked", as a trained model's), or without
// them ("flat", the worst case of truncation).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sample/row.h"

namespace quern {
namespace {

std::vector<float> make_logits(int vocab, bool flat) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, flat ? 1 : 2.5f);
  std::vector<float> logits(vocab);
  for (float& x : logits) x = normal(random);
  if (!flat) {
    for (int i = 0; i < 50; ++i) logits[random() % vocab] = 12 + i * 0.1f;
  }
  return logits;
}

SamplingParams greedy_logprobs() {
  SamplingParams params;
  params.logprobs = 20;
  return params;
}

// Temperature 0.8 and what `change` sets.
template <class Change>
SamplingParams drawn(Change change) {
  SamplingParams params;
  params.temperature = 0.8f;
  change(params);
  return params;
}

SamplingParams combined() {
  return drawn([](SamplingParams& p) {
    p.top_p = 0.95f;
    p.top_k = 40;
    p.min_p = 0.02f;
    p.xtc_probability = 0.5f;
    p.repetition_penalty = 1.1f;
    p.presence_penalty = 0.5f;
    p.frequency_penalty = 0.5f;
    p.logprobs = 5;
  });
}

void sample_row(benchmark::State& state, SamplingParams params, bool flat) {
  int vocab = state.range(0);
  params.seed = 7;
  std::vector<int32_t> prompt(64);
  for (int i = 0; i < 64; ++i) prompt[i] = i * 13;
  SamplerRow row(params, vocab, prompt);
  auto source = make_logits(vocab, flat);
  std::vector<float> logits(vocab);
  uint64_t position = 0;
  for (auto _ : state) {
    std::copy(source.begin(), source.end(), logits.begin());
    auto sampled = row.sample(logits, position++);
    benchmark::DoNotOptimize(sampled);
  }
}

// What the refill of the scratch row costs in each of the others.
void copy_only(benchmark::State& state) {
  auto source = make_logits(state.range(0), true);
  std::vector<float> logits(source.size());
  for (auto _ : state) {
    std::copy(source.begin(), source.end(), logits.begin());
    benchmark::ClobberMemory();
  }
}

void vocabularies(benchmark::internal::Benchmark* bench) {
  bench->Arg(49152)->Arg(151936)->Arg(262144)->Unit(benchmark::kMillisecond);
}

void add(const char* name, const SamplingParams& params) {
  for (bool flat : {false, true}) {
    auto full = std::string(name) + (flat ? "/flat" : "/peaked");
    benchmark::RegisterBenchmark(full.c_str(), sample_row, params, flat)
        ->Apply(vocabularies);
  }
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  using namespace quern;
  benchmark::RegisterBenchmark("copy", copy_only)->Apply(vocabularies);
  add("greedy", {});
  add("greedy, 20 logprobs", greedy_logprobs());
  add("temperature", drawn([](auto&) {}));
  add("top_k 40", drawn([](auto& p) { p.top_k = 40; }));
  add("top_p 0.95", drawn([](auto& p) { p.top_p = 0.95f; }));
  add("min_p 0.05", drawn([](auto& p) { p.min_p = 0.05f; }));
  add("xtc", drawn([](auto& p) { p.xtc_probability = 1; }));
  add("all and penalties", combined());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
