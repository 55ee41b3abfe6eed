#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/prompt.h"
#include "text/reply_cases.h"
#include "text/synthetic.h"

namespace quern {
namespace {

// What Qwen 3's template says of reasoning, calls and results.
constexpr char kQwen[] = R"(
{%- if tools %}{{- '<|im_start|>system\n<tools>' }}
  {%- for tool in tools %}{{- '\n' ~ (tool | tojson) }}{% endfor %}
  {{- '\n</tools>\n<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\n' }}
  {%- if message.reasoning_content %}
    {{- '<think>\n' + message.reasoning_content.strip('\n') + '\n</think>\n\n' }}
  {%- endif %}
  {{- message.content }}
  {%- for call in message.tool_calls or [] %}
    {%- if not loop.first or message.content %}{{- '\n' }}{% endif %}
    {{- '<tool_call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) ~ '}\n</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}
    {{- '<think>\n\n</think>\n\n' }}
  {%- elif prefill %}{{- '<think>\n' }}{% endif %}
{%- endif %})";

ChatTemplates templates(std::string source) {
  return ChatTemplates::from_source(std::move(source)).or_throw();
}

// The ids of the tokens that are added to synthetic::byte_level().
constexpr int32_t kFirst = 259;
const std::vector<std::pair<std::string, int32_t>> kQwenTokens = {
    {"<think>", 4}, {"</think>", 4}, {"<tool_call>", 4}, {"</tool_call>", 4}};

TEST(ReplyFormat, TagsThatAreTokens) {
  const auto format =
      ReplyFormat::of(synthetic::byte_level(kQwenTokens), templates(kQwen));
  ASSERT_TRUE(format.think_open && format.think_close);
  EXPECT_EQ(format.think_open->text, "<think>");
  EXPECT_EQ(format.think_open->id, kFirst);
  EXPECT_EQ(format.think_close->text, "</think>");
  EXPECT_EQ(format.think_close->id, kFirst + 1);
  ASSERT_TRUE(format.tools);
  EXPECT_EQ(format.tools->name, "hermes");
  EXPECT_TRUE(format.special_tags.empty());
}

TEST(ReplyFormat, TagsThatOnlyTheTemplateMentions) {
  const auto format =
      ReplyFormat::of(synthetic::byte_level(), templates(kQwen));
  ASSERT_TRUE(format.think_open && format.think_close);
  EXPECT_EQ(format.think_open->text, "<think>");
  EXPECT_EQ(format.think_open->id, std::nullopt);
  EXPECT_EQ(format.think_close->id, std::nullopt);
}

TEST(ReplyFormat, TagsThatOnlyTheVocabularyHas) {
  const auto format = ReplyFormat::of(
      synthetic::byte_level({{"[THINK]", 3}, {"[/THINK]", 3}}), templates(""));
  ASSERT_TRUE(format.think_open && format.think_close);
  EXPECT_EQ(format.think_open->text, "[THINK]");
  EXPECT_EQ(format.think_close->id, kFirst + 1);
}

TEST(ReplyFormat, NoTags) {
  const auto format = ReplyFormat::of(synthetic::byte_level(),
                                      templates("{{ messages[0].content }}"));
  EXPECT_FALSE(format.think_open || format.think_close);
  EXPECT_FALSE(format.opens_reasoning("<think>"));
  const std::string text = "<think>a</think>b";
  EXPECT_EQ(
      reply::join(reply::run(ReplyParser(format, nullptr, true), {{text}})),
      reply::Pieces{reply::content(text)});
}

TEST(ReplyFormat, TagsOfCallsThatAreSpecialTokens) {
  const auto format = ReplyFormat::of(
      synthetic::byte_level({{"<tool_call>", 3}, {"</tool_call>", 3}}),
      templates(kQwen));
  ASSERT_EQ(format.special_tags.size(), 2u);
  EXPECT_EQ(format.special_tags[0].text, "<tool_call>");
  EXPECT_EQ(format.special_tags[0].id, kFirst);
  EXPECT_EQ(format.special_tags[1].text, "</tool_call>");
}

TEST(CaseG01, APromptThatEndsWithTheCloserOpensNothing) {
  const auto tokenizer = synthetic::byte_level(kQwenTokens);
  const auto qwen = templates(kQwen);
  const auto format = ReplyFormat::of(tokenizer, qwen);
  const auto opens = [&](Json variables) {
    ChatInput input;
    input.messages = Json::array({{{"role", "user"}, {"content", "<think>"}}});
    input.variables = std::move(variables);
    return format.opens_reasoning(chat_text(tokenizer, qwen, input).or_throw());
  };
  EXPECT_FALSE(opens({{"enable_thinking", false}}));
  EXPECT_FALSE(opens(Json::object()));
  EXPECT_TRUE(opens({{"prefill", true}}));
  EXPECT_TRUE(format.opens_reasoning("a<think> \r\n\t"));
  EXPECT_FALSE(format.opens_reasoning("<think>a"));
  EXPECT_FALSE(format.opens_reasoning(""));
}

// What the template writes of an assistant's turn is taken apart to that turn.
TEST(ReplyFormat, TurnsOfTheTemplateComeBack) {
  const auto tokenizer = synthetic::byte_level(kQwenTokens);
  const auto qwen = templates(kQwen);
  const auto format = ReplyFormat::of(tokenizer, qwen);
  const auto function = [](const char* name, Json arguments) {
    return Json{{"function", {{"name", name}, {"arguments", arguments}}}};
  };
  ChatInput input;
  input.add_generation_prompt = false;
  input.messages =
      Json::array({{{"role", "assistant"},
                    {"reasoning_content", " Two\n\n calls. "},
                    {"content", "Let me see: é."},
                    {"tool_calls",
                     Json::array({function("get_wx", {{"city", "说\n\"<x>\""}}),
                                  function("f", Json::object())})}}});
  const std::string begin = "<|im_start|>assistant\n", end = "<|im_end|>\n";
  std::string turn = chat_text(tokenizer, qwen, input).or_throw();
  ASSERT_TRUE(turn.starts_with(begin) && turn.ends_with(end)) << turn;
  turn = turn.substr(begin.size(), turn.size() - begin.size() - end.size());

  Detokenizer detokenizer(tokenizer);
  reply::Tokens tokens;
  const auto ids = tokenizer.encode(turn).or_throw();
  for (const int32_t id : ids) {
    tokens.push_back({detokenizer.push(id), id});
  }
  const auto out = reply::join(
      reply::run(ReplyParser(format, reply::tools(), false), tokens));
  ASSERT_EQ(out.size(), 4u) << turn;
  EXPECT_EQ(out[0], reply::reasoning(" Two\n\n calls. "));
  EXPECT_EQ(out[1], reply::content("Let me see: é."));
  EXPECT_EQ(out[2].call.name, "get_wx");
  EXPECT_EQ(Json::parse(out[2].call.arguments),
            (Json{{"city", "说\n\"<x>\""}}));
  EXPECT_EQ(out[3], reply::call("f", "{}"));
}

}  // namespace
}  // namespace quern
