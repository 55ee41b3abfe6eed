#include "engine/decode_batch.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <numeric>

#include "engine/evaluate.h"
#include "ops/cpu_op.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

// Draws the row's next token. What throws is the row's failure.
void draw_token(Draw& draw, std::span<float> logits) {
  DecodeRow& row = *draw.row;
  try {
    draw.sampled = row.sampler.sample(logits, row.position++);
    if (!draw.sampled) return;
    const Status status = row.sampler.accept(draw.sampled->token);
    if (!status) draw.sampled = status.failure();
    draw.done = row.sampler.done();
  } catch (const std::exception& e) {
    draw.sampled = failure("{}", e.what());
  }
}

// A token for each row of logits [B, V]: int32 [B]. A row that fails gets token
// 0 and its reason in `draws`.
array sample(const array& logits, std::shared_ptr<std::vector<Draw>> draws) {
  const mx::Stream s = stream_of({});
  auto run = [draws = std::move(draws)](std::vector<array>& in,
                                        std::vector<array>& out) {
    const int V = in[0].shape(1);
    float* logits = in[0].data<float>();  // nobody else reads them
    int32_t* token = out[0].data<int32_t>();
    thread_pool().run(int(draws->size()), [&](int i) {
      Draw& draw = (*draws)[i];
      draw_token(draw, {logits + int64_t(i) * V, size_t(V)});
      token[i] = draw.sampled ? draw.sampled->token : 0;
    });
  };
  return cpu_op("quern.sample", s, {logits.shape(0)}, mx::int32, {logits},
                std::move(run));
}

}  // namespace

DecodeBatch::StepUnderWay DecodeBatch::draw(
    const std::vector<DecodeRowPtr>& rows, const array& hidden) {
  auto draws = std::make_shared<Draws>();
  for (const DecodeRowPtr& row : rows) draws->push_back({row});
  array tokens = sample(model_.logits(hidden, precision_), draws);
  for (const DecodeRowPtr& row : rows) row->left--;
  start({tokens});
  return {std::move(tokens), std::move(draws)};
}

void DecodeBatch::join(std::vector<DecodeRowPtr> rows, const array& hidden) {
  steps_.push_back(draw(rows, hidden));
  const array& first = steps_.back().tokens;
  tokens_ = rows_.empty() ? first : mx::concatenate({tokens_, first}, 0);
  for (DecodeRowPtr& row : rows) rows_.push_back(std::move(row));
}

template <class Goes>
void DecodeBatch::leave_if(Goes goes) {
  std::vector<int32_t> kept;
  for (size_t i = 0; i < rows_.size(); i++) {
    if (!goes(*rows_[i])) kept.push_back(int32_t(i));
  }
  if (kept.size() == rows_.size()) return;
  std::vector<int> places;
  for (int32_t i : kept) {
    if (i < int(places_.size())) places.push_back(places_[i]);
  }
  places_ = std::move(places);
  if (places_.empty()) merged_ = {};
  std::erase_if(rows_, [&](const DecodeRowPtr& row) { return goes(*row); });
  const array at(kept.data(), {int(kept.size())}, mx::int32);
  tokens_ = kept.empty() ? no_tokens() : mx::take(tokens_, at, 0);
}

void DecodeBatch::leave(const DecodeRow& row) {
  leave_if([&](const DecodeRow& other) { return &other == &row; });
}

// All rows in the merged buffers, and no others.
void DecodeBatch::arrange() {
  std::vector<Row> joining;
  for (size_t i = places_.size(); i < rows_.size(); i++) {
    joining.push_back(std::exchange(rows_[i]->row, Row({})));
  }
  if (joining.empty() && int(places_.size()) == merged_.size()) return;
  merged_.arrange(places_, std::move(joining));
  places_.resize(rows_.size());
  std::iota(places_.begin(), places_.end(), 0);
}

void DecodeBatch::tidy() {
  if (int(places_.size()) == merged_.size()) return;
  for (StepUnderWay& step : steps_) wait(step.tokens);
  on_device([&] { arrange(); });
}

Step DecodeBatch::ragged_step() {
  std::vector<StepRow> step_rows;
  for (const DecodeRowPtr& row : rows_) {
    on_device([&] { row->row.make_room(1, row->most); });
    step_rows.push_back({&row->row, 1});
  }
  return make_step(step_rows, precision_);
}

Step DecodeBatch::merged_step() {
  for (StepUnderWay& step : steps_) wait(step.tokens);
  on_device([&] {
    arrange();
    merged_.make_room();
  });
  return make_step(merged_, precision_);
}

bool DecodeBatch::issue() {
  leave_if([](const DecodeRow& row) { return row.left <= 0; });
  if (rows_.empty()) return false;
  const Step step =
      layout_ == BatchLayout::merged ? merged_step() : ragged_step();
  steps_.push_back(draw(rows_, model_.hidden(tokens_, step)));
  tokens_ = steps_.back().tokens;
  return true;
}

int DecodeBatch::length(const DecodeRow& row) const {
  for (size_t i = 0; i < places_.size(); i++) {
    if (rows_[i].get() == &row) return merged_.length(places_[i]);
  }
  return row.row.length();
}

std::vector<Draw> DecodeBatch::read() {
  if (steps_.empty()) fail("[decode.read] no step is under way");
  wait(steps_.front().tokens);
  const StepUnderWay step = std::move(steps_.front());
  steps_.pop_front();
  return std::move(*step.draws);
}

std::vector<DecodeRowPtr> DecodeBatch::drop() {
  settle();
  std::vector<DecodeRowPtr> lost = std::exchange(rows_, {});
  for (const StepUnderWay& step : steps_) {
    for (const Draw& draw : *step.draws) lost.push_back(draw.row);
  }
  steps_.clear();
  merged_ = {};
  places_.clear();
  tokens_ = no_tokens();
  return lost;
}

}  // namespace quern
