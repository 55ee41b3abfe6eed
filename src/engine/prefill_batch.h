// The prompts of rows that are about to join, fed in steps they share.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/decode_batch.h"

namespace quern {

// A row on its way through its prompt.
struct PromptRow {
  DecodeRowPtr row;
  std::span<const int32_t> tokens;  // of the whole prompt, owned by the request
  int fed = 0;                      // in the row, or in the step under way
};

// How many tokens of each row go into a step of `chunk`, given how many it
// lacks: half for the row that came first, so that it ends; the rest for those
// that lack least, so that a short prompt does not wait for long ones.
std::vector<int> share_out(std::span<const int> lacking, int chunk);

class PrefillBatch {
 public:
  PrefillBatch(const TextModel& model, Precision precision, int chunk);

  void join(PromptRow row);
  void leave(const DecodeRow& row);

  // Starts a step of at most `chunk` tokens; false if no row lacks any. If it
  // throws, the rows of the step are lost: drop them. A DeviceFault
  // (evaluate.h) may be that of another step.
  bool issue();
  bool under_way() const { return step_.has_value(); }

  // A row's part in a step that is done.
  struct Part {
    PromptRow row;     // `fed` counts this step
    int count;         // tokens in it
    mx::array hidden;  // [count, hidden]
    bool complete() const { return row.fed == int(row.tokens.size()); }
  };
  // Waits for the step; complete rows leave the batch. If it throws, its rows
  // are lost: drop them.
  std::vector<Part> read();

  int size() const { return int(rows_.size()); }
  // Forgets the step under way, or else the one that could not be started, and
  // its rows, which it gives.
  std::vector<DecodeRowPtr> drop();

 private:
  struct StepUnderWay {
    std::vector<PromptRow> rows;
    std::vector<int> counts;
    std::optional<mx::array> hidden;  // [T, hidden]
  };

  void plan_step();

  const TextModel& model_;
  Precision precision_;
  int chunk_;
  std::vector<PromptRow> rows_;  // in the order they came
  std::optional<StepUnderWay> step_;
};

}  // namespace quern
