#include "nn/config.h"

#include <gtest/gtest.h>

#include "base/error_of.h"

namespace quern {
namespace {

using test::error_of;

Config config(const char* text) {
  return Config(parse_json(text, "c.json").or_throw(), "c.json");
}

TEST(Config, ReadsFieldsOfTheirTypes) {
  const Config c =
      config(R"({"a": 5, "b": 2.0, "c": "x", "d": true, "e": 1.5, "f": null})");
  EXPECT_EQ(c.integer("a", 0, 10), 5);
  EXPECT_EQ(c.integer("b", 0, 10), 2);  // an integer written as 2.0
  EXPECT_EQ(c.text("c"), "x");
  EXPECT_TRUE(c.flag("d", false));
  EXPECT_EQ(c.real("e"), 1.5f);
  EXPECT_EQ(c.find("f"), nullptr);  // null is absent
  EXPECT_EQ(c.integer_if("f", 0, 1), std::nullopt);
  EXPECT_FALSE(c.flag("missing", false));
}

TEST(Config, TextConfigComesFirst) {
  const Config c = config(
      R"({"a": 1, "b": 2, "text_config": {"a": 3, "model_type": "inner"},
          "model_type": "outer"})");
  EXPECT_EQ(c.integer("a", 0, 9), 3);
  EXPECT_EQ(c.integer("b", 0, 9), 2);
  EXPECT_EQ(c.text("model_type"), "inner");
}

TEST(Config, RefusalsNameSourceFieldAndRange) {
  const Config c = config(R"({"a": 11, "b": 1.5, "c": "x", "d": 1})");
  EXPECT_EQ(error_of([&] { c.integer("a", 0, 10); }),
            "c.json: a must be an integer in [0, 10], got 11");
  EXPECT_EQ(error_of([&] { c.integer("b", 0, 10); }),
            "c.json: b must be an integer in [0, 10], got 1.5");
  EXPECT_EQ(error_of([&] { c.integer("c", 0, 10); }),
            "c.json: c must be an integer in [0, 10], got \"x\"");
  EXPECT_EQ(error_of([&] { c.integer("none", 0, 10); }),
            "c.json: none is missing");
  EXPECT_EQ(error_of([&] { c.flag("d", true); }),
            "c.json: d must be true or false");
  EXPECT_EQ(error_of([&] { c.text("d"); }), "c.json: d must be a string");
  EXPECT_EQ(error_of([&] { c.real("c"); }),
            "c.json: c must be a number, got \"x\"");
  EXPECT_EQ(error_of([] { Config(Json::array(), "c.json"); }),
            "c.json: expected an object");
}

}  // namespace
}  // namespace quern
