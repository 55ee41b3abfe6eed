#include "engine/decode_batch.h"

#include <mlx/mlx.h>

#include <algorithm>

#include "ops/cpu_op.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

// Draws a token for each row of logits [B, V]: int32 [B]. A row that fails
// gets token 0 and its reason in `draws`.
array sample(const array& logits, std::vector<DecodeRow*> rows,
             std::shared_ptr<std::vector<Result<Sampled>>> draws) {
  const mx::Stream s = stream_of({});
  auto run = [rows = std::move(rows), draws = std::move(draws)](
                 std::vector<array>& in, std::vector<array>& out) {
    const int V = in[0].shape(1);
    float* logits = in[0].data<float>();  // nobody else reads them
    int32_t* token = out[0].data<int32_t>();
    thread_pool().run(int(rows.size()), [&](int i) {
      DecodeRow& row = *rows[i];
      auto& draw = (*draws)[i];
      draw = row.sampler.sample({logits + int64_t(i) * V, size_t(V)},
                                row.position++);
      if (draw.ok()) {
        if (auto status = row.sampler.accept(draw->token); !status) {
          draw = status.failure();
        }
      }
      token[i] = draw.ok() ? draw->token : 0;
    });
  };
  return cpu_op("quern.sample", s, {logits.shape(0)}, mx::int32, {logits},
                std::move(run));
}

}  // namespace

DecodeBatch::StepUnderWay DecodeBatch::draw(const array& hidden) {
  auto draws = std::make_shared<Draws>(rows_.size(), failure("not drawn"));
  array tokens = sample(model_.logits(hidden, precision_), rows_, draws);
  std::vector<array> results{tokens};
  for (DecodeRow* row : rows_) {
    for (array& a : row->row.arrays()) results.push_back(std::move(a));
  }
  mx::async_eval(results);
  return {std::move(tokens), std::move(draws)};
}

Result<Sampled> DecodeBatch::add(DecodeRow& row, const array& hidden) {
  if (!steps_.empty()) fail("[decode.add] a step is under way");
  std::vector<DecodeRow*> others = std::exchange(rows_, {&row});
  StepUnderWay first = draw(hidden);
  mx::eval(first.tokens);
  rows_ = std::move(others);
  rows_.push_back(&row);
  tokens_ = mx::concatenate({tokens_, first.tokens}, 0);
  mx::eval(tokens_);
  return first.draws->front();
}

void DecodeBatch::remove(DecodeRow& row) {
  if (!steps_.empty()) fail("[decode.remove] a step is under way");
  const auto it = std::find(rows_.begin(), rows_.end(), &row);
  if (it == rows_.end()) fail("[decode.remove] the row is not in the batch");
  std::vector<int32_t> kept;
  for (size_t i = 0; i < rows_.size(); i++) {
    if (rows_[i] != &row) kept.push_back(tokens_.data<int32_t>()[i]);
  }
  rows_.erase(it);
  tokens_ = array(kept.data(), {int(kept.size())}, mx::int32);
}

void DecodeBatch::issue() {
  if (rows_.empty()) fail("[decode.issue] the batch is empty");
  std::vector<StepRow> step_rows;
  for (DecodeRow* row : rows_) step_rows.push_back({&row->row, 1});
  const Step step = make_step(step_rows, precision_);
  steps_.push_back(draw(model_.hidden(tokens_, step)));
  tokens_ = steps_.back().tokens;
}

std::vector<Result<Sampled>> DecodeBatch::read() {
  if (steps_.empty()) fail("[decode.read] no step is under way");
  StepUnderWay step = std::move(steps_.front());
  steps_.pop_front();
  mx::eval(step.tokens);
  return std::move(*step.draws);
}

}  // namespace quern
