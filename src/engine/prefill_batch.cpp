#include "engine/prefill_batch.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <numeric>

#include "engine/evaluate.h"

namespace quern {

using mx::array;

std::vector<int> share_out(std::span<const int> lacking, int chunk) {
  std::vector<int> counts(lacking.size());
  const auto give = [&](size_t row, int most) {
    const int more = std::min(lacking[row] - counts[row], most);
    counts[row] += more;
    chunk -= more;
  };
  std::vector<size_t> order(lacking.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t row) { return lacking[row]; });
  if (!order.empty()) give(0, (chunk + 1) / 2);
  for (size_t row : order) give(row, chunk);
  return counts;
}

PrefillBatch::PrefillBatch(const TextModel& model, Precision precision,
                           int chunk)
    : model_(model), precision_(precision), chunk_(chunk) {
  if (chunk < 1) fail("[prefill] the chunk must be at least 1, got {}", chunk);
}

void PrefillBatch::join(PromptRow row) {
  if (row.fed >= int(row.tokens.size())) fail("[prefill] needs a token");
  rows_.push_back(std::move(row));
}

void PrefillBatch::leave(const DecodeRow& row) {
  std::erase_if(rows_, [&](const PromptRow& r) { return r.row.get() == &row; });
}

void PrefillBatch::plan_step() {
  std::vector<int> lacking;
  for (const PromptRow& row : rows_) {
    lacking.push_back(int(row.tokens.size()) - row.fed);
  }
  const std::vector<int> counts = share_out(lacking, chunk_);
  step_.emplace();
  for (size_t i = 0; i < rows_.size(); i++) {
    if (counts[i] == 0) continue;
    rows_[i].fed += counts[i];
    step_->rows.push_back(rows_[i]);
    step_->counts.push_back(counts[i]);
  }
}

bool PrefillBatch::issue() {
  if (step_) fail("[prefill.issue] a step is under way");
  if (rows_.empty()) return false;
  plan_step();
  std::vector<StepRow> step_rows;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < step_->rows.size(); i++) {
    const PromptRow& r = step_->rows[i];
    const int count = step_->counts[i];
    on_device([&] { r.row->row.make_room(count, r.row->most); });
    step_rows.push_back({&r.row->row, count});
    const auto part = r.tokens.subspan(r.fed - count, count);
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  const Step step = make_step(step_rows, precision_);
  step_->hidden = model_.hidden(
      array(tokens.data(), {int(tokens.size())}, mx::int32), step);
  start({*step_->hidden});
  return true;
}

std::vector<PrefillBatch::Part> PrefillBatch::read() {
  if (!step_) fail("[prefill.read] no step is under way");
  array hidden = *step_->hidden;
  wait(hidden);
  std::vector<Part> parts;
  int begin = 0;
  for (size_t i = 0; i < step_->rows.size(); i++) {
    const int count = step_->counts[i];
    parts.push_back(
        {std::move(step_->rows[i]), count,
         mx::slice(hidden, {begin, 0}, {begin + count, hidden.shape(1)})});
    begin += count;
  }
  step_.reset();
  std::erase_if(
      rows_, [](const PromptRow& r) { return r.fed == int(r.tokens.size()); });
  return parts;
}

std::vector<DecodeRowPtr> PrefillBatch::drop() {
  settle();
  std::vector<DecodeRowPtr> lost;
  if (step_) {
    for (PromptRow& r : step_->rows) lost.push_back(std::move(r.row));
    step_.reset();
  }
  for (const DecodeRowPtr& row : lost) leave(*row);
  return lost;
}

}  // namespace quern
