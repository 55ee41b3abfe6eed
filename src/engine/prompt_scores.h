// What the tokens of a prompt would have cost.
#pragma once

#include <span>
#include <vector>

#include "models/model.h"
#include "sample/row.h"

namespace quern {

constexpr int kScoredAtOnce = 16;  // rows of logits in memory

// Scores tokens[i], which follows the one whose hidden state is row i of
// `hidden` [N, hidden], with the `top` most likely ones. Throws Error if a
// logit is NaN or +inf.
std::vector<Sampled> score_tokens(const TextModel& model,
                                  const mx::array& hidden,
                                  std::span<const int32_t> tokens, int top,
                                  Precision precision);

}  // namespace quern
