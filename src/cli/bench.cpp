#include <fmt/format.h>

#include "cli/batch_options.h"
#include "cli/bench_case.h"
#include "cli/commands.h"
#include "cli/kv_options.h"
#include "cli/model_source.h"
#include "cli/output.h"
#include "cli/process.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

constexpr int kMostLength = 1 << 24;

struct BenchOptions {
  std::optional<std::string> model;
  std::vector<int> prompt{512}, depth{0}, batch{1};
  std::vector<int> threads{0};  // 0 = all cores
  int gen = 64, runs = 3, prefill_chunk = kPrefillChunk;
  bool exact = false, synthetic_depth = false, json = false;
  KvOptions kv;
  BatchLayout layout = BatchLayout::ragged;

  Precision precision() const {
    return exact ? Precision::exact : Precision::fast;
  }

  size_t cases() const {
    return threads.size() * batch.size() * depth.size() * prompt.size();
  }
};

// The cases of one number of threads.
std::vector<BenchCase> cases_of(const BenchOptions& options,
                                const KvScheme& kv) {
  std::vector<BenchCase> cases;
  for (int batch : options.batch) {
    for (int depth : options.depth) {
      for (int prompt : options.prompt) {
        cases.push_back({.prompt = prompt,
                         .gen = options.gen,
                         .depth = depth,
                         .batch = batch,
                         .synthetic_depth = options.synthetic_depth,
                         .precision = options.precision(),
                         .kv = kv,
                         .layout = options.layout,
                         .prefill_chunk = options.prefill_chunk,
                         .runs = options.runs});
      }
    }
  }
  return cases;
}

// Touches weights and code, so that the first case is not slower.
void warm_up(const TextModel& model, BenchCase bench) {
  bench.prompt = 32;
  bench.gen = 4;
  bench.depth = 0;
  bench.runs = 1;
  run_bench(model, bench, [](int) {});
}

Json row_of(const BenchCase& bench, const BenchResult& result) {
  return {{"prompt", bench.prompt},
          {"gen", bench.gen},
          {"depth", bench.depth},
          {"batch", bench.batch},
          {"threads", thread_pool().threads()},
          {"isa", kernels().name},
          {"exact", bench.precision == Precision::exact},
          {"kv", bench.kv.name()},
          {"kv_layers", result.kv_layers},
          {"batch_layout", name_of(bench.layout)},
          {"runs", bench.runs},
          {"prefill_tps", result.prefill_tps.median},
          {"prefill_spread", result.prefill_tps.spread},
          {"decode_tps", result.decode_tps.median},
          {"decode_spread", result.decode_tps.spread},
          {"ttft_ms", result.ttft_ms.median},
          {"host_ms", result.host_ms.median},
          {"kv_bytes", result.kv_bytes},
          {"bytes_per_step", result.bytes_per_step},
          {"peak_bytes", peak_resident_bytes()}};
}

void print_heading(const std::string& model, const TextModel& text_model,
                   double load_s, const KvScheme& kv) {
  print(fmt::format(
      "{}: {}, weights {:.1f} MB, loaded in {:.2f} s, {} "
      "kernels, KV {}\n{:>7} {:>7} {:>5} {:>7} {:>6} {:>11} {:>6} "
      "{:>11} {:>6} {:>7} {:>9} {:>8} {:>8}\n",
      model, text_model.facts().type, text_model.facts().weight_bytes / 1e6,
      load_s, kernels().name, kv.name(), "prompt", "depth", "batch", "threads",
      "gen", "prefill t/s", "+-", "decode t/s", "+-", "host ms", "ttft ms",
      "KV MB", "peak MB"));
}

void print_row(const BenchCase& bench, const BenchResult& result) {
  print(fmt::format(
      "{:>7} {:>7} {:>5} {:>7} {:>6} {:>11.1f} {:>5.0f}% {:>11.1f} {:>5.0f}% "
      "{:>7.2f} {:>9.1f} {:>8.1f} {:>8.1f}\n",
      bench.prompt, bench.depth, bench.batch, thread_pool().threads(),
      bench.gen, result.prefill_tps.median, 100 * result.prefill_tps.spread,
      result.decode_tps.median, 100 * result.decode_tps.spread,
      result.host_ms.median, result.ttft_ms.median, result.kv_bytes / 1e6,
      peak_resident_bytes() / 1e6));
}

void bench(const BenchOptions& options) {
  const ModelSource source(options.model);
  const std::string name = source.path().filename().string();
  set_threads(options.threads[0]);
  const Stopwatch watch;
  const auto model = source.load_model();
  const double load_s = watch.seconds();
  const KvScheme kv =
      kv_scheme(options.kv, *model, source.path(), options.precision());

  Json rows = Json::array();
  const auto total = int(options.cases() * options.runs);
  int done = 0;
  if (!options.json) print_heading(name, *model, load_s, kv);
  for (int threads : options.threads) {
    set_threads(threads);
    const std::vector<BenchCase> cases = cases_of(options, kv);
    warm_up(*model, cases[0]);
    for (const BenchCase& one : cases) {
      const BenchResult result = [&] {
        Progress progress("bench, runs", total);
        return run_bench(*model, one, [&](int) { progress.update(++done); });
      }();
      if (!options.json) {
        print_row(one, result);
        continue;
      }
      rows.push_back({{"model", name}, {"load_s", load_s}});
      rows.back().update(row_of(one, result));
    }
  }
  if (options.json) print_json(rows);
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  add_model(app, o->model);
  add_numbers(app, "--prompt", o->prompt, 1, kMostLength,
              "Tokens of the prompt (default 512)");
  add_number(app, "--gen", o->gen, 0, kMostLength,
             "Tokens that each row decodes (default 64)");
  add_numbers(app, "--depth", o->depth, 0, kMostLength,
              "Tokens in the KV cache before the prompt (default 0); may pass "
              "the trained context");
  add_flag(app, "--depth-synthetic", o->synthetic_depth,
           "Fill the depth with made-up keys and values, which is quick");
  add_numbers(app, "--batch", o->batch, 1, 4096,
              "Rows that decode together (default 1)");
  add_numbers(app, "--threads", o->threads, 1, kMostThreads,
              "Threads to compute with (default: all cores)");
  add_number(app, "--runs", o->runs, 1, 1000,
             "Runs of each case, of which the median counts (default 3)");
  add_number(app, "--prefill-chunk", o->prefill_chunk, 1, 65536,
             fmt::format("Tokens of the prompt fed at once (default {})",
                         kPrefillChunk));
  add_flag(app, "--exact", o->exact, "Compute in f32 throughout");
  add_kv_options(app, o->kv);
  add_batch_layout(app, o->layout);
  add_flag(app, "--json", o->json,
           "A list of a row for each combination of the lists above");
  return [o] { bench(*o); };
}

}  // namespace quern
