// The numeric contract: a row's logits are the same bits alone, in any batch
// and however its prompt is cut.
#pragma once

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <random>
#include <vector>

#include "engine/prefill.h"

namespace quern::test {

using Logits = std::vector<float>;

inline Logits to_vector(const mx::array& a) {
  mx::array evaluated = a;
  mx::eval(evaluated);
  return {evaluated.data<float>(), evaluated.data<float>() + evaluated.size()};
}

inline std::vector<int32_t> random_ids(int count, int vocabulary, int seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (auto& id : ids) id = int32_t(random() % uint32_t(vocabulary));
  return ids;
}

// Logits of every token of `ids`, fed in chunks.
inline Logits chunked(const TextModel& model, const std::vector<int32_t>& ids,
                      Precision precision, int chunk, const KvScheme& kv = {}) {
  Row row = model.make_row(kv.with(kv_number(precision)));
  Prefill prefill(model, row, ids, precision, chunk);
  Logits all;
  while (!prefill.finished()) {
    for (float v : to_vector(model.logits(prefill.step(), precision))) {
      all.push_back(v);
    }
  }
  return all;
}

// Logits of the last token of each prompt after `steps` more tokens, all
// prompts in one batch of ragged rows.
inline std::vector<Logits> batched(
    const TextModel& model, const std::vector<std::vector<int32_t>>& prompts,
    Precision precision, int steps, const KvScheme& kv = {}) {
  std::vector<Row> rows;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < prompts.size(); i++) {
    rows.push_back(model.make_row(kv.with(kv_number(precision))));
  }
  std::vector<Logits> result(prompts.size());
  for (int step = 0; step <= steps; step++) {
    std::vector<StepRow> parts;
    std::vector<int32_t> ids;
    for (size_t i = 0; i < prompts.size(); i++) {
      const auto& p = prompts[i];
      const int length = int(p.size());
      // The last `steps` tokens are fed one by one.
      const int from = step == 0 ? 0 : length - steps + step - 1;
      const int to = length - steps + step;
      parts.push_back({&rows[i], to - from});
      ids.insert(ids.end(), p.begin() + from, p.begin() + to);
    }
    const Step s = make_step(parts, precision);
    const Logits all = to_vector(model.logits(
        model.hidden(mx::array(ids.data(), {int(ids.size())}, mx::int32), s),
        precision));
    const int V = model.facts().vocabulary;
    int end = 0;
    for (size_t i = 0; i < prompts.size(); i++) {
      end += parts[i].count;
      result[i].assign(all.begin() + int64_t(end - 1) * V,
                       all.begin() + int64_t(end) * V);
    }
  }
  return result;
}

inline void check_chunks(const TextModel& model, int tokens,
                         const std::vector<int>& chunks, Precision precision,
                         const KvScheme& kv = {}) {
  const auto ids = random_ids(tokens, model.facts().vocabulary, 5);
  const Logits whole = chunked(model, ids, precision, tokens, kv);
  for (int chunk : chunks) {
    EXPECT_EQ(chunked(model, ids, precision, chunk, kv), whole)
        << "chunks of " << chunk;
  }
}

inline void check_company(const TextModel& model, int longest,
                          const std::vector<int>& sizes, int steps,
                          Precision precision, const KvScheme& kv = {}) {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < sizes.back(); i++) {
    const int length =
        steps + 1 + (i * 37 + longest - steps - 1) % (longest - steps);
    prompts.push_back(random_ids(length, model.facts().vocabulary, 100 + i));
  }
  std::vector<Logits> alone;
  for (const auto& prompt : prompts) {
    alone.push_back(batched(model, {prompt}, precision, steps, kv)[0]);
  }
  for (int size : sizes) {
    const auto together = batched(
        model, {prompts.begin(), prompts.begin() + size}, precision, steps, kv);
    for (int i = 0; i < size; i++) {
      EXPECT_EQ(together[i], alone[i]) << "row " << i << " of " << size;
    }
  }
}

}  // namespace quern::test
