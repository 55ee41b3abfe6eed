// The rows that decode together.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "models/model.h"
#include "sample/row.h"

namespace quern {

// A row that has its prompt, and the sampler of its answer. Owned by the
// request; the batch holds it between add and remove.
struct DecodeRow {
  Row row;
  SamplerRow sampler;
  uint64_t position;  // of the next token drawn, in the row's text
};

// Decodes one token a step for every row. Sampling is part of the step's
// graph, so the next step is issued before the tokens of the last are read.
// A row's tokens do not depend on the others.
class DecodeBatch {
 public:
  DecodeBatch(const TextModel& model, Precision precision)
      : model_(model), precision_(precision) {}

  // Takes in a row whose prompt's last hidden state is `hidden` [1, hidden]:
  // draws its first token. Only while no step is under way.
  Result<Sampled> add(DecodeRow& row, const mx::array& hidden);
  // Only while no step is under way.
  void remove(DecodeRow& row);
  size_t size() const { return rows_.size(); }

  // Starts a step from the tokens of the step before it.
  void issue();
  // Steps issued and not read.
  int under_way() const { return int(steps_.size()); }
  // Waits for the oldest step: a token, or the reason why that row cannot go
  // on, for each row in the order of add.
  std::vector<Result<Sampled>> read();

 private:
  // What the sampling of one step leaves, written on the stream's thread.
  using Draws = std::vector<Result<Sampled>>;
  struct StepUnderWay {
    mx::array tokens;  // int32 [B]
    std::shared_ptr<Draws> draws;
  };

  StepUnderWay draw(const mx::array& hidden);

  const TextModel& model_;
  Precision precision_;
  std::vector<DecodeRow*> rows_;
  mx::array tokens_ = mx::array(std::initializer_list<int>{}, mx::int32);
  std::deque<StepUnderWay> steps_;
};

}  // namespace quern
