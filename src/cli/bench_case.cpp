#include "cli/bench_case.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <random>

#include "cli/output.h"
#include "cli/process.h"
#include "engine/decode_batch.h"
#include "engine/prefill.h"

namespace quern {
namespace {

std::vector<int32_t> random_ids(int count, int vocabulary) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> id(0, vocabulary - 1);
  std::vector<int32_t> ids(count);
  for (int32_t& i : ids) i = id(random);
  return ids;
}

Cache& cache_of(Row& row, int layer) {
  auto* cache = dynamic_cast<Cache*>(&row.layer(layer));
  if (!cache) fail("[bench] layer {} has no KV cache", layer);
  return *cache;
}

Row deep_row(const TextModel& model, const BenchCase& bench) {
  Row row = model.make_row(bench.kv);
  if (bench.depth == 0) return row;
  if (bench.synthetic_depth) {
    for (int i = 0; i < row.layers(); i++) cache_of(row, i).fill(bench.depth);
    return row;
  }
  Prefill prefill(model, row, random_ids(bench.depth, model.facts().vocabulary),
                  bench.precision, bench.prefill_chunk);
  Progress progress("filling the cache", bench.depth);
  while (!prefill.finished()) {
    prefill.step();
    progress.update(prefill.fed());
  }
  return row;
}

// Bytes of keys and values that a step reads of a row with `length` tokens.
size_t kv_read_bytes(const Row& row, int length) {
  size_t sum = 0;
  for (int i = 0; i < row.layers(); i++) {
    const auto& cache = dynamic_cast<const Cache&>(row.layer(i));
    const int window = cache.layout().window();
    const int seen = window > 0 ? std::min(length, window) : length;
    const KvShape& shape = cache.shape();
    sum += KvCodec{shape.format}.bytes_per_token(shape.head_dim) *
           shape.kv_heads * seen;
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half]
                           : (values[half - 1] + values[half]) / 2;
}

Measured measured(const std::vector<double>& values) {
  const double middle = median(values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {middle, middle > 0 ? (*high - *low) / middle : 0};
}

// The seconds of one run.
struct RunTimes {
  double prefill = 0, decode = 0;
  double host = 0;  // of decode, that this thread computed
};

class BenchRun {
 public:
  BenchRun(const TextModel& model, const BenchCase& bench, Row row)
      : model_(model),
        bench_(bench),
        batch_(model, bench.precision, bench.layout) {
    add(std::move(row));
  }

  RunTimes run() {
    RunTimes times;
    const Stopwatch prefill;
    Prefill feed(model_, row(),
                 random_ids(bench_.prompt, model_.facts().vocabulary),
                 bench_.precision, bench_.prefill_chunk);
    const mx::array hidden = feed.finish();
    batch_.join({rows_.front()}, hidden);
    read();
    times.prefill = prefill.seconds();

    for (int i = 1; i < bench_.batch; i++) {
      add(row().copy());
      batch_.join({rows_.back()}, hidden);
      read();
    }
    kv_bytes_ = held_bytes();
    const Stopwatch decode;
    const double before = thread_seconds();
    if (bench_.gen > 0) batch_.issue();
    for (int i = 0; i < bench_.gen; i++) {
      kv_bytes_ = held_bytes();  // the last issue ends the rows
      batch_.issue();
      read();
    }
    times.decode = decode.seconds();
    times.host = thread_seconds() - before;
    return times;
  }

  // At the end of the run.
  size_t kv_bytes() const { return kv_bytes_; }
  Row& row() { return rows_.front()->row; }

 private:
  size_t held_bytes() const {
    size_t sum = batch_.merged_bytes();
    for (const DecodeRowPtr& row : rows_) sum += row->row.bytes();
    return sum;
  }
  void add(Row row) {
    rows_.push_back(std::make_shared<DecodeRow>(
        DecodeRow{.row = std::move(row),
                  .sampler = SamplerRow({}, model_.facts().vocabulary),
                  .position = 0,
                  .left = bench_.gen + 1}));
  }
  void read() {
    for (Draw& draw : batch_.read()) std::move(draw.sampled).or_throw();
  }

  const TextModel& model_;
  const BenchCase& bench_;
  std::vector<DecodeRowPtr> rows_;
  DecodeBatch batch_;
  size_t kv_bytes_ = 0;
};

}  // namespace

BenchResult run_bench(const TextModel& model, const BenchCase& bench,
                      const std::function<void(int)>& run_done) {
  const Row deep = deep_row(model, bench);
  std::vector<double> prefill_tps, decode_tps, ttft_ms, host_ms;
  BenchResult result;
  for (int i = 0; i < bench.runs; i++) {
    BenchRun run(model, bench, deep.copy());
    const RunTimes times = run.run();
    prefill_tps.push_back(bench.prompt / times.prefill);
    decode_tps.push_back(bench.gen > 0 ? bench.batch * bench.gen / times.decode
                                       : 0);
    ttft_ms.push_back(times.prefill * 1e3);
    host_ms.push_back(bench.gen > 0 ? times.host * 1e3 / bench.gen : 0);
    const int half_way = bench.depth + bench.prompt + bench.gen / 2;
    result.kv_bytes = run.kv_bytes();
    result.kv_layers = counts_of(deep.signatures());
    result.bytes_per_step =
        model.facts().step_bytes + bench.batch * kv_read_bytes(deep, half_way);
    run_done(i + 1);
  }
  result.prefill_tps = measured(prefill_tps);
  result.decode_tps = measured(decode_tps);
  result.ttft_ms = measured(ttft_ms);
  result.host_ms = measured(host_ms);
  return result;
}

}  // namespace quern
