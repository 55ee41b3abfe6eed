// The rows of one forward pass, in whichever form they keep their past.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kv/merged_rows.h"
#include "ops/layer/layer.h"

namespace quern {

// The form of rows that decode together: each on planes of its own, or all in
// one buffer a layer.
enum class BatchLayout { ragged, merged };

std::string_view name_of(BatchLayout layout);

class StepRows {
 public:
  virtual ~StepRows() = default;

  // Of the tokens of the step, row after row.
  virtual std::vector<int32_t> positions() const = 0;
  // decoder_layer (ops/layer/layer.h) on layer `layer` of the rows, which grow.
  // `options` are the model's.
  virtual mx::array decoder_layer(int layer, const mx::array& x,
                                  const LayerWeights& weights,
                                  Precision precision,
                                  const AttendOptions& options,
                                  const mx::array& rope_table) = 0;
};

// One row of a forward pass and how many of its tokens are in it.
struct StepRow {
  Row* row;
  int count;
};
// Of rows on planes of their own, which must outlive it.
std::unique_ptr<StepRows> ragged_step(std::span<const StepRow> rows);
// Of the next token of each merged row; `rows` must outlive it.
std::unique_ptr<StepRows> merged_step(MergedRows& rows);

}  // namespace quern
