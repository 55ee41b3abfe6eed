// Logits of every position of a text, some rows at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/model.h"

namespace quern {

// Feeds `ids` to an empty row, `chunk` at a time, and hands over the logits
// [count, vocabulary] of positions [first, first + count), in order. They are
// valid during the call only; no more than a few MB of them exist at once.
// Throws Error at the first logit that is NaN or +inf.
using LogitsRows =
    std::function<void(int first, int count, std::span<const float> logits)>;
void for_each_logits(const TextModel& model, Row row, std::vector<int32_t> ids,
                     Precision precision, int chunk, const LogitsRows& take);

}  // namespace quern
