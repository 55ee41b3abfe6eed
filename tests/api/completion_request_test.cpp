#include "api/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/served.h"

namespace quern::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const auto kServed = served_without_engine();

CompletionRequest read(const std::string& body) {
  return read_completion(parse_body(body), *kServed);
}

// R-04
TEST(CompletionPrompt, InFourForms) {
  const auto one = read(R"({"prompt": "ab"})").prompts;
  ASSERT_EQ(one.size(), 1);
  EXPECT_EQ(one[0].text, "ab");
  EXPECT_THAT(one[0].ids, ElementsAre('a', 'b'));

  const auto ids = read(R"({"prompt": [72, 105, 256]})").prompts;
  ASSERT_EQ(ids.size(), 1);
  EXPECT_EQ(ids[0].text, "Hi<|end|>");
  EXPECT_THAT(ids[0].ids, ElementsAre(72, 105, 256));

  const auto texts = read(R"({"prompt": ["a", "b"]})").prompts;
  ASSERT_EQ(texts.size(), 2);
  EXPECT_EQ(texts[1].text, "b");

  const auto lists = read(R"({"prompt": [[72, 72], [319]]})").prompts;
  ASSERT_EQ(lists.size(), 2);
  EXPECT_THAT(lists[0].ids, ElementsAre(72, 72));
  EXPECT_THAT(lists[1].ids, ElementsAre(319));
}

struct Fault {
  const char *body, *param, *words;
};

TEST(CompletionRequest, FaultsNameTheField) {
  const Fault faults[] = {
      {R"({})", "prompt", "required"},
      {R"({"prompt": ""})", "prompt", "no tokens"},
      {R"({"prompt": []})", "prompt", "a list of strings"},
      {R"({"prompt": [[]]})", "prompt", "a list of strings"},
      {R"({"prompt": [1, "a"]})", "prompt", "got \"a\""},
      {R"({"prompt": ["a", 1]})", "prompt", "a list of strings"},
      {R"({"prompt": [[1], "a"]})", "prompt", "a list of strings"},
      {R"({"prompt": [["a"]]})", "prompt", "a list of strings"},
      {R"({"prompt": [-1]})", "prompt", "[0, 319]"},
      {R"({"prompt": [320]})", "prompt", "[0, 319]"},
      {R"({"prompt": [1.5]})", "prompt", "[0, 319]"},
      {R"({"prompt": [1e300]})", "prompt", "[0, 319]"},
      {R"({"prompt": {"a": 1}})", "prompt", "a list of strings"},
      {R"({"prompt": true})", "prompt", "a list of strings"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix", "not supported"},
      {R"({"prompt": "a", "echo": 1})", "echo", "bool"},
      {R"({"prompt": "a", "logprobs": 21})", "logprobs", "at most 20"},
      {R"({"prompt": "a", "logprobs": -1})", "logprobs", "at least 0"},
      {R"({"prompt": "a", "logprobs": "x"})", "logprobs", "int"},
      {R"({"prompt": "a", "best_of": 1, "n": 2})", "best_of", "at least n"},
      {R"({"prompt": "a", "best_of": 2, "stream": true})", "best_of",
       "streaming"},
      {R"({"prompt": ["a", "b"], "n": 65})", "prompt", "128"},
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

TEST(CompletionRequest, Logprobs) {
  const auto logprobs = [](const char* fields) {
    return read(fmt::format(R"({{"prompt": "a"{}}})", fields)).logprobs;
  };
  EXPECT_EQ(logprobs(""), -1);
  EXPECT_EQ(logprobs(R"(, "logprobs": null)"), -1);
  EXPECT_EQ(logprobs(R"(, "logprobs": 0)"), 0);
  EXPECT_EQ(logprobs(R"(, "logprobs": 5)"), 5);
  EXPECT_EQ(logprobs(R"(, "logprobs": true)"), 0);
  EXPECT_EQ(logprobs(R"(, "logprobs": false)"), -1);
  EXPECT_EQ(logprobs(R"(, "logprobs": true, "top_logprobs": 4)"), 4);
}

TEST(CompletionRequest, TheBestIsToldByLogprobs) {
  const CompletionRequest all = read(R"({"prompt": "a", "n": 2})");
  EXPECT_EQ(all.best_of, 2);
  EXPECT_EQ(all.generation.sampling.logprobs, -1);
  const CompletionRequest best = read(R"({"prompt": "a", "best_of": 3})");
  EXPECT_EQ(best.best_of, 3);
  EXPECT_EQ(best.logprobs, -1);
  EXPECT_EQ(best.generation.sampling.logprobs, 0);
}

}  // namespace
}  // namespace quern::test
