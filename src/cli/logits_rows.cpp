#include "cli/logits_rows.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <limits>

#include "engine/prefill.h"

namespace quern {
namespace {

constexpr int64_t kMostLogits = 8 << 20;  // 32 MB of f32

void check_logits(std::span<const float> logits, int first, size_t vocabulary) {
  const auto unusable =
      std::find_if(logits.begin(), logits.end(), [](float logit) {
        return !(logit < std::numeric_limits<float>::infinity());
      });
  if (unusable == logits.end()) return;
  const size_t at = unusable - logits.begin();
  fail("the model gave {} as the logit of token {} at position {}", *unusable,
       at % vocabulary, first + at / vocabulary);
}

}  // namespace

void for_each_logits(const TextModel& model, Row row, std::vector<int32_t> ids,
                     Precision precision, int chunk, const LogitsRows& take) {
  const int64_t vocabulary = model.facts().vocabulary;
  const int most = int(std::clamp<int64_t>(kMostLogits / vocabulary, 1, 256));
  Prefill prefill(model, row, std::move(ids), precision, chunk);
  while (!prefill.finished()) {
    const int first = prefill.fed();
    const mx::array hidden = prefill.step();
    const int count = hidden.shape(0);
    for (int begin = 0; begin < count; begin += most) {
      const int end = std::min(begin + most, count);
      mx::array logits = model.logits(
          mx::slice(hidden, {begin, 0}, {end, hidden.shape(1)}), precision);
      mx::eval(logits);
      const std::span<const float> values{logits.data<float>(),
                                          size_t((end - begin) * vocabulary)};
      check_logits(values, first + begin, vocabulary);
      take(first + begin, end - begin, values);
    }
  }
}

}  // namespace quern
