#include "text/reply_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "text/reply_cases.h"

namespace quern {
namespace {

using reply::call;
using reply::content;
using reply::join;
using reply::kClose;
using reply::kOpen;
using reply::Pieces;
using reply::reasoning;
using reply::run;
using reply::Token;
using reply::Tokens;

// Tags that are text, and tags that are tokens.
ReplyFormat spelled() { return reply::format(false); }
ReplyFormat tokens() { return reply::format(true); }

struct ReplyCase {
  const char* name;
  ReplyFormat format;
  Tokens tokens;
  Pieces expected;
  bool inside_reasoning = false;
  bool raw = false;
  std::shared_ptr<const Json> tools = reply::tools();
};

void PrintTo(const ReplyCase& c, std::ostream* out) { *out << c.name; }

class Cases : public ::testing::TestWithParam<ReplyCase> {};

// As it came, all at once, and a character at a time: the same.
TEST_P(Cases, SplitTheSameHoweverTheyCome) {
  const ReplyCase& c = GetParam();
  for (const Tokens& cut :
       {c.tokens, reply::merged(c.tokens), reply::characters(c.tokens)}) {
    const auto out =
        run(ReplyParser(c.format, c.tools, c.inside_reasoning, c.raw), cut);
    EXPECT_EQ(join(out), c.expected) << cut.size() << " tokens";
    for (const auto& piece : out) {
      EXPECT_EQ(piece.text.empty(), piece.kind == ReplyPiece::Kind::tool_call);
    }
  }
}

const char kWx[] =
    R"(<tool_call>{"name": "get_wx", "arguments": {"city": "Oslo"}}</tool_call>)";
const std::shared_ptr<const Json> kNone = nullptr;

const ReplyCase kCases[] = {
    // A name outside the list is no call, whatever it stands in.
    {"F10_ProseIsContent",
     spelled(),
     {{R"(Meet {"name": "Bingo", "age": 30}!)"}},
     {content(R"(Meet {"name": "Bingo", "age": 30}!)")}},
    {"F10_UndeclaredNameIsContent",
     spelled(),
     {{"See\n<tool_call>\n"},
      {R"({"name": "Bingo", "arguments": {}})"},
      {"\n</tool_call>\nDone"}},
     {content("See\n<tool_call>\n{\"name\": \"Bingo\", \"arguments\": {}}\n"
              "</tool_call>\nDone")}},
    {"F10_NoToolsNoCalls",
     spelled(),
     {{kWx}},
     {content(kWx)},
     false,
     false,
     kNone},
    {"F10_EmptyListOfTools",
     spelled(),
     {{kWx}},
     {content(kWx)},
     false,
     false,
     std::make_shared<const Json>(Json::array())},
    // What begins no call is passed on at once, and what follows it as well.
    {"F11_ProseAfterAnOpener",
     spelled(),
     {{"Write <tool_call>, then "}, {kWx}, {" Done"}},
     {content("Write <tool_call>, then "),
      call("get_wx", R"({"city": "Oslo"})"), content(" Done")}},
    {"F20_Hermes",
     spelled(),
     {{"<tool"},
      {"_call>\n"},
      {"{\"name"},
      {"\": \"f\", \"argu"},
      {"ments\": {\"g\": \"说明"},
      {"在\", \"n\": {\"a\""},
      {": [1, 2]}}}"},
      {"\n</tool_"},
      {"call>"}},
     {call("f", R"({"g": "说明在", "n": {"a": [1, 2]}})")}},
    {"F22_TextThenTwoCalls",
     spelled(),
     {{"Let me see. "}, {kWx}, {kWx}},
     {content("Let me see. "), call("get_wx", R"({"city": "Oslo"})"),
      call("get_wx", R"({"city": "Oslo"})")}},
    {"F22_ReasoningTextAndTwoCalls",
     tokens(),
     {kOpen, {"\nhm\n"}, kClose, {"\n\nLet me see.\n"}, {kWx}, {"\n"}, {kWx}},
     {reasoning("hm"), content("Let me see."),
      call("get_wx", R"({"city": "Oslo"})"),
      call("get_wx", R"({"city": "Oslo"})")}},
    {"F05_StrayCloserIsContent",
     spelled(),
     {{kWx}, {"</tool_call>"}},
     {call("get_wx", R"({"city": "Oslo"})"), content("</tool_call>")}},
    {"G01_PromptClosedTheReasoning",
     tokens(),
     {{"answer"}},
     {content("answer")}},
    {"G02_TheTokenClosesNotTheText",
     tokens(),
     {kOpen,
      {"the tag `</"},
      {"think"},
      {">` closes it. ok"},
      kClose,
      {"answer"}},
     {reasoning("the tag `</think>` closes it. ok"), content("answer")}},
    {"G02_TagsInContentAreText",
     tokens(),
     {{"Write <think> and </think>."}},
     {content("Write <think> and </think>.")}},
    {"G04_PrefilledOpener",
     spelled(),
     {{"internal"}, {" reasoning</thi"}, {"nk>answer"}},
     {reasoning("internal reasoning"), content("answer")},
     true},
    {"G04_PrefilledOpenerToken",
     tokens(),
     {{"internal"}, {" reasoning"}, kClose, {"answer"}},
     {reasoning("internal reasoning"), content("answer")},
     true},
    {"G04_PrefilledOpenerWrittenAgain",
     spelled(),
     {{"<think>\nr</think>a"}},
     {reasoning("r"), content("a")},
     true},
    {"G04_PrefilledOpenerTokenWrittenAgain",
     tokens(),
     {kOpen, {"\nr"}, kClose, {"a"}},
     {reasoning("r"), content("a")},
     true},
    {"G05_Raw",
     spelled(),
     {{"<thi"}, {"nk>r\n"}, {"</think>\n\n"}, {"a"}},
     {content("<think>r\n</think>\n\na")},
     false,
     true,
     kNone},
    {"G05_RawTokens",
     tokens(),
     {kOpen, {"r\n"}, kClose, {"\n\na"}},
     {content("<think>r\n</think>\n\na")},
     false,
     true,
     kNone},
    {"G05_RawPrefilled",
     tokens(),
     {{"\nr"}, kClose, {"a"}},
     {content("<think>\nr</think>a")},
     true,
     true,
     kNone},
    {"G05_RawPrefilledSpelled",
     spelled(),
     {{"\nr</think>a"}},
     {content("<think>\nr</think>a")},
     true,
     true,
     kNone},
    {"G05_RawKeepsCallsOutOfReasoning",
     spelled(),
     {{"<think>"}, {kWx}, {"</think>\n\n"}, {kWx}},
     {content(std::string("<think>") + kWx + "</think>"),
      call("get_wx", R"({"city": "Oslo"})")},
     false,
     true},
    {"G07_ReasoningBesideTools",
     tokens(),
     {kOpen, {"r"}, kClose, {kWx}},
     {reasoning("r"), call("get_wx", R"({"city": "Oslo"})")}},
    {"G07_CallsInReasoningAreReasoning",
     spelled(),
     {{"<think>"}, {kWx}, {"</think>a"}},
     {reasoning(kWx), content("a")}},
    {"K17_ReasoningAfterACall",
     spelled(),
     {{"<think>a</think>b\n"}, {kWx}, {"\n<think>c</think>"}},
     {reasoning("a"), content("b"), call("get_wx", R"({"city": "Oslo"})"),
      reasoning("c")}},
    {"R08_CutCall",
     spelled(),
     {{R"(<tool_call>{"name":"get_wx","arguments":{"ci)"}},
     {content(R"(<tool_call>{"name":"get_wx","arguments":{"ci)")}},
    {"R08_CutOpener", spelled(), {{"a\n<tool_c"}}, {content("a\n<tool_c")}},
    {"R08_InvalidJson",
     spelled(),
     {{R"(<tool_call>{"name":"get_wx","arguments":{city: 1}}</tool_call>)"}},
     {content(
         R"(<tool_call>{"name":"get_wx","arguments":{city: 1}}</tool_call>)")}},
    {"R08_InvalidThenValid",
     spelled(),
     {{"<tool_call>{]</tool_call>\n"}, {kWx}},
     {content("<tool_call>{]</tool_call>"),
      call("get_wx", R"({"city": "Oslo"})")}},
    {"R08_CallWithoutCloserIsComplete",
     spelled(),
     {{R"(<tool_call>{"name":"get_wx","arguments":{"city":"Oslo"}})"}},
     {call("get_wx", R"({"city":"Oslo"})")}},
    {"R08_NextOpenerEndsACall",
     spelled(),
     {{"<tool_call>\n{\"name\":\"f\"}\n"}, {kWx}},
     {call("f", "{}"), call("get_wx", R"({"city": "Oslo"})")}},
    {"R08_CutCallThenValid",
     spelled(),
     {{"<tool_call>{\"name\": \n"}, {kWx}},
     {content("<tool_call>{\"name\": "),
      call("get_wx", R"({"city": "Oslo"})")}},
    {"R08_BrokenStringThenValid",
     spelled(),
     {{R"(<tool_call>{"name": "f}</tool_call> x )"}, {kWx}, {"\n!"}},
     {content(R"(<tool_call>{"name": "f}</tool_call> x )"),
      call("get_wx", R"({"city": "Oslo"})"), content("!")}},
    {"R11_ArgumentsInAString",
     spelled(),
     {{R"(<tool_call>{"name": "get_wx", "arguments": )"
       R"("{\"city\": \"Oslo\"}"}</tool_call>)"}},
     {call("get_wx", R"({"city": "Oslo"})")}},
    {"R13_CloserWithoutOpener",
     spelled(),
     {{"secret plan</think>visible"}},
     {content("secret plan</think>visible")}},
    {"R13_CloserTokenWithoutOpener",
     tokens(),
     {{"secret plan"}, kClose, {"visible"}},
     {content("secret plan</think>visible")}},
    {"TagsInAStringOfACallAreText",
     spelled(),
     {{R"(<tool_call>{"name": "f", "arguments": {"s": "\"</tool_call>)"
       R"(<tool_call>"}}</tool_call>)"}},
     {call("f", R"({"s": "\"</tool_call><tool_call>"})")}},
    {"ThinkTokensInACallAreText",
     tokens(),
     {{R"(<tool_call>{"name": "f", "arguments": {"s": ")"},
      kOpen,
      kClose,
      {R"("}}</tool_call>)"}},
     {call("f", R"({"s": "<think></think>"})")}},
    {"TagsAmidTextAreText",
     spelled(),
     {{"Use <think> first."}},
     {content("Use <think> first.")}},
    {"OpenReasoningGoesToTheEnd",
     spelled(),
     {{"\n<think>\n a\n\nb </thi"}},
     {reasoning(" a\n\nb </thi")}},
    {"EmptyReasoningIsNone",
     tokens(),
     {kOpen, {"\n\n"}, kClose, {"\n\na"}},
     {content("a")}},
    {"SpacesAreKept",
     spelled(),
     {{"<think> r </think>\n\n    code\n"}},
     {reasoning(" r "), content("    code\n")}},
    {"LineBreaksOfContentAreKept",
     spelled(),
     {{"\n\na\n\n"}, {"\n<b\n"}},
     {content("\n\na\n\n\n<b\n")}},
    {"LineBreaksAroundACallAreDropped",
     spelled(),
     {{"a\n\n"}, {kWx}, {"\n\n"}},
     {content("a"), call("get_wx", R"({"city": "Oslo"})")}},
    {"NothingIsNothing", tokens(), {{""}}, {}},
};

INSTANTIATE_TEST_SUITE_P(, Cases, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// The pieces of each push: what is shown, and when.
std::vector<std::string> shown(ReplyParser parser, const Tokens& tokens) {
  std::vector<std::string> out;
  for (const Token& token : tokens) {
    out.emplace_back();
    for (const auto& p : parser.push(token.id, token.text)) {
      out.back() +=
          p.kind == ReplyPiece::Kind::tool_call ? p.call.name : p.text;
    }
  }
  return out;
}

TEST(ReplyParser, HoldsBackOnlyWhatMayBeATag) {
  using Shown = std::vector<std::string>;
  const auto format = spelled();
  EXPECT_EQ(shown(ReplyParser(format, nullptr, false),
                  {{"<"}, {"b>\n\n"}, {"<think"}, {"\n"}}),
            (Shown{"", "<b>\n\n", "<think", "\n"}));
  EXPECT_EQ(shown(ReplyParser(format, nullptr, true),
                  {{"a </"}, {"b </think"}, {">"}, {"\n"}, {"c\n"}}),
            (Shown{"a ", "</b ", "", "", "c\n"}));
  EXPECT_EQ(shown(ReplyParser(format, reply::tools(), false),
                  {{"a\n"},
                   {"\nb <tool"},
                   {"s> <tool_call> "},
                   {"x"},
                   {"<tool_call>{\"name\":"},
                   {"\"f\"}"},
                   {"</tool_call>"}}),
            (Shown{"a", "\n\nb ", "<tools> ", "<tool_call> x", "", "", "f"}));
}

TEST(ReplyParser, TellsWhetherItIsInsideReasoning) {
  const auto format = spelled();
  ReplyParser parser(format, nullptr, false);
  parser.push(-1, "<think");
  EXPECT_FALSE(parser.in_reasoning());
  parser.push(-1, ">");
  EXPECT_TRUE(parser.in_reasoning());
  parser.push(-1, "</think>");
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_TRUE(ReplyParser(format, nullptr, true).in_reasoning());
}

// A call that never ends is text from CallScan::kLongest on.
TEST(ReplyParser, HoldsABoundedCall) {
  const auto format = spelled();
  ReplyParser parser(format, reply::tools(), false);
  std::string text = "<tool_call>{\"";
  text.append(CallScan::kLongest - text.size(), 'a');
  EXPECT_TRUE(parser.push(-1, text).empty());
  EXPECT_EQ(join(parser.push(-1, "b")), (Pieces{content(text + "b")}));
  EXPECT_EQ(join(parser.push(-1, kWx)),
            (Pieces{call("get_wx", R"({"city": "Oslo"})")}));
}

// Text that opens calls, breaks strings and closes them, over and over: ten
// times the text takes about ten times as long.
TEST(ReplyParser, IsLinearInTheReply) {
  const auto format = spelled();
  const auto seconds = [&](const std::string& unit, size_t size) {
    std::string text = "<tool_call>{\"";
    while (text.size() < size) text += unit;
    const Tokens tokens = reply::characters({{text}});
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();  // other programs do not count
      run(ReplyParser(format, reply::tools(), false), tokens);
      best = std::min(best, double(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  for (const std::string unit :
       {"</tool_call><tool_call>[", "</tool_call><tool_call>\"",
        "<tool_call>{\"</tool_call>", "<tool_call>", "<tool_call>{\"",
        "<tool_call>{\"</tool_call>\n", "</think>\n<", "{\"a\":[",
        "<tool_call>{\"</tool_call>\"</tool_call>"}) {
    const double small = seconds(unit, 20'000), large = seconds(unit, 200'000);
    EXPECT_LT(large, 30 * small + 0.01) << unit;
  }
}

// Tags of calls that are special tokens have no text of their own.
TEST(ReplyParser, SpecialTokensOpenAndCloseCalls) {
  ReplyFormat format = spelled();
  format.special_tags = {{"<tool_call>", 7}, {"</tool_call>", 8}};
  const Tokens tokens = {{"a\n"}, {"", 7}, {R"({"name": "f"})"}, {"", 8}, {"b"},
                         {"", 7}, {"c"}};
  EXPECT_EQ(join(run(ReplyParser(format, reply::tools(), false), tokens)),
            (Pieces{content("a"), call("f", "{}"), content("b<tool_call>c")}));
}

}  // namespace
}  // namespace quern
