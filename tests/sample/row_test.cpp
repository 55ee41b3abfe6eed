#include "sample/row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace quern {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Row = std::vector<float>;

SamplingParams drawn(float temperature, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

Result<Sampled> sample(SamplerRow& row, Row logits, uint64_t position = 0) {
  return row.sample(logits, position);
}

Result<Sampled> sample(const SamplingParams& params, Row logits) {
  SamplerRow row(params, static_cast<int>(logits.size()));
  return sample(row, logits);
}

// A row of many blocks with a few likely tokens.
Row wide_row() {
  Row row(1000);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(i * 7919 % 1000) / 125 - (i % 97 == 5 ? 0 : 6);
  }
  return row;
}

std::vector<int32_t> text_of(SamplerRow& row, int tokens) {
  std::vector<int32_t> text;
  for (int i = 0; i < tokens; ++i) {
    text.push_back(sample(row, wide_row(), i).or_throw().token);
    row.accept(text.back()).or_throw();
  }
  return text;
}

TEST(Greedy, TakesTheLowestOfEquals) {
  EXPECT_EQ(sample({}, {1, 3, 2, 3}).or_throw().token, 1);
  EXPECT_EQ(sample({}, {-0.f, 0.f}).or_throw().token, 0);
  EXPECT_EQ(sample({}, Row(1000, -5)).or_throw().token, 0);
  Row row(1000, 0);
  row[131] = row[900] = 2;
  EXPECT_EQ(sample({}, row).or_throw().token, 131);
}

TEST(Greedy, IgnoresTruncation) {
  SamplingParams params;
  params.xtc_probability = 1;
  params.xtc_threshold = 0;
  EXPECT_EQ(sample(params, {1, 3, 2}).or_throw().token, 1);
}

TEST(Logprobs, OfHalfAThirdAndTheRest) {
  SamplingParams params;
  params.logprobs = 2;
  Row row = {std::log(0.2f) + 9, std::log(0.5f) + 9, std::log(0.3f) + 9};
  auto sampled = sample(params, row).or_throw();
  EXPECT_NEAR(sampled.logprob, std::log(0.5), 1e-6);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].first, 1);
  EXPECT_EQ(sampled.top[1].first, 2);
  EXPECT_NEAR(sampled.top[1].second, std::log(0.3), 1e-6);
}

TEST(Logprobs, AreThoseBeforeTemperatureAndTruncation) {
  auto params = drawn(0.1f, 3);
  params.top_k = 1;
  params.logprobs = 0;
  auto sampled = sample(params, {0, 0, 0, 0}).or_throw();
  EXPECT_EQ(sampled.token, 0);
  EXPECT_NEAR(sampled.logprob, std::log(0.25), 1e-6);
  EXPECT_TRUE(sampled.top.empty());
}

TEST(Logprobs, CaseI02StayFinite) {
  SamplingParams params;
  params.logprobs = 3;
  auto sampled = sample(params, {-kInfinity, 4, -kInfinity, -1e38f}).or_throw();
  EXPECT_EQ(sampled.logprob, 0);
  std::vector<std::pair<int32_t, float>> want = {
      {1, 0.f}, {0, -9999.f}, {2, -9999.f}};
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0], want[0]);
  for (auto [id, logprob] : sampled.top) EXPECT_GE(logprob, -9999) << id;
}

TEST(Draws, FollowTheDistribution) {
  Row row = {0.5f, -1, 2, 1.25f, 0, -0.5f, 1, 3, -2, 1.5f};
  constexpr int kDraws = 100000;
  constexpr double kTemperature = 0.8;
  auto params = drawn(kTemperature, 11);
  SamplerRow sampler(params, static_cast<int>(row.size()));
  std::vector<double> counts(row.size()), expected(row.size());
  for (int i = 0; i < kDraws; ++i) {
    ++counts[sample(sampler, row, i).or_throw().token];
  }
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    expected[i] = std::exp(row[i] / kTemperature);
    sum += expected[i];
  }
  double chi_square = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    double want = expected[i] / sum * kDraws;
    chi_square += (counts[i] - want) * (counts[i] - want) / want;
  }
  EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, p = 0.001
}

TEST(Draws, XtcActsWithItsProbability) {
  auto params = drawn(1e-3f, 5);  // the most likely of what is left
  params.xtc_probability = 0.25f;
  params.xtc_threshold = 0.2f;
  SamplerRow row(params, 3);
  int dropped = 0;
  for (int i = 0; i < 10000; ++i) {
    int32_t token = sample(row, {2, 1.5f, -3}, i).or_throw().token;
    EXPECT_NE(token, 2);
    dropped += token == 1;
  }
  EXPECT_NEAR(dropped, 2500, 3.3 * std::sqrt(10000 * 0.25 * 0.75));
}

TEST(Draws, ColdestTemperatureIsGreedy) {
  for (float temperature : {1e-6f, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(sample(drawn(temperature, 1), {1, 3, 2}).or_throw().token, 1);
  }
}

TEST(Draws, XtcLeavesFarTokensDrawable) {
  auto params = drawn(0.05f, 9);
  params.xtc_probability = 1;
  params.xtc_threshold = 0.01f;
  EXPECT_EQ(sample(params, {-50, 10, 7}).or_throw().token, 2);
}

TEST(Seeds, SameTextInAnyCompany) {
  auto params = drawn(1, 77);
  params.top_p = 0.9f;
  params.frequency_penalty = 0.5f;
  auto other = drawn(1, 78);
  SamplerRow alone(params, 1000);
  auto want = text_of(alone, 60);

  SamplerRow row(params, 1000), mate(other, 1000);
  std::vector<int32_t> interleaved, mates;
  for (int i = 0; i < 60; ++i) {
    mates.push_back(sample(mate, wide_row(), i).or_throw().token);
    mate.accept(mates.back()).or_throw();
    interleaved.push_back(sample(row, wide_row(), i).or_throw().token);
    row.accept(interleaved.back()).or_throw();
  }
  EXPECT_EQ(interleaved, want);
  EXPECT_NE(mates, want);

  std::vector<std::vector<int32_t>> texts(4);
  std::vector<std::thread> threads;
  for (auto& text : texts) {
    threads.emplace_back([&] {
      SamplerRow mine(params, 1000);
      text = text_of(mine, 60);
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& text : texts) EXPECT_EQ(text, want);
}

TEST(Seeds, APositionCanBeDrawnAgain) {
  SamplerRow row(drawn(1, 5), 1000);
  auto first = sample(row, wide_row(), 40).or_throw().token;
  for (int i = 0; i < 10; ++i) sample(row, wide_row(), i).or_throw();
  EXPECT_EQ(sample(row, wide_row(), 40).or_throw().token, first);
}

TEST(Seeds, NoSeedIsAFreshOne) {
  SamplingParams params;
  EXPECT_NE(SamplerRow(params, 8).seed(), SamplerRow(params, 8).seed());
}

TEST(Cases, R01TopKOfTheVocabularyOrMore) {
  for (int top_k : {1000, 1001, 1 << 30}) {
    auto params = drawn(1, 21);
    SamplerRow off(params, 1000);
    params.top_k = top_k;
    SamplerRow row(params, 1000);
    EXPECT_EQ(text_of(row, 20), text_of(off, 20));
  }
}

TEST(Cases, A10BiasEndsWithItsRow) {
  SamplingParams params;
  params.logit_bias[2] = 20;
  EXPECT_EQ(sample(params, {1, 3, 0}).or_throw().token, 2);
  EXPECT_EQ(sample({}, {1, 3, 0}).or_throw().token, 1);
}

TEST(Cases, A11ABannedTokenNeverAppears) {
  for (float temperature : {0.f, 1.f, 5.f}) {
    auto params = drawn(temperature, 3);
    params.logit_bias[1] = -100;
    SamplerRow row(params, 3);
    for (int i = 0; i < 200; ++i) {
      EXPECT_NE(sample(row, {0, 500, 1}, i).or_throw().token, 1);
    }
  }
}

TEST(Failures, EndTheRowOnly) {
  auto params = drawn(1, 3);
  SamplerRow row(params, 300);
  SamplerRow greedy({}, 300);
  Row nan(300, 1), infinite(300, 1), empty(300, -kInfinity);
  nan[140] = kNan;
  infinite[299] = kInfinity;
  for (const Row& bad : {nan, infinite, empty}) {
    EXPECT_THAT(sample(row, bad).reason(), HasSubstr("NaN or +inf"));
    EXPECT_THAT(sample(greedy, bad).reason(), HasSubstr("NaN or +inf"));
  }
  EXPECT_TRUE(sample(row, Row(300, 1)).ok());
}

TEST(Failures, OfTheCallerThrow) {
  SamplingParams params;
  params.top_p = 2;
  EXPECT_THROW(SamplerRow(params, 8), Error);
  SamplerRow row({}, 8);
  EXPECT_THROW((void)sample(row, Row(7, 0)), Error);
}

// Allows what `words` says; ends, or fails, after `limit` tokens.
class FixedMask : public Constraint {
 public:
  FixedMask(std::vector<uint32_t> words, int limit)
      : words_(std::move(words)), left_(limit) {}

  Result<std::span<const uint32_t>> mask() override {
    return std::span<const uint32_t>(words_);
  }
  Status accept(int32_t token) override {
    if (left_-- > 0) return {};
    return failure("token {} after the end", token);
  }
  bool done() const override { return left_ <= 0; }

 private:
  std::vector<uint32_t> words_;
  int left_;
};

SamplerRow constrained(SamplingParams params, int vocab,
                       std::vector<uint32_t> words, int limit = 1000) {
  return SamplerRow(params, vocab, {},
                    std::make_unique<FixedMask>(std::move(words), limit));
}

TEST(Constraints, OnlyAllowedTokensAreDrawn) {
  auto params = drawn(5, 13);
  params.logit_bias[0] = 1000;
  params.frequency_penalty = -2;
  auto row = constrained(params, 70, {0x00000006, 0x80000000});
  std::vector<int32_t> seen;
  for (int i = 0; i < 300; ++i) {
    seen.push_back(sample(row, Row(70, 1), i).or_throw().token);
  }
  // Bits 1 and 2 of the first word, 31 of the second; 64 to 69 have no bit.
  EXPECT_THAT(seen, testing::Each(testing::AnyOf(1, 2, 63)));
  for (int32_t id : {1, 2, 63}) EXPECT_THAT(seen, testing::Contains(id));
}

TEST(Constraints, AnEmptyMaskAllowsAll) {
  auto row = constrained({}, 3, {});
  EXPECT_EQ(sample(row, {1, 2, 3}).or_throw().token, 2);
}

TEST(Constraints, NothingAllowedFails) {
  auto row = constrained({}, 3, {0});
  EXPECT_FALSE(sample(row, {1, 2, 3}));
}

TEST(Constraints, SayWhenTheRowEnds) {
  auto row = constrained({}, 3, {7}, 1);
  EXPECT_FALSE(row.done());
  EXPECT_TRUE(row.accept(0));
  EXPECT_TRUE(row.done());
  EXPECT_EQ(row.accept(1).reason(), "token 1 after the end");
}

}  // namespace
}  // namespace quern
