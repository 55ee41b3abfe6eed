// Logits of every position of a text, some rows at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/model.h"

namespace quern {

// How a row is computed.
struct Way {
  KvScheme scheme;
  Precision precision;
};

// Feeds `ids` to an empty row for each way, `chunk` at a time, and hands over
// the logits [count, vocabulary] of positions [first, first + count) from
// `from` on, in order: of each way (its index), then of the next positions.
// They are valid during the call only; no more than a few MB of them exist at
// once. Throws Error at the first logit that is NaN or +inf.
using LogitsRows = std::function<void(int way, int first, int count,
                                      std::span<const float> logits)>;
void for_each_logits(const TextModel& model, const std::vector<Way>& ways,
                     const std::vector<int32_t>& ids, int chunk, int from,
                     const LogitsRows& take);

}  // namespace quern
