#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

TEST(ParseJson, KeepsTheOrderOfNames) {
  const char* text = R"({"b":[1,-2,0.5,"x",null,true],"a":{"c":{}}})";
  EXPECT_EQ(parse_json(text, "t").value().dump(), text);
}

TEST(ParseJson, OfEqualNamesTheLastHolds) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3})", "t").value().dump(),
            R"({"a":3,"b":2})");
}

// Objects of many names are checked in another way.
TEST(ParseJson, OfManyEqualNamesTheLastHolds) {
  std::string text = "{", expected = "{";
  for (int i = 0; i < 100; ++i) {
    text += fmt::format("\"{}\":{},", i, i);
    expected += fmt::format("\"{}\":{}{}", i, i == 40 || i == 3 ? -i : i,
                            i == 99 ? "}" : ",");
  }
  text += R"("40":0,"3":-3,"40":-40})";
  EXPECT_EQ(parse_json(text, "t").value().dump(), expected);
}

TEST(ParseJson, FaultsNameTheSource) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\\x\"",
                           "\"\xff\"", "[NaN]"}) {
    const auto json = parse_json(text, "file");
    ASSERT_FALSE(json) << text;
    EXPECT_THAT(json.reason(), HasSubstr("file: not valid JSON: "));
    EXPECT_EQ(json.reason().find("json.exception"), std::string::npos);
  }
}

TEST(ParseJson, AReasonIsAShortLineOfUtf8) {
  const auto json = parse_json("\"" + std::string(100'000, 'x') + "\n", "t");
  EXPECT_LT(json.reason().size(), 300u);
  EXPECT_TRUE(valid_utf8(parse_json("\"\xff\"", "t").reason()));
}

TEST(ParseJson, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return parse_json(std::string(depth, '[') + std::string(depth, ']'), "t");
  };
  EXPECT_TRUE(nested(256));
  EXPECT_THAT(nested(257).reason(), HasSubstr("256 levels"));
  EXPECT_FALSE(nested(1'000'000));
}

}  // namespace
}  // namespace quern::test
