#include "api/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/endpoints.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

// The error that reading gives.
template <class Read>
ApiError error_of_reading(Read read) {
  try {
    read();
  } catch (const ApiError& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return ApiError("");
}

TEST(Body, OnlyAnObjectInUtf8IsOne) {
  const std::pair<std::string, const char*> faults[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"{} x", "not valid JSON"},
      {std::string("{}\0", 3), "a zero byte at 2"},
      {std::string("{} \0{}", 6), "a zero byte at 3"},
      {R"({"temperature": NaN})", "not valid JSON"},
      {R"({"temperature": 1e400})", "not valid JSON"},
      {R"({"a": "\ud800"})", "not valid JSON"},
      {"[]", "expected a JSON object"},
      {"null", "expected a JSON object"},
      {"{\"a\": \"\xc4\xe3\"}", "body is not valid UTF-8"},
      {"\xff\xfe{}", "body is not valid UTF-8"},
      {std::string(100000, '['), "nested"},
  };
  for (const auto& [body, words] : faults) {
    const ApiError error = error_of_reading([&] { parse_body(body); });
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_EQ(error.kind().status, 400);
    EXPECT_EQ(error.kind().type, "invalid_request_error");
  }
}

TEST(Body, OfManyMegabytesIsReadInLinearTime) {
  std::string body = "{\"a\": {";
  for (int i = 0; i < 1'000'000; ++i) body += fmt::format("\"{}\": 0,", i);
  body += "\"last\": 1}}";
  EXPECT_EQ(parse_body(body)["a"].size(), 1'000'001);
}

TEST(Fields, NullIsAbsent) {
  const Json json = parse_body(R"({"a": null})");
  const Fields fields(json);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(fields.find(name), nullptr);
    EXPECT_EQ(fields.boolean(name), std::nullopt);
    EXPECT_EQ(fields.string(name), std::nullopt);
    EXPECT_EQ(fields.number(name, 0, 1), std::nullopt);
    EXPECT_EQ(fields.integer(name, 0), std::nullopt);
    EXPECT_EQ(fields.list(name), nullptr);
    EXPECT_EQ(fields.object(name), nullptr);
  }
}

TEST(Fields, Values) {
  const Json json = parse_body(
      R"({"b": true, "s": "x", "f": 0.5, "i": 3, "w": 4.0, "l": [1], "o": {}})");
  const Fields fields(json);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.string("s"), "x");
  EXPECT_EQ(fields.number("f", 0, 1), 0.5f);
  EXPECT_EQ(fields.number("i", 0, 3), 3.f);
  EXPECT_EQ(fields.integer("i", 0), 3);
  EXPECT_EQ(fields.integer("w", 0), 4);
  EXPECT_EQ(fields.list("l")->size(), 1);
  EXPECT_TRUE(fields.object("o")->empty());
}

TEST(Fields, WhatIsAboveZeroStaysSo) {
  const Json json = parse_body(R"({"least": 1e-300, "zero": 0})");
  EXPECT_GT(Fields(json).number("least", 0, 1), 0.f);
  EXPECT_EQ(Fields(json).number("zero", 0, 1), 0.f);
}

TEST(Fields, FaultsNameTheFieldAndWhatWasExpected) {
  const Json json = parse_body(
      R"({"b": 1, "s": 5, "f": "x", "far": 7.5, "i": 1.5, "low": -2,
          "high": 21, "l": {}, "o": "y"})");
  const Fields fields(json, "at[0]");
  const auto check = [](const char* name, const char* words, auto read) {
    const ApiError error = error_of_reading(read);
    EXPECT_EQ(error.kind().param, fmt::format("at[0].{}", name));
    EXPECT_THAT(error.what(), HasSubstr(name));
    EXPECT_THAT(error.what(), HasSubstr(words));
  };
  check("b", "of type bool, got 1", [&] { fields.boolean("b"); });
  check("s", "of type string, got 5", [&] { fields.string("s"); });
  check("f", "of type float, got \"x\"", [&] { fields.number("f", 0, 1); });
  check("far", "in [0, 5], got 7.5", [&] { fields.number("far", 0, 5); });
  check("i", "of type int, got 1.5", [&] { fields.integer("i", 0); });
  check("low", "at least -1, got -2", [&] { fields.integer("low", -1); });
  check("high", "at most 20, got 21", [&] { fields.integer("high", 0, 20); });
  check("l", "of type list", [&] { fields.list("l"); });
  check("o", "of type object", [&] { fields.object("o"); });
}

// A-08
TEST(Errors, AreValidUtf8WhateverTheyQuote) {
  const ApiReply reply = error_reply(400, "no \xff\xfe here");
  EXPECT_EQ(Json::parse(reply.body),
            Json::parse(R"({"error": {"message": "no \ufffd\ufffd here",
                "type": "invalid_request_error", "param": null,
                "code": null}})"));
}

Json error_of_reply(const ApiOutcome& outcome) {
  return Json::parse(std::get<ApiReply>(outcome).body)["error"];
}

TEST(Errors, BecomeReplies) {
  const ApiOutcome fault =
      answer_or_error([]() -> ApiOutcome { refuse("n", "n is {}", 5); });
  EXPECT_EQ(std::get<ApiReply>(fault).status, 400);
  EXPECT_EQ(error_of_reply(fault)["message"], "n is 5");
  EXPECT_EQ(error_of_reply(fault)["param"], "n");

  const ApiOutcome ours =
      answer_or_error([]() -> ApiOutcome { throw std::bad_alloc(); });
  EXPECT_EQ(std::get<ApiReply>(ours).status, 500);
  EXPECT_EQ(error_of_reply(ours)["type"], "server_error");
}

struct RefusalCase {
  Refusal refusal;
  int status;
  const char *type, *code, *words, *retry_after;
};

TEST(Errors, RefusalsOfTheEngine) {
  using Kind = Refusal::Kind;
  const RefusalCase cases[] = {
      {{.kind = Kind::invalid, .reason = "bad token"},
       400,
       "invalid_request_error",
       nullptr,
       "bad token",
       nullptr},
      {{.kind = Kind::too_long, .asked = 70, .most = 64},
       400,
       "invalid_request_error",
       "context_length_exceeded",
       "70 tokens, but the model's maximum context length is 64 tokens",
       nullptr},
      {{.kind = Kind::over_budget, .asked = 70, .most = 64},
       400,
       "memory_admission",
       "context_over_budget",
       "a context of at most 64 tokens",
       nullptr},
      {{.kind = Kind::too_many, .reason = "9 answers at once"},
       400,
       "invalid_request_error",
       nullptr,
       "9 answers",
       nullptr},
      {{.kind = Kind::busy, .reason = "the queue is full", .retry_after_s = 3},
       429,
       "rate_limit_error",
       "rate_limit_exceeded",
       "queue is full",
       "3"},
      {{.kind = Kind::draining, .reason = "the server is shutting down"},
       503,
       "server_error",
       "shutting_down",
       "shutting down",
       "5"},
  };
  for (const RefusalCase& c : cases) {
    const ApiOutcome outcome =
        answer_or_error([&]() -> ApiOutcome { throw error_of(c.refusal); });
    const auto& reply = std::get<ApiReply>(outcome);
    const Json error = error_of_reply(outcome);
    EXPECT_EQ(reply.status, c.status);
    EXPECT_EQ(error["type"], c.type);
    EXPECT_EQ(error["code"], c.code ? Json(c.code) : Json(nullptr));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(c.words));
    if (c.retry_after) {
      EXPECT_THAT(reply.headers, testing::ElementsAre(testing::Pair(
                                     "retry-after", c.retry_after)));
    } else {
      EXPECT_TRUE(reply.headers.empty());
    }
  }
}

}  // namespace
}  // namespace quern::test
