#include "plan/memory_plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <string>

namespace quern {
namespace {

constexpr size_t kScratch = 16 << 20;  // of kernels
constexpr int kSamplerBytes = 24;  // of each row and token of the vocabulary

// The number in a file, or 0: "max" and what is not there set no limit.
size_t number_in(const Path& file) {
  std::ifstream in(file);
  std::string text;
  size_t number = 0;
  if (in >> text) {
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

// MemTotal, in bytes.
size_t machine_memory(const Path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string key;
  size_t kib = 0;
  while (in >> key >> kib) {
    if (key == "MemTotal:") return kib * 1024;
    in.ignore(1 << 10, '\n');
  }
  return 0;
}

}  // namespace

MemoryNeeds memory_needs(const TextModel& model, const KvScheme& kv,
                         const StepSizes& sizes) {
  const ModelFacts& facts = model.facts();
  // Two steps may be under way.
  const size_t tokens = size_t(sizes.chunk) + 2 * size_t(sizes.batch);
  const size_t logits = size_t(facts.vocabulary) * sizeof(float);
  auto empty = std::make_shared<Row>(model.make_row(kv));
  const bool merged = sizes.layout == BatchLayout::merged;
  return {.weights = facts.weight_bytes,
          .transients = tokens * facts.token_bytes +
                        (2 * size_t(sizes.batch) + sizes.scored) * logits,
          .reserve = kAllocatorCache + kScratch +
                     size_t(sizes.batch) * facts.vocabulary * kSamplerBytes,
          .row =
              [empty, merged](int tokens) {
                return merged ? MergedRows::bytes_at(*empty, tokens)
                              : empty->bytes_at(tokens);
              },
          .padded = merged};
}

int longest_row(const MemoryNeeds& needs, size_t bytes, int most) {
  int fits = 0, too_long = most + 1;
  while (too_long - fits > 1) {
    const int middle = fits + (too_long - fits) / 2;
    (needs.row(middle) <= bytes ? fits : too_long) = middle;
  }
  return fits;
}

MemoryPlan plan_memory(const MemoryNeeds& needs, size_t budget, int context,
                       int most_context) {
  MemoryPlan plan{.context_tokens = context,
                  .weights_bytes = needs.weights,
                  .kv_bytes = needs.row(context),
                  .transient_bytes = needs.transients,
                  .reserve_bytes = needs.reserve,
                  .usable_bytes = budget};
  plan.total_bytes = needs.fixed() + plan.kv_bytes;
  plan.fits = plan.total_bytes <= budget;
  if (budget > needs.fixed()) {
    plan.max_safe_context =
        longest_row(needs, budget - needs.fixed(), most_context);
  }
  return plan;
}

size_t memory_limit(const Path& root) {
  size_t limit = machine_memory(root);
  const auto lower = [&](size_t bytes) {
    if (bytes > 0) limit = limit > 0 ? std::min(limit, bytes) : bytes;
  };
  // "0::/a/b" names the group; the limits of those above it hold too. Inside a
  // container its own group is the root.
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;
    const Path top = root / "sys/fs/cgroup";
    for (Path group = line.substr(4);; group = group.parent_path()) {
      lower(number_in(top / group / "memory.max"));
      if (group.empty()) break;
    }
  }
  lower(number_in(root / "sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return limit;
}

size_t default_budget() { return memory_limit() / 4 * 3; }

}  // namespace quern
