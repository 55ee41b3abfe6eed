#include "sample/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace quern {
namespace {

using testing::HasSubstr;

constexpr int kVocab = 320;

std::string reason(void (*change)(SamplingParams&)) {
  SamplingParams params;
  change(params);
  auto status = validate(params, kVocab);
  return status ? "" : status.reason();
}

TEST(Validate, DefaultsAndEndsOfRanges) {
  EXPECT_EQ(reason([](auto&) {}), "");
  EXPECT_EQ(reason([](auto& p) { p.temperature = 5; }), "");
  EXPECT_EQ(reason([](auto& p) { p.top_p = 0; }), "");
  EXPECT_EQ(reason([](auto& p) { p.xtc_threshold = 0.5f; }), "");
  EXPECT_EQ(reason([](auto& p) { p.logprobs = 20; }), "");
  EXPECT_EQ(reason([](auto& p) { p.logit_bias[319] = -100; }), "");
}

TEST(Validate, CaseA02NamesFieldValueAndRange) {
  EXPECT_EQ(reason([](auto& p) { p.temperature = 999999; }),
            "temperature must be in [0, 5], got 999999");
  EXPECT_EQ(reason([](auto& p) { p.top_p = -1; }),
            "top_p must be in [0, 1], got -1");
  EXPECT_EQ(reason([](auto& p) { p.repetition_penalty = 0; }),
            "repetition_penalty must be in [0.01, 100], got 0");
}

TEST(Validate, CaseA04TopKMinusOneIsOff) {
  EXPECT_EQ(reason([](auto& p) { p.top_k = -1; }), "");
  EXPECT_EQ(reason([](auto& p) { p.top_k = -2; }),
            "top_k must be at least -1, got -2");
}

TEST(Validate, CaseR01TopKBeyondTheVocabularyIsOff) {
  EXPECT_EQ(reason([](auto& p) { p.top_k = kVocab; }), "");
  EXPECT_EQ(reason([](auto& p) { p.top_k = 1 << 30; }), "");
}

TEST(Validate, CaseR02TokenIdsOfTheVocabularyOnly) {
  EXPECT_EQ(reason([](auto& p) { p.logit_bias[999999] = 5; }),
            "logit_bias: token id must be in [0, 319], got 999999");
  EXPECT_EQ(reason([](auto& p) { p.logit_bias[-1] = 5; }),
            "logit_bias: token id must be in [0, 319], got -1");
  EXPECT_EQ(reason([](auto& p) { p.xtc_exempt = {320}; }),
            "xtc_exempt: token id must be in [0, 319], got 320");
}

TEST(Validate, RefusesNanAndInfinityEverywhere) {
  using Field = float SamplingParams::*;
  for (Field field :
       {&SamplingParams::temperature, &SamplingParams::top_p,
        &SamplingParams::min_p, &SamplingParams::xtc_probability,
        &SamplingParams::xtc_threshold, &SamplingParams::repetition_penalty,
        &SamplingParams::presence_penalty,
        &SamplingParams::frequency_penalty}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                      std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()}) {
      SamplingParams params;
      params.*field = bad;
      EXPECT_FALSE(validate(params, kVocab)) << bad;
    }
  }
  EXPECT_THAT(reason([](auto& p) {
                p.logit_bias[3] = std::numeric_limits<float>::quiet_NaN();
              }),
              HasSubstr("logit_bias of token 3 must be in [-1000, 1000]"));
}

TEST(Validate, OtherFields) {
  EXPECT_THAT(reason([](auto& p) { p.min_p = 1.5f; }),
              HasSubstr("min_p must be in [0, 1], got 1.5"));
  EXPECT_THAT(reason([](auto& p) { p.xtc_probability = -0.5f; }),
              HasSubstr("xtc_probability must be in [0, 1]"));
  EXPECT_THAT(reason([](auto& p) { p.xtc_threshold = 0.75f; }),
              HasSubstr("xtc_threshold must be in [0, 0.5], got 0.75"));
  EXPECT_THAT(reason([](auto& p) { p.presence_penalty = 101; }),
              HasSubstr("presence_penalty must be in [-100, 100], got 101"));
  EXPECT_THAT(reason([](auto& p) { p.frequency_penalty = -101; }),
              HasSubstr("frequency_penalty must be in [-100, 100], got -101"));
  EXPECT_THAT(reason([](auto& p) { p.repetition_context = -1; }),
              HasSubstr("repetition_context_size must be at least 0, got -1"));
  EXPECT_THAT(reason([](auto& p) { p.presence_context = -1; }),
              HasSubstr("presence_context_size must be at least 0, got -1"));
  EXPECT_THAT(reason([](auto& p) { p.frequency_context = -1; }),
              HasSubstr("frequency_context_size must be at least 0, got -1"));
  EXPECT_THAT(reason([](auto& p) { p.logprobs = 21; }),
              HasSubstr("top_logprobs must be in [-1, 20], got 21"));
}

}  // namespace
}  // namespace quern
