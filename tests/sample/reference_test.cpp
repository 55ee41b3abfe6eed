// Every sampler against the plain form of the same meaning: a full sort, sums
// in one loop, std::exp in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "sample/random.h"
#include "sample/row.h"

namespace quern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The probability of each token at temperature T among those kept.
class Reference {
 public:
  explicit Reference(const std::vector<float>& logits) : logits_(logits) {
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });
  }

  void truncate(const SamplingParams& p, bool xtc) {
    if (p.top_p > 0 && p.top_p < 1) top_p(p.top_p);
    if (p.min_p > 0) min_p(p.min_p);
    if (xtc) drop_top_choices(p.xtc_threshold, p.xtc_exempt);
    if (p.top_k > 0) {
      order_.resize(std::min<size_t>(order_.size(), p.top_k));
    }
  }

  std::vector<double> probabilities(double temperature) const {
    std::vector<double> result(logits_.size(), 0);
    double sum = 0;
    double peak = logits_[order_[0]];
    for (int i : order_) {
      result[i] = std::exp((logits_[i] - peak) / temperature);
      sum += result[i];
    }
    for (double& x : result) x /= sum;
    return result;
  }

 private:
  void top_p(double share) {
    auto probs = probabilities(1);
    size_t kept = 0;
    double above = 0;  // the mass of the groups of equals before this one
    while (kept < order_.size() && above < share) {
      float value = logits_[order_[kept]];
      while (kept < order_.size() && logits_[order_[kept]] == value) {
        above += probs[order_[kept++]];
      }
    }
    order_.resize(kept);
  }

  void min_p(double share) {
    double floor = logits_[order_[0]] + std::log(share);
    std::erase_if(order_, [&](int i) { return logits_[i] < floor; });
  }

  void drop_top_choices(double threshold, const std::vector<int32_t>& exempt) {
    auto probs = probabilities(1);
    float least = kInfinity;
    for (int i : order_) {
      if (probs[i] > threshold) least = logits_[i];
    }
    std::erase_if(order_, [&](int i) {
      return logits_[i] > least &&
             std::count(exempt.begin(), exempt.end(), i) == 0;
    });
  }

  const std::vector<float>& logits_;
  std::vector<int> order_;  // kept tokens, most likely first, then by id
};

using Random = std::mt19937;

float between(Random& random, float low, float high) {
  return low + (high - low) * static_cast<float>(random() % 4096) / 4096;
}

std::vector<float> random_logits(Random& random) {
  constexpr int kSizes[] = {1, 2, 3, 17, 128, 129, 700, 5000};
  std::vector<float> logits(kSizes[random() % 8]);
  float spread = between(random, 0.1f, 6);
  std::normal_distribution<float> normal(0, spread);
  for (float& x : logits) x = normal(random);
  switch (random() % 6) {
    case 0:  // ties
      for (float& x : logits) x = std::round(x * 2) / 2;
      break;
    case 1:  // all equal
      for (float& x : logits) x = spread;
      break;
    case 2:  // banned tokens; one always stays
      for (size_t i = 1; i < logits.size(); i += 1 + random() % 3) {
        logits[i] = -kInfinity;
      }
      break;
    case 3:  // out of all proportion
      for (float& x : logits) x *= 1e37f;
      break;
    default: break;
  }
  return logits;
}

SamplingParams random_params(Random& random, int vocab) {
  SamplingParams p;
  p.seed = random();
  p.temperature = between(random, 0.05f, 3);
  if (random() % 2) p.top_p = between(random, 0.01f, 1);
  if (random() % 3 == 0) p.min_p = between(random, 0.001f, 0.9f);
  if (random() % 2) p.top_k = 1 + random() % (random() % 2 ? 8 : 2 * vocab);
  if (random() % 3 == 0) {
    p.xtc_probability = between(random, 0.2f, 1);
    p.xtc_threshold = between(random, 0.001f, 0.4f);
    for (int i = 0; i < 3; ++i) {
      p.xtc_exempt.push_back(static_cast<int32_t>(random() % vocab));
    }
  }
  return p;
}

// Draw 0 of a position places the token in the distribution laid out by id,
// draw 1 decides on XTC.
TEST(Reference, DrawsFallWhereThePlainFormPutsThem) {
  Random random(2026);
  constexpr double kSlack = 3e-6;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    auto logits = random_logits(random);
    auto params = random_params(random, static_cast<int>(logits.size()));
    SamplerRow row(params, static_cast<int>(logits.size()));
    for (uint64_t position = 0; position < 3; ++position) {
      Reference reference(logits);
      bool xtc = uniform(*params.seed, position, 1) < params.xtc_probability;
      reference.truncate(params, xtc);
      auto probs = reference.probabilities(params.temperature);

      auto scratch = logits;
      auto token = row.sample(scratch, position).or_throw().token;
      double u = uniform(*params.seed, position, 0);
      double low = std::accumulate(probs.begin(), probs.begin() + token, 0.0);
      EXPECT_GT(probs[token], 0) << token;
      EXPECT_GE(u, low - kSlack) << token;
      EXPECT_LE(u, low + probs[token] + kSlack) << token;
    }
  }
}

TEST(Reference, LogprobsOfTheWholeRow) {
  Random random(7);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    auto logits = random_logits(random);
    int vocab = static_cast<int>(logits.size());
    SamplingParams params;
    params.logprobs = kMaxTopLogprobs;
    auto probs = Reference(logits).probabilities(1);
    auto scratch = logits;
    auto sampled = SamplerRow(params, vocab).sample(scratch, 0).or_throw();
    ASSERT_EQ(sampled.top.size(), std::min<size_t>(vocab, kMaxTopLogprobs));
    EXPECT_EQ(sampled.top[0].second, sampled.logprob);
    auto sorted = probs;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t i = 0; i < sampled.top.size(); ++i) {
      auto [id, logprob] = sampled.top[i];
      double want = std::max(std::log(probs[id]), -9999.0);
      EXPECT_NEAR(logprob, want, 1e-5 + 1e-6 * std::abs(want)) << i;
      EXPECT_EQ(probs[id], sorted[i]) << i;
    }
  }
}

}  // namespace
}  // namespace quern
