#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace quern {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::string> render(std::string source, const Json& context) {
  auto chat_template = ChatTemplate::compile(std::move(source));
  if (!chat_template) return chat_template.failure();
  return chat_template->render(context);
}

std::string text(std::string source, const char* context = "{}") {
  return render(std::move(source), *parse_json(context, "context")).or_throw();
}

// Made by tools/make_template_goldens.py with transformers.
TEST(CaseE12, TemplatesRenderAsInTransformers) {
  setenv("TZ", "UTC", 1);
  const auto file = read_text(QUERN_TEST_DIR "/goldens/text/templates.json");
  const Json goldens = parse_json(*file, "templates.json").or_throw();
  const RenderOptions options{.now = goldens["now"].get<int64_t>()};
  for (const Json& golden : goldens["cases"]) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const auto source = golden["template"].get<std::string>();
    auto compiled = ChatTemplate::compile(source);
    auto out = compiled ? compiled->render(golden["context"], options)
                        : Result<std::string>(compiled.failure());
    if (golden.contains("error")) {
      EXPECT_FALSE(out) << source << "\n-> " << *out;
      continue;
    }
    ASSERT_TRUE(out) << source << "\n-> " << out.reason();
    EXPECT_EQ(*out, golden["text"].get<std::string>()) << source;
  }
}

TEST(CaseE01, ReversedSlicesAndSlicesOfNull) {
  EXPECT_EQ(text("{% for m in [1,2,3][::-1] %}{{m}}{% endfor %}"), "321");
  EXPECT_EQ(text("{{ m.content[:3] }}|", R"({"m": {"content": null}})"), "|");
  EXPECT_EQ(text("{{ m['content'][1:] ~ 'x' }}", R"({"m": {}})"), "x");
  EXPECT_EQ(text("{{ m.content[1:] }}", R"({"m": {"content": "abc"}})"), "bc");
}

// The part of the Qwen3 template that meets reasoning, calls and results.
TEST(CaseE02, ToolCallsWithReasoning) {
  const char* context = R"({"messages": [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "", "reasoning_content": "r",
     "tool_calls": [{"id": "1", "type": "function",
       "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "ok"}]})";
  EXPECT_EQ(text(R"({%- for message in messages %}
{%- if message.role == "assistant" %}
    {%- set reasoning_content = '' %}
    {%- if message.reasoning_content is string %}
        {%- set reasoning_content = message.reasoning_content %}
    {%- endif %}
    {{- '<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' }}
    {%- for tool_call in message.tool_calls %}
        {%- if tool_call.function %}{% set tool_call = tool_call.function %}{% endif %}
        {{- '{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
        {%- if tool_call.arguments is string %}{{ tool_call.arguments }}
        {%- else %}{{ tool_call.arguments | tojson }}{% endif %}
        {{- '}' }}
    {%- endfor %}
{%- else %}{{- '[' + message.role + ':' + message.content + ']' }}
{%- endif %}
{%- endfor %})",
                 context),
            "[user:q]<think>\nr\n</think>\n\n"
            "{\"name\": \"f\", \"arguments\": {}}[tool:ok]");
}

TEST(CaseE04, GenerationBlocksRenderTheirBody) {
  EXPECT_EQ(text("{% generation %}x{% endgeneration %}"), "x");
  EXPECT_EQ(text("a {%- generation -%} x\n{%- endgeneration -%} b"), "axb");
}

TEST(CaseE05, FromJson) {
  EXPECT_EQ(text("{% for k,v in (c.function.arguments|fromjson).items() %}"
                 "{{k}}={{v}};{% endfor %}",
                 R"({"c": {"function": {"arguments": "{\"a\":1}"}}})"),
            "a=1;");
}

TEST(CaseE07, JsonOptionsAsPython) {
  const char* context = R"({"t": {"b": ["é", 1.0], "a": null}})";
  EXPECT_EQ(text("{{ t|tojson(ensure_ascii=False) }}", context),
            R"({"b": ["é", 1.0], "a": null})");
  EXPECT_EQ(text("{{ t|tojson(ensure_ascii=True) }}", context),
            R"({"b": ["\u00e9", 1.0], "a": null})");
  EXPECT_EQ(
      text("{{ t|tojson(sort_keys=true,separators=(',',':')) }}", context),
      R"({"a":null,"b":["é",1.0]})");
  EXPECT_EQ(text("{{ t|tojson(indent=2) }}", context),
            "{\n  \"b\": [\n    \"é\",\n    1.0\n  ],\n  \"a\": null\n}");
  EXPECT_THAT(render("{{ t|tojson(no_such=1) }}", {{"t", 1}}).reason(),
              HasSubstr("no_such"));
}

TEST(CaseE08, AFaultIsAReasonWithItsMessage) {
  EXPECT_THAT(
      render("{{ tool.function|tojson }}", {{"tool", Json::object()}}).reason(),
      HasSubstr("undefined value is not JSON serializable"));
  EXPECT_EQ(
      render("a\n{{ raise_exception('roles must alternate') }}", Json::object())
          .reason(),
      "chat template: roles must alternate (line 2)");
  EXPECT_THAT(render("{% if %}", Json::object()).reason(),
              HasSubstr("syntax error"));
}

TEST(ChatTemplate, TimeAndMemoryAreBounded) {
  for (const char* source :
       {"{% for i in range(100000) %}{% for j in range(100000) %}"
        "{% endfor %}{% endfor %}",
        "{% set ns = namespace(a='x') %}{% for i in range(1000) %}"
        "{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}"
        "{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(40) %}"
        "{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "{% set ns = namespace(a=[]) %}{% for i in range(40) %}"
        "{% set ns.a = [] + ns.a + [1] * 100000000000 %}{% endfor %}",
        "{{ [1] * 1000000000000 }}", "{{ ['x' * 9999999] * 9999999 }}",
        "{{ (['x' * 9999999] * 9999999)|tojson }}",
        "{{ ([1] * 1000000000000)|string }}",
        "{{ ([1] * 1000000000000)|join }}", "{{ '{:999999999}'.format(1) }}",
        "{% set a = 'x' * 9999999 %}{{ a.replace('x', a) }}",
        "{{ 1 in [2] * 1000000000000 }}", "{{ ([1] * 1000000000000)|last }}",
        "{{ ([1] * 1000000000000)|sort }}",
        "{{ [1] * 1000000000000 == [1] * 1000000000000 }}",
        "{{ 'x' * 100000000 * 100000000 }}", "{{ '%999999999d' % 1 }}"}) {
    EXPECT_FALSE(render(source, Json::object())) << source;
  }
}

TEST(ChatTemplate, SumsAndRemaindersKeepTheirMeaning) {
  for (auto [source, expected] : {
           std::pair{"{{ 1 + 2 * 3 % 4 - 5 + -6 }}", "-8"},
           {"{{ ([1] + [2] + [3])[1:] + [4, 5 + 6] }}", "[2, 3, 4, 11]"},
           {"{{ 'a' + 'b'|upper + ('c' + 'd')[0] }}", "aBc"},
           {"{{ 1 + x is not none }}|{{ 7 % x is not none }}", "2|0"},
           {"{{ 'x' + ('in' if 1 in [1] + [2] else 'out') }}", "xin"},
           {"{{ {'a': 1 + 1, 'b': [0] + [x]} }}", "{'a': 2, 'b': [0, 3]}"},
           {"{{ range(1 + 1, x + 2)|list + [x] }}", "[2, 3, 4, 3]"},
           {"{%- set y = x + 1 +%}{{ y }}", "4"},
           {" {{- 'a' + 'b' -}} {{- '%s' % x }} {{- -7 % x + -x -}} ", "ab3-1"},
       }) {
    EXPECT_EQ(text(source, R"({"x": 3})"), expected) << source;
  }
}

// `head`, then as many `link`s as `size` bytes of source have room for, `tail`.
std::string chain(std::string head, std::string_view link,
                  std::string_view tail, size_t size) {
  while (head.size() + link.size() + tail.size() <= size) head += link;
  return head.append(tail);
}

TEST(ChatTemplate, ChainsOfAnyLengthAreRefusedOrRendered) {
  const std::vector<std::array<const char*, 3>> chains = {
      {"{{ ", "-", "1 }}"},
      {"{{ ", "- ", "a }}"},
      {"{{ ", "not ", "1 }}"},
      {"{{ 1", "+1", " }}"},
      {"{{ a", "+1", " }}"},
      {"{{ 'a'", "~'b'", " }}"},
      {"{{ 1", "**1", " }}"},
      {"{{ 1", "%1", " }}"},
      {"{{ 1", " and 1", " }}"},
      {"{{ 1", " == 1", " }}"},
      {"{{ a", "()", " }}"},
      {"{{ a", ".b", " }}"},
      {"{{ a", "[0]", " }}"},
      {"{{ a", "[:]", " }}"},
      {"{{ 1", "|string", " }}"},
      {"{{ 1", " is defined", " }}"},
      {"{{ ", "0 if 0 else ", "1 }}"},
      {"{{ 1", " if 1", " }}"},
      {"{{ ", "(", " }}"},
      {"{{ ", "[", " }}"},
      {"{{ ", "{1:", " }}"},
      {"{% filter upper", "|upper", " %}x{% endfilter %}"},
      {"{% if 0 %}", "{%elif 0%}", "{% endif %}"},
      {"", "{% if 1 %}", ""},
      {"", "{% set x %}", ""},
      {"", "{% macro a() %}", ""},
  };
  for (const auto& [head, link, tail] : chains) {
    SCOPED_TRACE(std::string(head) + link);
    for (const size_t size : {1'000, 25'000, 85'000, 200'000, 262'144}) {
      const auto out = render(chain(head, link, tail, size), Json::object());
      EXPECT_THAT(out ? "chat template: " : out.reason(),
                  StartsWith("chat template: "));
    }
  }
}

TEST(ChatTemplate, ATagHasAtMost2000Tokens) {
  EXPECT_EQ(text(chain("{{ 1", "+1", " }}", 2'005)), "1000");
  EXPECT_EQ(render(chain("\n{{ 1", "+1", " }}", 2'008), {}).reason(),
            "chat template: a tag has more than 2000 tokens (line 2)");
  EXPECT_EQ(text(chain("{% if 0 %}", "{% elif 0 %}", "{% else %}x{% endif %}",
                       262'144)),
            "x");
}

TEST(ChatTemplate, SourceAndTextAreLimited) {
  EXPECT_EQ(text(std::string(262'144, 'x')).size(), 262'144);
  EXPECT_EQ(render(std::string(262'145, 'x'), Json::object()).reason(),
            "chat template: 262145 bytes, more than the limit of 262144");
  EXPECT_EQ(text("{{ 'x' * 16777216 }}").size(), 16'777'216);
  for (const char* source :
       {"{{ 'x' * 16777216 }}x", "{{ 'x' * 100000000 }}",
        "{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}"}) {
    EXPECT_EQ(render(source, Json::object()).reason(),
              "chat template: its text has more than 16777216 bytes");
  }
}

TEST(ChatTemplates, NamedTemplates) {
  const Path dir = Path(testing::TempDir()) / "quern_named_templates";
  std::filesystem::create_directories(dir);
  write_file(dir / "tokenizer_config.json",
             R"({"chat_template": [{"name": "default", "template": "d"},
                 {"name": "tool_use", "template": "t"}]})")
      .or_throw();
  const auto templates = ChatTemplates::from_directory(dir).or_throw();
  EXPECT_EQ(*templates.select(false)->render(Json::object()), "d");
  EXPECT_EQ(*templates.select(true)->render(Json::object()), "t");
  write_file(dir / "chat_template.jinja", "j").or_throw();
  EXPECT_EQ(
      *ChatTemplates::from_directory(dir)->select(true)->render(Json::object()),
      "j");
  std::filesystem::remove_all(dir);
}

TEST(ChatTemplates, NoTemplateIsAReasonThatNamesTheFlag) {
  const auto none = ChatTemplates::from_source("").or_throw();
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(none.select(false).reason(), HasSubstr("--chat-template"));
}

}  // namespace
}  // namespace quern
