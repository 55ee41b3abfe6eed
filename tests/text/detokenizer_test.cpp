#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "text/synthetic.h"

namespace quern {
namespace {

constexpr char kBad[] = "\xEF\xBF\xBD";  // U+FFFD

// The text of a byte string, pushed in pieces of n bytes.
std::string stream(std::string_view bytes, size_t n) {
  Utf8Stream utf8;
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(n, bytes.size()))) {
    out += utf8.push(bytes.substr(0, n));
  }
  return out + utf8.finish();
}

std::string repeat(std::string_view text, int n) {
  std::string out;
  while (n--) out += text;
  return out;
}

TEST(Utf8Stream, HoldsAnIncompleteTail) {
  Utf8Stream utf8;
  EXPECT_EQ(utf8.push("a\xE4\xB8"), "a");
  EXPECT_EQ(utf8.push("\xAD"), "\xE4\xB8\xAD");
  EXPECT_EQ(utf8.push("\xE4\xB8"), "");
  EXPECT_EQ(utf8.push(" x"), std::string(kBad) + " x");
  EXPECT_EQ(utf8.push("\xF0\x9F\x99"), "");
  EXPECT_EQ(utf8.finish(), kBad);
  EXPECT_EQ(utf8.finish(), "");
}

// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11: how
// many U+FFFD stand for the invalid bytes.
TEST(Utf8Stream, MaximalSubpartsOfTheStandard) {
  struct {
    const char* bytes;
    std::string text;
  } cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", repeat(kBad, 8) + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", repeat(kBad, 8) + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
       repeat(kBad, 5) + "A" + repeat(kBad, 2) + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", repeat(kBad, 4) + "A"},
  };
  for (const auto& c : cases) {
    for (size_t n = 1; n < 10; ++n) EXPECT_EQ(stream(c.bytes, n), c.text);
  }
}

TEST(CaseC08, InvalidSequencesBecomeReplacements) {
  struct {
    std::string_view bytes;
    int replacements;  // one for each maximal part
  } cases[] = {
      {"\xC0\x80", 2},
      {"\xC1\xBF", 2},
      {"\xE0\x80\xAF", 3},
      {"\xE0\x9F\xBF", 3},
      {"\xF0\x80\x80\xAF", 4},
      {"\xF0\x8F\xBF\xBF", 4},
      {"\xED\xA0\x80", 3},
      {"\xED\xBF\xBF", 3},
      {"\xED\xA0\xBD\xED\xB9\x82", 6},
      {"\xF4\x90\x80\x80", 4},
      {"\xF5\x80\x80\x80", 4},
      {"\xF7\xBF\xBF\xBF", 4},
  };
  for (const auto& c : cases) {
    for (size_t n = 1; n < 8; ++n) {
      EXPECT_EQ(stream(c.bytes, n), repeat(kBad, c.replacements));
    }
  }
}

std::vector<std::string> deltas(const Tokenizer& tokenizer,
                                std::vector<int32_t> ids) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> out;
  for (int32_t id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

using Texts = std::vector<std::string>;

TEST(CaseC01, TailBeforeASpaceIsHeldThenReplaced) {
  const auto bytes = synthetic::byte_level();
  EXPECT_EQ(deltas(bytes, {0xE4, 0xB8, ' '}),
            (Texts{"", "", std::string(kBad) + " ", ""}));
  EXPECT_EQ(deltas(bytes, {0xE4, 0xB8, 0xAD}),
            (Texts{"", "", "\xE4\xB8\xAD", ""}));
  EXPECT_EQ(deltas(bytes, {0xE4, 0xB8}), (Texts{"", "", kBad}));
}

TEST(CaseC02, FourByteTokensGiveOneDelta) {
  EXPECT_EQ(deltas(synthetic::byte_level(), {0xF0, 0x9F, 0x99, 0x82}),
            (Texts{"", "", "", "\xF0\x9F\x99\x82", ""}));
}

TEST(CaseC04, DeltasAreCodePointsNotGraphemes) {
  const auto bytes = synthetic::byte_level();
  EXPECT_EQ(deltas(bytes, {'e', 0xCC, 0x81, 'x'}),
            (Texts{"e", "", "\xCC\x81", "x", ""}));
  // White flag, variation selector, joiner, rainbow.
  const std::string flag =
      "\xF0\x9F\x8F\xB3\xEF\xB8\x8F\xE2\x80\x8D\xF0\x9F\x8C\x88";
  Detokenizer detokenizer(bytes);
  std::string text;
  for (unsigned char byte : flag) text += detokenizer.push(byte);
  EXPECT_EQ(text + detokenizer.finish(), flag);
}

// The kind of C-05: two tokens that share a character.
TEST(CaseC05, NothingUntilTheCharacterIsComplete) {
  EXPECT_EQ(deltas(synthetic::byte_level(), {' ', 0xF0, 0x9F, 0x98, 0x80}),
            (Texts{" ", "", "", "", "\xF0\x9F\x98\x80", ""}));
}

TEST(CaseC07, AStrayByteIsOneReplacement) {
  const auto bytes = synthetic::byte_level();
  Detokenizer detokenizer(bytes);
  std::string text;
  for (unsigned char byte : std::string_view("bad \xFF byte")) {
    text += detokenizer.push(byte);
  }
  EXPECT_EQ(text, "bad \xEF\xBF\xBD byte");
}

TEST(Detokenizer, SkipsSpecialTokens) {
  const auto bytes = synthetic::byte_level();
  const int32_t end = *bytes.id_of("<|end|>");
  EXPECT_EQ(bytes.decode(std::vector<int32_t>{'a', end, 'b'}), "ab");
  EXPECT_EQ(bytes.decode(std::vector<int32_t>{'a', end, 'b'}, false),
            "a<|end|>b");
  EXPECT_EQ(bytes.decode(std::vector<int32_t>{-1, 'a', 1 << 30}), "a");
}

}  // namespace
}  // namespace quern
