#include "base/str.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Str, WellFormedUtf8) {
  for (const char* text : {"", "a\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(valid_utf8(text)) << text;
  }
}

// Long forms, surrogates, beyond U+10FFFF, cut and stray bytes.
TEST(Str, IllFormedUtf8) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2 ", "\xE0\x9F\xBF",
        "\xE1\x80", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "ab\xBF"}) {
    EXPECT_FALSE(valid_utf8(text)) << text;
  }
}

TEST(Str, OneLine) {
  EXPECT_EQ(on_one_line("a\n\x1B[31m'\xC3\xA9\xFF"),
            "a\\x0A\\x1B[31m'\xC3\xA9\\xFF");
}

TEST(Str, QuotesForOneLine) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\nb\x7F\xC3\xA9\xFF"), "'a\\x0Ab\\x7F\xC3\xA9\\xFF'");
  EXPECT_EQ(in_quotes("abcdef", 3), "'abc...'");
  EXPECT_EQ(in_quotes("a\xE4\xB8\xAD\xE4\xB8\xAD", 3), "'a\xE4\xB8\xAD...'");
}

}  // namespace
}  // namespace quern
