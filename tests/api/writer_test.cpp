// The dialects, from data: each file of chat/ and completions/ has the events
// of an answer, the choices of the chunks that they become, and the answer that
// the chunks add up to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat_writer.h"
#include "api/completion_writer.h"
#include "base/files.h"
#include "text/synthetic.h"

namespace quern::test {
namespace {

const Tokenizer kTokenizer = synthetic::byte_level();

std::vector<Path> cases_of(const char* dialect) {
  std::vector<Path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           Path(QUERN_TEST_DIR) / "api" / dialect)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// {"id": 65, "logprob": -1, "top": [[65, -1]], ...}
Sampled sampled_of(const Json& json) {
  Sampled sampled{.token = json.at("id"), .logprob = json.at("logprob")};
  for (const Json& top : json.value("top", Json::array())) {
    sampled.top.emplace_back(top[0], top[1]);
  }
  return sampled;
}

TextDelta text_of(const Json& json, const char* name) {
  TextDelta delta{.text = json.at(name)};
  delta.reasoning = std::string_view(name) == "reasoning";
  for (const Json& token : json.value("tokens", Json::array())) {
    delta.tokens.push_back({sampled_of(token), token.at("offset")});
  }
  return delta;
}

Ended ended_of(const Json& json) {
  Ended ended;
  ended.ending.finish =
      json.at("end") == "length" ? Finish::length : Finish::stop;
  ended.ending.prompt_tokens = json.value("prompt", 0);
  ended.ending.cached_tokens = json.value("cached", 0);
  ended.ending.tokens = json.value("tokens", 0);
  ended.reasoning_tokens = json.value("reasoning_tokens", 0);
  ended.mean_logprob = json.value("mean_logprob", 0.0);
  if (json.contains("stop")) ended.stop = json["stop"];
  return ended;
}

Event event_of(const Json& json) {
  if (json.contains("content")) return text_of(json, "content");
  if (json.contains("reasoning")) return text_of(json, "reasoning");
  if (json.contains("call")) {
    return ToolCall{json["call"].at(0), json["call"].at(1)};
  }
  if (json.contains("prompt_scores")) {
    PromptScores scores;
    for (const Json& score : json["prompt_scores"]) {
      scores.scores.push_back({score.at("position"), sampled_of(score)});
    }
    return scores;
  }
  return ended_of(json);
}

AnswerHead head() { return {.id = "x-1", .created = 7, .model = "m"}; }

// What a case lists of a chunk or an answer, with what all of them have.
Json with_head(const char* object, const Json& rest) {
  Json json = head().json(object);
  json.update(rest);
  return json;
}

void run(const Json& test, Writer& writer, Fold& fold, const char* chunk_object,
         const char* object) {
  std::vector<Json> chunks;
  for (const Json& event : test.at("events")) {
    for (Json& chunk : writer.write(event.value("choice", 0), event_of(event)))
      chunks.push_back(std::move(chunk));
  }
  for (Json& chunk : writer.close()) chunks.push_back(std::move(chunk));

  const Json& expected = test.at("chunks");
  EXPECT_EQ(chunks.size(), expected.size());
  for (size_t i = 0; i < std::min(chunks.size(), expected.size()); ++i) {
    EXPECT_EQ(chunks[i], with_head(chunk_object, expected[i])) << i;
  }
  for (const Json& chunk : chunks) fold.add(chunk);
  EXPECT_EQ(fold.whole(), with_head(object, test.at("whole")));
}

TEST(ChatWriter, Cases) {
  const std::map<std::string, ReasoningField> fields = {
      {"both", ReasoningField::both},
      {"reasoning", ReasoningField::reasoning},
      {"reasoning_content", ReasoningField::reasoning_content}};
  const auto paths = cases_of("chat");
  EXPECT_GE(paths.size(), 7);
  for (const Path& path : paths) {
    SCOPED_TRACE(path.filename());
    const Json test =
        parse_json(read_text(path).or_throw(), path.string()).or_throw();
    ChatWriter writer(
        head(), kTokenizer,
        {.choices = test.value("n", 1),
         .include_usage = test.value("include_usage", false),
         .logprobs = test.value("logprobs", false),
         .reasoning_field = fields.at(test.value("reasoning_field", "both"))});
    ChatFold fold;
    run(test, writer, fold, "chat.completion.chunk", "chat.completion");
  }
}

TEST(CompletionWriter, Cases) {
  const auto paths = cases_of("completions");
  EXPECT_GE(paths.size(), 5);
  for (const Path& path : paths) {
    SCOPED_TRACE(path.filename());
    const Json test =
        parse_json(read_text(path).or_throw(), path.string()).or_throw();
    CompletionRequest request;
    request.generation.choices = test.value("n", 1);
    request.generation.include_usage = test.value("include_usage", false);
    request.best_of = test.value("best_of", request.generation.choices);
    request.logprobs = test.value("logprobs", -1);
    request.echo = test.value("echo", false);
    for (const Json& prompt : test.at("prompts")) {
      request.prompts.push_back({prompt.at(0), prompt.at(1)});
    }
    CompletionFold fold(request.best_of, request.generation.choices);
    CompletionWriter writer(head(), kTokenizer, std::move(request));
    run(test, writer, fold, "text_completion", "text_completion");
  }
}

TEST(CompletionFold, AnAnswerWithoutTokensIsNotTheBest) {
  CompletionFold fold(2, 1);
  for (const auto& [index, mean] : {std::pair(0, -INFINITY), {1, -3.f}}) {
    fold.add({{"choices",
               {{{"index", index},
                 {"text", std::to_string(index)},
                 {"finish_reason", "stop"},
                 {"mean_logprob", mean}}}}});
  }
  EXPECT_EQ(fold.whole()["choices"][0]["text"], "1");
}

TEST(AnswerHead, IdsAreFresh) {
  const AnswerHead a = AnswerHead::fresh("chatcmpl-", "m");
  const AnswerHead b = AnswerHead::fresh("chatcmpl-", "m");
  EXPECT_THAT(a.id, testing::MatchesRegex("chatcmpl-[0-9a-f]{32}"));
  EXPECT_NE(a.id, b.id);
  EXPECT_GT(a.created, 1'700'000'000);
}

TEST(SseData, IsOneLine) {
  EXPECT_EQ(sse_data(Json{{"a", "x\ny\r\u2028\"\x01"}}),
            "data: {\"a\":\"x\\ny\\r\u2028\\\"\\u0001\"}\n\n");
}

}  // namespace
}  // namespace quern::test
