// Logits of every position of a text, some rows at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/model.h"

namespace quern {

// Feeds `ids` to an empty row of each scheme, `chunk` at a time, and hands over
// the logits [count, vocabulary] of positions [first, first + count) from
// `from` on, in order: of each scheme (its index), then of the next positions.
// They are valid during the call only; no more than a few MB of them exist at
// once. Throws Error at the first logit that is NaN or +inf.
using LogitsRows = std::function<void(int scheme, int first, int count,
                                      std::span<const float> logits)>;
void for_each_logits(const TextModel& model,
                     const std::vector<KvScheme>& schemes,
                     const std::vector<int32_t>& ids, Precision precision,
                     int chunk, int from, const LogitsRows& take);

}  // namespace quern
