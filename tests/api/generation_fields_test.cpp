#include "api/generation_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/served.h"

namespace quern::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const auto kServed = served_without_engine();

GenerationFields read(const std::string& body) {
  const Json json = parse_body(body);
  return read_generation(Fields(json), *kServed);
}

TEST(GenerationFields, DefaultsAreTheServers) {
  auto served = served_without_engine();
  served->defaults.sampling.temperature = 0.5f;
  served->defaults.sampling.top_k = 40;
  served->defaults.max_tokens = 9;
  const Json body = {{"top_k", 3}, {"model", nullptr}};
  const GenerationFields g = read_generation(Fields(body), *served);
  EXPECT_EQ(g.model, "tiny");
  EXPECT_EQ(g.sampling.temperature, 0.5f);
  EXPECT_EQ(g.sampling.top_k, 3);
  EXPECT_EQ(g.max_tokens, 9);
  EXPECT_EQ(g.choices, 1);
  EXPECT_FALSE(g.stream || g.include_usage || g.ignore_end);
}

TEST(GenerationFields, AllOfThem) {
  const GenerationFields g = read(R"({
    "model": "any/name", "temperature": 1.5, "top_p": 0.9, "top_k": -1,
    "min_p": 0.05, "xtc_probability": 0.5, "xtc_threshold": 0.2,
    "repetition_penalty": 1.1, "repetition_context_size": 0,
    "presence_penalty": -2, "presence_context_size": 7,
    "frequency_penalty": 2, "frequency_context_size": 8, "seed": 5,
    "max_tokens": 3, "max_completion_tokens": 4, "n": 2, "stop": ["a", "b"],
    "stream": true, "stream_options": {"include_usage": true},
    "ignore_eos": true, "user": "u", "store": false, "n_keep": -5})");
  EXPECT_EQ(g.model, "any/name");
  EXPECT_EQ(g.sampling.temperature, 1.5f);
  EXPECT_EQ(g.sampling.top_p, 0.9f);
  EXPECT_EQ(g.sampling.top_k, -1);
  EXPECT_EQ(g.sampling.min_p, 0.05f);
  EXPECT_EQ(g.sampling.xtc_probability, 0.5f);
  EXPECT_EQ(g.sampling.xtc_threshold, 0.2f);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(g.sampling.repetition_context, 0);
  EXPECT_EQ(g.sampling.presence_penalty, -2.f);
  EXPECT_EQ(g.sampling.presence_context, 7);
  EXPECT_EQ(g.sampling.frequency_penalty, 2.f);
  EXPECT_EQ(g.sampling.frequency_context, 8);
  EXPECT_EQ(g.sampling.seed, 5);
  EXPECT_EQ(g.max_tokens, 4);
  EXPECT_EQ(g.choices, 2);
  EXPECT_THAT(g.stops, ElementsAre("a", "b"));
  EXPECT_TRUE(g.stream && g.include_usage && g.ignore_end);
}

struct Fault {
  const char *body, *param, *words;
};

// A-02, R-02, R-07, R-19
TEST(GenerationFields, FaultsNameFieldAndRange) {
  const Fault faults[] = {
      {R"({"temperature": 999999.0})", "temperature", "[0, 5]"},
      {R"({"temperature": -0.1})", "temperature", "[0, 5]"},
      {R"({"temperature": "warm"})", "temperature", "float"},
      {R"({"top_p": -1.0})", "top_p", "[0, 1]"},
      {R"({"top_k": -2})", "top_k", "at least -1"},
      {R"({"top_k": 4294967296})", "top_k", "at most"},
      {R"({"min_p": 1.01})", "min_p", "[0, 1]"},
      {R"({"repeat_penalty": 0.0})", "repeat_penalty", "[0.01, 100]"},
      {R"({"repetition_penalty": 0})", "repetition_penalty", "[0.01, 100]"},
      {R"({"repetition_context_size": -1})", "repetition_context_size", "0"},
      {R"({"presence_penalty": 101})", "presence_penalty", "[-100, 100]"},
      {R"({"xtc_threshold": 0.6})", "xtc_threshold", "[0, 0.5]"},
      {R"({"seed": 1.5})", "seed", "int"},
      {R"({"seed": "x"})", "seed", "int"},
      {R"({"max_tokens": -2})", "max_tokens", "at least -1"},
      {R"({"max_tokens": 1.5})", "max_tokens", "int"},
      {R"({"max_completion_tokens": []})", "max_completion_tokens", "int"},
      {R"({"n": 0})", "n", "at least 1"},
      {R"({"n": 129})", "n", "at most 128"},
      {R"({"stop": 5})", "stop", "string"},
      {R"({"stop": ["a", null]})", "stop", "string"},
      {R"({"stream": "yes"})", "stream", "bool"},
      {R"({"stream_options": 1})", "stream_options", "object"},
      {R"({"stream_options": {"include_usage": 1}})",
       "stream_options.include_usage", "bool"},
      {R"({"logit_bias": "a"})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": {"x": 1}})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": {"": 1}})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": {"1.5": 1}})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": {"1": "x"}})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": [1]})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": [[1, 2, 3]]})", "logit_bias", "dict of int to float"},
      {R"({"logit_bias": {"999999": 5}})", "logit_bias", "[0, 319]"},
      {R"({"logit_bias": {"320": 5}})", "logit_bias", "[0, 319]"},
      {R"({"logit_bias": {"-1": 5}})", "logit_bias", "[0, 319]"},
      {R"({"logit_bias": [[1099511627776, 5]]})", "logit_bias", "[0, 319]"},
      {R"({"logit_bias": {"5": 1001}})", "logit_bias", "[-1000, 1000]"},
      {R"({"logit_bias": [["0123456789012345678901234567890123456789012345678)"
       R"(9012345678901234", 1]]})",
       "logit_bias", "at most 64 bytes, got 65"},
  };
  for (const Fault& fault : faults) {
    try {
      read(fault.body);
      ADD_FAILURE() << "taken: " << fault.body;
    } catch (const ApiError& e) {
      EXPECT_EQ(e.kind().param, fault.param) << fault.body;
      EXPECT_THAT(e.what(), HasSubstr(fault.words)) << fault.body;
    }
  }
}

// R-01
TEST(GenerationFields, TopKBeyondTheVocabularyIsTaken) {
  EXPECT_EQ(read(R"({"top_k": 320})").sampling.top_k, 320);
  EXPECT_EQ(read(R"({"top_k": 2147483647})").sampling.top_k, 2147483647);
}

// R-19
TEST(GenerationFields, EveryWholeNumberIsASeed) {
  const auto seed = [](const char* value) {
    return read(fmt::format(R"({{"seed": {}}})", value)).sampling.seed;
  };
  EXPECT_EQ(seed("0"), 0);
  EXPECT_EQ(seed("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(seed("7.0"), 7);
  EXPECT_EQ(seed("-1"), std::nullopt);
  EXPECT_EQ(seed("-2"), UINT64_MAX - 1);
  const char* huge = "1180591620717411303424";  // 2**70
  EXPECT_TRUE(seed(huge).has_value());
  EXPECT_EQ(seed(huge), seed(huge));
  EXPECT_NE(seed(huge), seed("2361183241434822606848"));
}

TEST(GenerationFields, AFixedSeedOfTheServerGivesWay) {
  auto served = served_without_engine();
  served->defaults.sampling.seed = 3;
  const Json none = Json::object(), random = {{"seed", -1}};
  EXPECT_EQ(read_generation(Fields(none), *served).sampling.seed, 3);
  EXPECT_EQ(read_generation(Fields(random), *served).sampling.seed,
            std::nullopt);
}

// A-10: pairs, and texts in place of ids.
TEST(GenerationFields, LogitBias) {
  EXPECT_THAT(
      read(R"({"logit_bias": {"5": -100, "65": 0.5}})").sampling.logit_bias,
      ElementsAre(Pair(5, -100), Pair(65, 0.5f)));
  EXPECT_THAT(
      read(R"({"logit_bias": [[5, 2], ["AB", false]]})").sampling.logit_bias,
      ElementsAre(Pair(5, 2), Pair('A', kBanBias), Pair('B', kBanBias)));
}

TEST(GenerationFields, LogitBiasesAreFew) {
  Json many = Json::array();
  for (int i = 0; i < 1024; ++i) many.push_back({5, 1});
  EXPECT_EQ(read(Json({{"logit_bias", many}}).dump()).sampling.logit_bias,
            (std::map<int32_t, float>{{5, 1}}));
  many.push_back({5, 1});
  EXPECT_THROW(read(Json({{"logit_bias", many}}).dump()), ApiError);
}

TEST(GenerationFields, ABiasLeavesSomeToken) {
  Json bans = Json::array();
  for (int id = 1; id < kVocabulary; ++id) bans.push_back({id, false});
  EXPECT_NO_THROW(read(Json({{"logit_bias", bans}}).dump()));
  bans.push_back({0, -100});
  try {
    read(Json({{"logit_bias", bans}}).dump());
    ADD_FAILURE() << "taken";
  } catch (const ApiError& e) {
    EXPECT_EQ(e.kind().param, "logit_bias");
    EXPECT_THAT(e.what(), HasSubstr("every token"));
  }
}

// 2 ** 21 in all: 128 choices of 1024 tokens with 16 each.
TEST(GenerationFields, LogprobsOfManyChoicesAreBounded) {
  GenerationFields g = read(R"({"max_tokens": 1024})");
  EXPECT_NO_THROW(refuse_many_logprobs(g, *kServed, 128, 15));
  EXPECT_NO_THROW(refuse_many_logprobs(g, *kServed, 128, -1, 1 << 30));
  EXPECT_THROW(refuse_many_logprobs(g, *kServed, 128, 15, 1), ApiError);
  EXPECT_THROW(refuse_many_logprobs(g, *kServed, 128, 16), ApiError);
  g.max_tokens = -1;  // up to the context, 4096
  EXPECT_NO_THROW(refuse_many_logprobs(g, *kServed, 32, 15));
  EXPECT_THROW(refuse_many_logprobs(g, *kServed, 33, 15), ApiError);
  g.stream = true;
  EXPECT_NO_THROW(refuse_many_logprobs(g, *kServed, 33, 15));
}

TEST(GenerationFields, MaxTokensBeyondAnyContext) {
  EXPECT_EQ(read(R"({"max_tokens": 1099511627776})").max_tokens, INT_MAX);
  EXPECT_EQ(read(R"({"max_tokens": -1})").max_tokens, -1);
  EXPECT_EQ(read(R"({"max_tokens": 0})").max_tokens, 0);
}

TEST(GenerationFields, Stops) {
  EXPECT_THAT(read(R"({"stop": "x"})").stops, ElementsAre("x"));
  EXPECT_THAT(read(R"({"stop": []})").stops, ElementsAre());
  const Json many = {{"stop", std::vector<std::string>(17, "x")}};
  const Json large = {{"stop", std::string(513, 'x')}};
  for (const Json& body : {many, large}) {
    EXPECT_THROW(read_generation(Fields(body), *kServed), ApiError);
  }
}

TEST(GenerationFields, ChoicesOfASeedHaveTheirOwn) {
  GenerationFields g = read(R"({"seed": 10, "max_tokens": 4})");
  const Request second = make_request(g, *kServed, {1, 2}, 1);
  EXPECT_EQ(second.sampling.seed, 11);
  EXPECT_EQ(second.max_tokens, 4);
  EXPECT_THAT(second.prompt, ElementsAre(1, 2));
  EXPECT_THAT(second.end_ids, ElementsAre(256));
  g.ignore_end = true;
  g.sampling.seed.reset();
  EXPECT_THAT(make_request(g, *kServed, {1}, 1).end_ids, ElementsAre());
}

// R-17
TEST(GenerationFields, WhatIsNotToBeHadIsRefused) {
  for (const char* body :
       {R"({"response_format": {"type": "json_object"}})",
        R"({"response_format": {"type": "json_schema", "json_schema": {}}})",
        R"({"response_format": {"a": 1}})", R"({"response_format": "text"})",
        R"({"guided_regex": "a"})", R"({"guided_choice": ["a"]})",
        R"({"guided_json": {"type": "string"}})", R"({"grammar": "root"})",
        R"({"structured_outputs": {"regex": "a"}})", R"({"adapter": "x"})",
        R"({"functions": [{"name": "f"}]})"}) {
    const Json json = parse_body(body);
    EXPECT_THROW(refuse_unsupported(Fields(json)), ApiError) << body;
  }
  for (const char* body :
       {R"({"response_format": {"type": "text"}})", R"({"adapter": "none"})",
        R"({"response_format": null, "grammar": "", "functions": []})"}) {
    const Json json = parse_body(body);
    EXPECT_NO_THROW(refuse_unsupported(Fields(json))) << body;
  }
}

}  // namespace
}  // namespace quern::test
