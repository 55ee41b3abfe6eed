#include "engine/prompt_scores.h"

#include <mlx/mlx.h>

#include <algorithm>

#include "engine/evaluate.h"

namespace quern {

std::vector<Sampled> score_tokens(const TextModel& model,
                                  const mx::array& hidden,
                                  std::span<const int32_t> tokens, int top,
                                  Precision precision) {
  const int V = model.facts().vocabulary, width = hidden.shape(1);
  SamplerRow sampler({.logprobs = top}, V);
  std::vector<Sampled> scores;
  for (int begin = 0; begin < int(tokens.size()); begin += kScoredAtOnce) {
    const int end = std::min(begin + kScoredAtOnce, int(tokens.size()));
    mx::array logits =
        model.logits(mx::slice(hidden, {begin, 0}, {end, width}), precision);
    wait(logits);
    for (int i = begin; i < end; i++) {
      float* row = logits.data<float>() + int64_t(i - begin) * V;
      scores.push_back(sampler.score({row, size_t(V)}, tokens[i]).or_throw());
    }
  }
  return scores;
}

}  // namespace quern
