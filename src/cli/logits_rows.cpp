#include "cli/logits_rows.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <limits>
#include <list>

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

// A scheme's row on its way through the text.
struct Reader {
  Row row;
  Prefill prefill;

  Reader(const TextModel& model, const KvScheme& scheme,
         const std::vector<int32_t>& ids, Precision precision, int chunk)
      : row(model.make_row(scheme)),
        prefill(model, row, ids, precision, chunk) {}
};

}  // namespace

void for_each_logits(const TextModel& model,
                     const std::vector<KvScheme>& schemes,
                     const std::vector<int32_t>& ids, Precision precision,
                     int chunk, int from, const LogitsRows& take) {
  const int64_t vocabulary = model.facts().vocabulary;
  const int most = int(std::clamp<int64_t>(kMostLogits / vocabulary, 1, 256));
  std::list<Reader> readers;
  for (const KvScheme& scheme : schemes) {
    readers.emplace_back(model, scheme, ids, precision, chunk);
  }
  std::vector<mx::array> hidden;
  for (int fed = 0; fed < int(ids.size());) {
    hidden.clear();
    for (Reader& reader : readers) hidden.push_back(reader.prefill.step());
    const int first = fed;
    fed = readers.front().prefill.fed();
    for (int begin = std::max(first, from); begin < fed; begin += most) {
      const int end = std::min(begin + most, fed);
      for (size_t i = 0; i < hidden.size(); i++) {
        mx::array logits =
            model.logits(mx::slice(hidden[i], {begin - first, 0},
                                   {end - first, hidden[i].shape(1)}),
                         precision);
        mx::eval(logits);
        const std::span<const float> values{logits.data<float>(),
                                            size_t((end - begin) * vocabulary)};
        check_logits(values, begin, vocabulary);
        take(int(i), begin, end - begin, values);
      }
    }
  }
}

}  // namespace quern
