#include "api/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/served.h"

namespace quern::test {
namespace {

using testing::ElementsAre;

const auto kServed = served_without_engine();

const auto kTools = std::make_shared<const Json>(
    Json::parse(R"([{"type": "function", "function": {"name": "f"}},
                    {"type": "function", "function": {"name": "g"}}])"));

// What a choice made of tokens, a byte each.
struct Told {
  std::string content, reasoning;
  std::vector<std::string> deltas;  // of content
  std::vector<ToolCall> calls;
  std::string tokens;  // those of the deltas
  std::vector<int> offsets;
  Ended ended;
};

Told told(Mailbox& mailbox) {
  Told told;
  for (auto& [index, event] : mailbox.take()) {
    if (auto* text = std::get_if<TextDelta>(&event)) {
      EXPECT_FALSE(text->text.empty());
      (text->reasoning ? told.reasoning : told.content) += text->text;
      if (!text->reasoning) told.deltas.push_back(text->text);
      for (const TokenScore& token : text->tokens) {
        told.tokens += char(token.sampled.token);
        told.offsets.push_back(token.offset);
      }
    } else if (auto* call = std::get_if<ToolCall>(&event)) {
      told.calls.push_back(*call);
    } else if (auto* ended = std::get_if<Ended>(&event)) {
      told.ended = *ended;
    }
  }
  return told;
}

// Feeds the bytes as tokens, until the choice has enough.
Told play(std::string_view bytes, ChoiceOptions options) {
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer, std::move(options), mailbox, 0);
  Ending ending{.finish = Finish::stop};
  for (unsigned char byte : bytes) {
    ++ending.tokens;
    if (!choice.on_token({.token = byte, .logprob = -1})) break;
  }
  choice.on_end(ending);
  return told(*mailbox);
}

ChoiceOptions parsed(bool inside_reasoning = false, bool raw = false) {
  return {.parser =
              ReplyParser(kServed->format, kTools, inside_reasoning, raw)};
}

struct StopCase {
  const char *id, *text;
  std::vector<std::string> stops;
  const char* content;
  std::optional<std::string> stop;
};

TEST(Choice, StopStrings) {
  const StopCase cases[] = {
      {"B-01", "Alpha\nUser: leaktail", {"\nUser:"}, "Alpha", "\nUser:"},
      {"B-04", " Alice!x", {"\n", "Alice:"}, " Alice!x", std::nullopt},
      {"B-05", "What?\nNext", {"\n"}, "What?", "\n"},
      {"B-07", "Mars?\n", {"?\n"}, "Mars", "?\n"},
      {"at the end", "ab", {"bc"}, "ab", std::nullopt},
  };
  for (const StopCase& c : cases) {
    for (bool parse : {false, true}) {
      SCOPED_TRACE(c.id);
      ChoiceOptions options = parse ? parsed() : ChoiceOptions();
      options.stops = c.stops;
      options.scores = true;
      const Told got = play(c.text, std::move(options));
      EXPECT_EQ(got.content, c.content);
      EXPECT_EQ(got.tokens, c.content);  // none of what was cut off
      EXPECT_EQ(got.ended.stop, c.stop);
    }
  }
}

TEST(Choice, StopsEndTheRequest) {
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer, {.stops = {"b"}}, mailbox, 0);
  EXPECT_TRUE(choice.on_token({.token = 'a'}));
  EXPECT_FALSE(choice.on_token({.token = 'b'}));
}

// Stops are looked for in what the user sees as the answer.
TEST(Choice, StopsAreOfTheContent) {
  ChoiceOptions options = parsed();
  options.stops = {"x", "name"};
  const Told got = play(
      "<think>x</think>a<tool_call>{\"name\": \"f\", \"arguments\": "
      "{}}</tool_call>bxc",
      std::move(options));
  EXPECT_EQ(got.reasoning, "x");
  EXPECT_EQ(got.content, "ab");
  EXPECT_EQ(got.calls.size(), 1);
  EXPECT_EQ(got.ended.stop, "x");
}

// Nothing is held back across a call, nor looked for.
TEST(Choice, StopsDoNotReachAcrossACall) {
  ChoiceOptions options = parsed();
  options.stops = {"ab"};
  options.scores = true;
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer, std::move(options), mailbox, 0);
  for (const char c : std::string_view(
           "a<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>b")) {
    choice.on_token({.token = c});
  }
  choice.on_end({.finish = Finish::stop});
  std::string order;
  for (const auto& [index, event] : mailbox->take()) {
    const auto* text = std::get_if<TextDelta>(&event);
    order += text ? text->text : event.index() == 2 ? "()" : ".";
    if (text) {
      EXPECT_EQ(text->tokens.size(), 1);
    }
  }
  EXPECT_EQ(order, "a()b.");
}

TEST(Choice, AStopAtTheEndEndsIt) {
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer, {.stops = {"abc", "b"}}, mailbox, 0);
  choice.on_token({.token = 'a'});
  choice.on_token({.token = 'b'});
  choice.on_end({.finish = Finish::length});
  const Told got = told(*mailbox);
  EXPECT_EQ(got.content, "a");
  EXPECT_EQ(got.ended.stop, "b");
  EXPECT_EQ(got.ended.ending.finish, Finish::stop);
}

// Whoever reads the mailbox hears the end, whatever the text's.
TEST(Choice, EndsThoughItsTextFails) {
  ToolSyntax syntax = *kServed->format.tools;
  syntax.parse = [](std::string_view,
                    const Json&) -> std::optional<std::vector<ToolCall>> {
    fail("broken");
  };
  ReplyFormat format = kServed->format;
  format.tools = &syntax;
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer,
                {.parser = ReplyParser(format, kTools, false)}, mailbox, 0);
  for (const char c : std::string_view("<tool_call>{")) {
    choice.on_token({.token = c});
  }
  choice.on_end({.finish = Finish::stop});
  const Ending ending = told(*mailbox).ended.ending;
  EXPECT_EQ(ending.finish, Finish::failed);
  EXPECT_EQ(ending.reason, "broken");
}

// In parts as the prompt is read; told once.
TEST(Choice, PromptScoresComeTogether) {
  auto mailbox = std::make_shared<Mailbox>(1);
  Choice choice(kServed->tokenizer, {.prompt_scores = true}, mailbox, 0);
  choice.on_prompt_logprobs({{.position = 1}, {.position = 2}});
  choice.on_prompt_logprobs({{.position = 3}});
  EXPECT_TRUE(mailbox->take().empty());
  choice.on_token({.token = 'a'});
  choice.on_end({.finish = Finish::stop});
  const auto letters = mailbox->take();
  ASSERT_EQ(letters.size(), 3);
  const auto& scores = std::get<PromptScores>(letters[0].event).scores;
  ASSERT_EQ(scores.size(), 3);
  EXPECT_EQ(scores[2].position, 3);
}

TEST(Choice, CharactersComeWhole) {
  EXPECT_THAT(play("\xF0\x9F\x99\x82!", {}).deltas,
              ElementsAre("\U0001F642", "!"));
  EXPECT_THAT(play("a\xE4\xB8 b", {}).deltas, ElementsAre("a", "\uFFFD ", "b"));
  EXPECT_THAT(play("a\xE4\xB8", {}).deltas, ElementsAre("a", "\uFFFD"));
  EXPECT_EQ(play("bad \xFF byte", parsed()).content, "bad \uFFFD byte");
  EXPECT_EQ(play("end\xE4", parsed()).content, "end\uFFFD");
}

TEST(Choice, TokensComeWithTheirText) {
  const Told got = play("\xF0\x9F\x99\x82!", {.scores = true});
  EXPECT_EQ(got.tokens, "\xF0\x9F\x99\x82!");
  EXPECT_THAT(got.offsets, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_DOUBLE_EQ(got.ended.mean_logprob, -1);
  EXPECT_EQ(play("ab", {}).tokens, "");
  EXPECT_EQ(play("", {.scores = true}).ended.mean_logprob, -INFINITY);
}

TEST(Choice, TokensOfTagsReasoningAndCallsAreLeftOut) {
  ChoiceOptions options = parsed();
  options.scores = true;
  const Told got = play(
      "<think>hm</think>\n\nso <tool_call>{\"name\": \"f\", \"arguments\": "
      "{}}</tool_call>then<tool_call> no",
      std::move(options));
  EXPECT_EQ(got.reasoning, "hm");
  EXPECT_EQ(got.content, "so then<tool_call> no");
  EXPECT_EQ(got.tokens, "so then<tool_call> no");
}

TEST(Choice, ReasoningTokensAreCounted) {
  const Told got = play("reason</think>ok", parsed(true));
  EXPECT_EQ(got.reasoning, "reason");
  EXPECT_EQ(got.content, "ok");
  // All before the closing tag is known as one.
  EXPECT_EQ(got.ended.reasoning_tokens, int(std::strlen("reason</think")));
}

TEST(Choice, RawKeepsTheTags) {
  EXPECT_EQ(play("r</think>a", parsed(true, true)).content,
            "<think>r</think>a");
  EXPECT_EQ(play("<think>r</think>a", parsed(false, true)).content,
            "<think>r</think>a");
}

TEST(Choice, OneCallEndsIt) {
  constexpr const char* kTwo =
      "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(play(kTwo, parsed()).calls.size(), 2);
  ChoiceOptions options = parsed();
  options.one_call = true;
  const Told got = play(kTwo, std::move(options));
  ASSERT_EQ(got.calls.size(), 1);
  EXPECT_EQ(got.calls[0].name, "f");
  EXPECT_EQ(got.content, "");
}

TEST(Choice, ProgressIsSummedOverChoices) {
  auto mailbox = std::make_shared<Mailbox>(2);
  Choice first(kServed->tokenizer, {}, mailbox, 0);
  Choice second(kServed->tokenizer, {}, mailbox, 1);
  first.on_progress(256, 1000);
  second.on_progress(0, 500);
  EXPECT_EQ(mailbox->progress().fed, 256);
  EXPECT_EQ(mailbox->progress().total, 1500);
}

TEST(Mailbox, RingsWhenThereIsSomethingNew) {
  Mailbox mailbox(1);
  int rings = 0;
  mailbox.put(0, {TextDelta{.text = "early"}});
  mailbox.on_ready([&] { ++rings; });
  EXPECT_EQ(rings, 1);
  mailbox.put(0, {TextDelta{.text = "a"}});  // the reader was told already
  EXPECT_EQ(rings, 1);
  EXPECT_EQ(mailbox.take().size(), 2);
  mailbox.put(0, {});
  EXPECT_EQ(rings, 1);
  mailbox.put(0, {TextDelta{.text = "b"}});
  EXPECT_EQ(rings, 2);
  mailbox.take();
  mailbox.close();
  mailbox.put(0, {TextDelta{.text = "c"}});
  EXPECT_EQ(rings, 2);
}

}  // namespace
}  // namespace quern::test
