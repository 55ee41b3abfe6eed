// The rows that decode together.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "sample/row.h"

namespace quern {

// A row that has its prompt, and the sampler of its answer.
struct DecodeRow {
  Row row;
  SamplerRow sampler;
  uint64_t position;       // of the next token drawn, in the row's text
  int left;                // draws it still gets
  int most = kMostTokens;  // tokens that the row may come to hold
};
using DecodeRowPtr = std::shared_ptr<DecodeRow>;

// What a step drew for one row.
struct Draw {
  DecodeRowPtr row;
  Result<Sampled> sampled = failure("not drawn");
  bool done = false;  // its constraint allows no further token
};

// Decodes one token a step for every row. Sampling is part of the step's
// graph, so the next step is issued before the tokens of the last are read, and
// rows join and leave while steps are under way. A row's tokens do not depend
// on the others. Steps keep their rows alive until they are read.
//
// Merged, a row's past moves into the batch's buffers before its first step
// after the one of join, and is gone when it leaves; the buffers are written in
// place, so that a step waits for the one before it.
class DecodeBatch {
 public:
  DecodeBatch(const TextModel& model, Precision precision,
              BatchLayout layout = BatchLayout::ragged)
      : model_(model), precision_(precision), layout_(layout) {}

  // Takes in rows whose prompts' last hidden states are `hidden` [N, hidden]:
  // starts a step that draws their first tokens.
  void join(std::vector<DecodeRowPtr> rows, const mx::array& hidden);
  // No further step for this row.
  void leave(const DecodeRow& row);
  // Starts a step of all rows from their last tokens. Rows without draws left
  // leave first; false if that leaves none. If it throws, the rows are lost:
  // read what is under way and drop them, or at a DeviceFault (evaluate.h) drop
  // them at once.
  bool issue();

  // Gives back what rows that have left still hold of merged buffers; waits
  // for steps under way. Throws as issue does.
  void tidy();

  // Steps started and not read.
  int under_way() const { return int(steps_.size()); }
  // Waits for the oldest step. If it throws, so would the others: drop them.
  std::vector<Draw> read();

  // The rows that get a further step.
  std::span<const DecodeRowPtr> rows() const { return rows_; }
  // Tokens that a row holds, here or on its own.
  int length(const DecodeRow& row) const;
  // Held by the batch, beside the rows.
  size_t merged_bytes() const { return merged_.bytes(); }
  // Forgets rows and steps; gives all rows that were in them, some twice.
  std::vector<DecodeRowPtr> drop();

 private:
  // What the sampling of one step leaves, written on the stream's thread.
  using Draws = std::vector<Draw>;
  struct StepUnderWay {
    mx::array tokens;  // int32 [B]
    std::shared_ptr<Draws> draws;
  };

  StepUnderWay draw(const std::vector<DecodeRowPtr>& rows,
                    const mx::array& hidden);
  template <class Goes>
  void leave_if(Goes goes);
  void arrange();
  Step ragged_step();
  Step merged_step();

  const TextModel& model_;
  Precision precision_;
  BatchLayout layout_;
  std::vector<DecodeRowPtr> rows_;
  // The rows of the merged buffers: the first of rows_ are places_[0], ...
  MergedRows merged_;
  std::vector<int> places_;
  mx::array tokens_ = no_tokens();  // int32, the last of each row
  std::deque<StepUnderWay> steps_;

  static mx::array no_tokens() {
    return mx::array(std::initializer_list<int>{}, mx::int32);
  }
};

}  // namespace quern
