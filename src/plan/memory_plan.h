// What a model takes of memory, and what fits: arithmetic, no allocation.
#pragma once

#include <cstddef>
#include <functional>

#include "base/files.h"
#include "models/model.h"

namespace quern {

// Freed memory that MLX's allocator may keep for its next arrays.
constexpr size_t kAllocatorCache = 128 << 20;

// Bytes that the use of a model needs.
struct MemoryNeeds {
  size_t weights = 0;
  size_t transients = 0;  // of the steps under way: activations and logits
  size_t reserve = 0;     // scratch, and what the allocator keeps
  // Of a row that comes to hold `tokens`, at most.
  std::function<size_t(int tokens)> row;
  // Each of some rows together takes what the longest of them would.
  bool padded = false;

  size_t fixed() const { return weights + transients + reserve; }
};

// The largest steps of an engine.
struct StepSizes {
  int chunk;   // tokens of prompts
  int batch;   // rows that decode
  int scored;  // tokens of prompts whose logits are in memory at once
  BatchLayout layout = BatchLayout::ragged;
};
MemoryNeeds memory_needs(const TextModel& model, const KvScheme& kv,
                         const StepSizes& sizes);

// The longest row, of at most `most` tokens, that takes no more than `bytes`.
int longest_row(const MemoryNeeds& needs, size_t bytes, int most);

// Whether a context fits into a budget. total = weights + kv + transient +
// reserve.
struct MemoryPlan {
  bool fits = false;
  int context_tokens = 0;
  int max_safe_context = 0;  // the longest that fits, within the model's own
  size_t weights_bytes = 0;
  size_t kv_bytes = 0;
  size_t transient_bytes = 0;
  size_t reserve_bytes = 0;
  size_t total_bytes = 0;
  size_t usable_bytes = 0;  // the budget
};
MemoryPlan plan_memory(const MemoryNeeds& needs, size_t budget, int context,
                       int most_context);

// What this process may hold: the machine's memory, or less where its control
// group says so. `root` holds proc/ and sys/fs/cgroup/ in the place of "/".
size_t memory_limit(const Path& root = "/");

// Three quarters of memory_limit().
size_t default_budget();

}  // namespace quern
