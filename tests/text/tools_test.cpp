#include <gtest/gtest.h>

#include "text/reply_cases.h"
#include "text/tools/call_scan.h"
#include "text/tools/json_slices.h"
#include "text/tools/tool_syntax.h"

namespace quern {
namespace {

const ToolSyntax& syntax(std::string_view name) {
  for (const ToolSyntax& one : tool_syntaxes()) {
    if (one.name == name) return one;
  }
  fail("[tools_test] no form {}", name);
}

struct SpanCase {
  const char* name;
  std::string body;             // between the tags
  std::vector<ToolCall> calls;  // none: not in the form
};

void PrintTo(const SpanCase& c, std::ostream* out) { *out << c.name; }

class Hermes : public ::testing::TestWithParam<SpanCase> {};

TEST_P(Hermes, CallsOfASpan) {
  const auto& [name, body, calls] = GetParam();
  const auto parse = syntax("hermes").parse;
  for (const std::string& span :
       {"<tool_call>" + body + "</tool_call>", "<tool_call>" + body,
        "<tool_call>\n " + body + " \r\n\t</tool_call>"}) {
    const auto out = parse(span, *reply::tools());
    EXPECT_EQ(out.has_value(), !calls.empty()) << span;
    EXPECT_EQ(out.value_or(std::vector<ToolCall>{}), calls) << span;
  }
}

const SpanCase kHermes[] = {
    {"F20_AsWritten",
     R"({"name": "f", "arguments": {"g": "说明在",  "n": 1.50}})",
     {{"f", R"({"g": "说明在",  "n": 1.50})"}}},
    {"F20_OrderAndNumbers",
     R"({"arguments":{"z":12345678901234567890123,"a":1e400},"name":"f"})",
     {}},  // 1e400 is out of range: not what a client could read
    {"F20_BigNumbersAreKept",
     R"({"arguments":{"z":12345678901234567890123,"a":[]},"name":"f"})",
     {{"f", R"({"z":12345678901234567890123,"a":[]})"}}},
    {"F20_EscapesAreKept",
     R"({"name":"\u0066","arguments":{"a":"\u00e9\"}{\\","b":"[,"}})",
     {{"f", R"({"a":"\u00e9\"}{\\","b":"[,"})"}}},
    {"F10_Undeclared", R"({"name": "Bingo", "arguments": {}})", {}},
    {"F10_NameMissing", R"({"arguments": {}})", {}},
    {"F10_NameIsNoString", R"({"name": ["f"], "arguments": {}})", {}},
    {"R08_Empty", "", {}},
    {"R08_Cut", R"({"name":"f","arguments":{"ci)", {}},
    {"R08_BareKey", R"({"name":"f","arguments":{city: 1}})", {}},
    {"R08_TextBehind", R"({"name":"f","arguments":{}} ok)", {}},
    {"R08_NoObject", R"("f")", {}},
    {"R08_Number", "1", {}},
    {"R08_RawLineBreakInAString",
     "{\"name\":\"f\",\"arguments\":{\"a\":\"\n\"}}",
     {}},
    {"R08_HalfASurrogate", R"({"name":"f","arguments":{"a":"\ud800"}})", {}},
    {"R11_InAString",
     R"({"name":"f","arguments":"{\"city\": \"Oslo\"}"})",
     {{"f", R"({"city": "Oslo"})"}}},
    {"R11_InAStringWithSpace",
     R"({"name":"f","arguments":" {\"a\":\n1}\n"})",
     {{"f", "{\"a\":\n1}"}}},
    {"R11_EmptyString", R"({"name":"f","arguments":""})", {{"f", "{}"}}},
    {"R11_StringOfNoObject", R"({"name":"f","arguments":"Oslo"})", {}},
    {"R11_StringOfAList", R"({"name":"f","arguments":"[1]"})", {}},
    {"R11_StringOfACutObject", R"({"name":"f","arguments":"{\"a\":"})", {}},
    {"ArgumentsMissing", R"({"name":"f"})", {{"f", "{}"}}},
    {"ArgumentsNull", R"({"name":"f","arguments":null})", {{"f", "{}"}}},
    {"ArgumentsNoObject", R"({"name":"f","arguments":[1]})", {}},
    {"ArgumentsFalse", R"({"name":"f","arguments":false})", {}},
    {"Parameters",
     R"({"name":"f","parameters":{"a":1}})",
     {{"f", R"({"a":1})"}}},
    {"ArgumentsBeforeParameters",
     R"({"parameters":{"a":1},"name":"f","arguments":{"a":2}})",
     {{"f", R"({"a":2})"}}},
    {"OtherMembersAreIgnored",
     R"({"id":{"name":"x"},"type":"function","name":"f","arguments":{}})",
     {{"f", "{}"}}},
    {"List",
     R"([{"name":"f"}, {"name":"get_wx","arguments":{"city":"Rome"}}])",
     {{"f", "{}"}, {"get_wx", R"({"city":"Rome"})"}}},
    {"EmptyList", "[]", {}},
    {"ListWithAnUndeclaredName", R"([{"name":"f"},{"name":"g"}])", {}},
    {"ListOfNoObjects", "[1]", {}},
    {"ListOfLists", R"([[{"name":"f"}]])", {}},
    {"EmptyObject", "{}", {}},
    {"TooDeep",
     R"({"name":"f","arguments":{"a":)" + std::string(300, '[') +
         std::string(300, ']') + "}}",
     {}},
};

INSTANTIATE_TEST_SUITE_P(Cases, Hermes, ::testing::ValuesIn(kHermes),
                         [](const auto& info) { return info.param.name; });

TEST(ToolSyntaxes, TheLastIsForAllTemplates) {
  EXPECT_TRUE(tool_syntaxes().back().template_marks.empty());
}

TEST(ToolSyntaxes, NamesOfMalformedToolsAreNotDeclared) {
  const Json tools = {1,
                      nullptr,
                      Json::object(),
                      {{"function", "f"}},
                      {{"function", {{"name", 1}}}},
                      {{"function", {{"name", "g"}}}}};
  EXPECT_FALSE(declares(tools, "f"));
  EXPECT_TRUE(declares(tools, "g"));
  EXPECT_FALSE(declares(nullptr, "g"));
}

TEST(JsonSlices, MembersAndElementsAsWritten) {
  using Members = std::vector<std::pair<std::string, std::string_view>>;
  EXPECT_EQ(json_members(R"( { "a" : 1.0 ,"\u0062":"x\\\"}", "c":{"d":[1,"]"]}
    ,"e":null})"),
            (Members{{"a", "1.0"},
                     {"b", R"("x\\\"}")"},
                     {"c", R"({"d":[1,"]"]})"},
                     {"e", "null"}}));
  EXPECT_EQ(json_members("{}"), Members{});
  EXPECT_EQ(
      json_elements(" [ 1 , [2,3],{\"a\":\"]\"},-1e5]"),
      (std::vector<std::string_view>{"1", "[2,3]", "{\"a\":\"]\"}", "-1e5"}));
  EXPECT_EQ(json_elements("[]"), std::vector<std::string_view>{});
}

TEST(CallScan, ASpanHasAMostSizeOfWholeCharacters) {
  const ToolSyntax& hermes = syntax("hermes");
  CallScan scan(hermes, hermes.spans[0], true);
  std::string text = "<tool_call>{\"";
  while (text.size() < CallScan::kLongest - 1) text += 'a';
  text += "é";
  EXPECT_EQ(scan.end(text, false), CallScan::kLongest - 1);
}

}  // namespace
}  // namespace quern
