#include "engine/prefill.h"

#include <mlx/mlx.h>

#include <algorithm>

namespace quern {

mx::array forward(const TextModel& model, Row& row,
                  std::span<const int32_t> tokens, Precision precision) {
  const StepRow only{&row, int(tokens.size())};
  const Step step = make_step({&only, 1}, precision);
  return model.hidden(mx::array(tokens.data(), {int(tokens.size())}, mx::int32),
                      step);
}

Prefill::Prefill(const TextModel& model, Row& row, std::vector<int32_t> tokens,
                 Precision precision, int chunk)
    : model_(model),
      row_(row),
      tokens_(std::move(tokens)),
      precision_(precision),
      chunk_(chunk) {
  if (chunk < 1) fail("[prefill] the chunk must be at least 1, got {}", chunk);
  if (tokens_.empty()) fail("[prefill] needs a token");
}

mx::array Prefill::step() {
  const int count = std::min(chunk_, total() - fed_);
  if (count < 1) fail("[prefill] there is nothing left to feed");
  // Layer by layer: a step that grows them holds all of them twice.
  row_.make_room(count, row_.length() + total() - fed_);
  mx::array hidden = forward(
      model_, row_, std::span(tokens_).subspan(fed_, count), precision_);
  fed_ += count;
  mx::eval(hidden);
  return hidden;
}

mx::array Prefill::finish() {
  while (total() - fed_ > chunk_) step();
  const mx::array hidden = step();
  const int rows = hidden.shape(0);
  return mx::slice(hidden, {rows - 1, 0}, {rows, hidden.shape(1)});
}

}  // namespace quern
