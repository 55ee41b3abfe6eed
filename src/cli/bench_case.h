// One measurement of `quern bench`.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "models/model.h"

namespace quern {

struct BenchCase {
  int prompt;            // tokens of the measured prefill
  int gen;               // tokens decoded by each row after it
  int depth;             // tokens in the KV cache before the prompt
  int batch;             // rows that decode together
  bool synthetic_depth;  // made-up keys and values instead of a prefill
  Precision precision;
  KvScheme kv;
  BatchLayout layout;
  int prefill_chunk;
  int runs;
};

// A median over the runs, and how far they lie apart: (max - min) / median.
struct Measured {
  double median = 0, spread = 0;
};

struct BenchResult {
  Measured prefill_tps;  // of one row; the draw of the first token included
  Measured decode_tps;   // of all rows together
  Measured ttft_ms;      // of one row
  Measured host_ms;      // a decode step's work beside the ops: its graph
  size_t kv_bytes = 0;   // held at the end, by all rows
  std::map<std::string, int> kv_layers;  // how many keep KV in which way
  size_t bytes_per_step = 0;  // weights and KV read by a decode step, half way
};

// `run_done` hears how many runs are done.
BenchResult run_bench(const TextModel& model, const BenchCase& bench,
                      const std::function<void(int)>& run_done);

}  // namespace quern
