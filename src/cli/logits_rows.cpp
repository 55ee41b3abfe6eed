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

// A row on its way through the text.
struct Reader {
  Row row;
  Precision precision;
  Prefill prefill;

  Reader(const TextModel& model, const Way& way,
         const std::vector<int32_t>& ids, int chunk)
      : row(model.make_row(way.scheme)),
        precision(way.precision),
        prefill(model, row, ids, precision, chunk) {}
};

}  // namespace

void for_each_logits(const TextModel& model, const std::vector<Way>& ways,
                     const std::vector<int32_t>& ids, int chunk, int from,
                     const LogitsRows& take) {
  const int64_t vocabulary = model.facts().vocabulary;
  const int most = int(std::clamp<int64_t>(kMostLogits / vocabulary, 1, 256));
  std::list<Reader> readers;
  for (const Way& way : ways) readers.emplace_back(model, way, ids, chunk);
  const auto hand_over = [&](int way, Precision precision, int first,
                             const mx::array& hidden) {
    mx::array logits = model.logits(hidden, precision);
    mx::eval(logits);
    const std::span<const float> values{logits.data<float>(), logits.size()};
    check_logits(values, first, vocabulary);
    take(way, first, hidden.shape(0), values);
  };
  for (int first = 0; first < int(ids.size());) {
    std::vector<mx::array> hidden;
    for (Reader& reader : readers) hidden.push_back(reader.prefill.step());
    const int fed = readers.front().prefill.fed();
    for (int begin = std::max(first, from); begin < fed; begin += most) {
      const int end = std::min(begin + most, fed);
      int way = 0;
      for (const Reader& reader : readers) {
        const mx::array& h = hidden[way];
        hand_over(way++, reader.precision, begin,
                  mx::slice(h, {begin - first, 0}, {end - first, h.shape(1)}));
      }
    }
    first = fed;
  }
}

}  // namespace quern
