// The prompt of one request on its way into a row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/model.h"

namespace quern {

// Tokens a step: enough for the matmuls to be at their best, few enough for the
// activations in flight to stay small.
constexpr int kPrefillChunk = 256;

// Feeds a row its prompt, a chunk a step. The chunk size changes no bit of the
// result. Owns neither model nor row.
class Prefill {
 public:
  Prefill(const TextModel& model, Row& row, std::vector<int32_t> tokens,
          Precision precision, int chunk = kPrefillChunk);

  int total() const { return int(tokens_.size()); }
  int fed() const { return fed_; }
  bool finished() const { return fed_ == total(); }

  // Feeds the next chunk and waits for it: its hidden states [N, hidden].
  mx::array step();
  // Feeds what is left: the hidden state [1, hidden] of the last token.
  mx::array finish();

 private:
  const TextModel& model_;
  Row& row_;
  std::vector<int32_t> tokens_;
  Precision precision_;
  int chunk_;
  int fed_ = 0;
};

// The states of one forward pass of `tokens` on one row (not evaluated).
mx::array forward(const TextModel& model, Row& row,
                  std::span<const int32_t> tokens, Precision precision);

}  // namespace quern
