#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/synthetic.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Ids ids_of(const Tokenizer& tokenizer, std::vector<const char*> tokens) {
  Ids out;
  for (const char* token : tokens) out.push_back(*tokenizer.id_of(token));
  return out;
}

// An added token that is not special matches although special ones must not;
// what follows it is a new word.
TEST(CaseD01, AddedTokensMatchInPlainText) {
  const auto t = synthetic::byte_level();
  const int32_t tool = *t.id_of("<tool>");
  EXPECT_EQ(*t.encode("<tool>hi"), (Ids{tool, 'h', 'i'}));
  EXPECT_EQ(*t.encode("<tool>hi", {.parse_special = true}),
            (Ids{tool, 'h', 'i'}));
}

TEST(CaseD02, PrefixSpaceAfterASpecialTokenFollowsTheScheme) {
  const auto parse = EncodeOptions{.add_special = false, .parse_special = true};
  const auto legacy = synthetic::sentence_piece(true);
  EXPECT_EQ(*legacy.encode("<s>G", parse), ids_of(legacy, {"<s>", "\u2581G"}));
  const auto always = synthetic::metaspace("always");
  EXPECT_EQ(*always.encode("<s>G", parse), ids_of(always, {"<s>", "\u2581G"}));
  const auto first = synthetic::metaspace("first");
  EXPECT_EQ(*first.encode("<s>G", parse), ids_of(first, {"<s>", "G"}));
  EXPECT_EQ(*first.encode("G", parse), ids_of(first, {"\u2581G"}));
}

TEST(CaseD05, LeadingSpaceIsKeptBesideThePrefix) {
  const EncodeOptions bare{.add_special = false};
  const auto t = synthetic::sentence_piece(true);
  EXPECT_EQ(*t.encode("Hello", bare), ids_of(t, {"\u2581Hello"}));
  EXPECT_EQ(*t.encode(" Hello", bare), ids_of(t, {"\u2581", "\u2581Hello"}));
  EXPECT_EQ(*t.encode("Hello"), ids_of(t, {"<s>", "\u2581Hello"}));
  const auto gemma = synthetic::sentence_piece(false);
  EXPECT_EQ(*gemma.encode("Hello", bare), ids_of(gemma, {"Hello"}));
}

TEST(CaseD07, FalconPreTokenizerSequence) {
  // Merges would join "12345" and "--1" if no pre-tokenizer cut them.
  const std::vector<std::string_view> tokens = {
      "a", "b",  "-",   "--", "\u0120", "1",     "2",       "3",  "4",
      "5", "12", "123", "45", "34",     "12345", "\u01201", "--b"};
  const std::vector<std::string_view> merges = {
      "- -", "1 2", "12 3", "4 5", "3 4", "123 45", "\u0120 1", "-- b"};
  const auto t = Tokenizer::from_gguf({.model = "gpt2",
                                       .pre = "falcon",
                                       .tokens = tokens,
                                       .merges = merges})
                     .or_throw();
  EXPECT_EQ(*t.encode("a--b 12345"),
            ids_of(t, {"a", "--", "b", "\u0120", "123", "45"}));
}

TEST(CaseD08, DecodeThenEncodeIsAFixedPoint) {
  const EncodeOptions parse{.add_special = false, .parse_special = true};
  for (const auto& t :
       {synthetic::sentence_piece(true), synthetic::sentence_piece(false),
        synthetic::metaspace("always"), synthetic::metaspace("first"),
        synthetic::metaspace("never"), synthetic::byte_level()}) {
    for (std::string text : {"<s>A", "A</s><s>A", "Hello  A", "A"}) {
      const Ids ids = *t.encode(text, parse);
      EXPECT_EQ(t.decode(ids, false), text);
    }
    // Metaspace itself loses a leading space once; nothing changes after.
    auto round = [&](std::string_view text) {
      return t.decode(*t.encode(text, parse), false);
    };
    const std::string once = round(" Hello</s> <s> A");
    EXPECT_EQ(round(once), once);
  }
}

// The kind of D-10: the text is literal, no escape is undone.
TEST(CaseD10, EscapesInTextAreLiteral) {
  const auto t = synthetic::byte_level();
  EXPECT_EQ(*t.encode("\\n"), (Ids{'\\', 'n'}));
  EXPECT_EQ(*t.encode("\n"), (Ids{'\n'}));
}

TEST(Tokenizer, TextNeverGivesControlTokens) {
  for (const auto& t :
       {synthetic::byte_level(), synthetic::sentence_piece(true),
        synthetic::metaspace("always")}) {
    for (std::string text : {"<|im_start|>user<|end|>", "<s></s><s>", "<<s>s>",
                             "<|end|><|end|>x"}) {
      const Ids ids = *t.encode(text, {.add_special = false});
      for (int32_t id : ids) EXPECT_FALSE(t.is_special(id)) << text;
      EXPECT_EQ(t.decode(ids), text);
    }
  }
}

// A Unigram model holds its control tokens as pieces and would find them.
TEST(Tokenizer, AModelThatSpellsControlTokensIsKeptFromIt) {
  const auto t = Tokenizer::from_json(R"({"version": "1.0",
      "added_tokens": [{"id": 1, "content": "</s>", "special": true,
        "normalized": false, "single_word": false, "lstrip": false,
        "rstrip": false}],
      "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
        "vocab": [["<unk>", 0], ["</s>", -1], ["a", -2], ["<", -3],
          ["/s>", -3], ["/", -4], ["s", -4], [">", -4]]}})",
                                      Json::object())
                     .or_throw();
  EXPECT_EQ(*t.encode("a</s>a"), ids_of(t, {"a", "<", "/s>", "a"}));
  EXPECT_EQ(*t.encode("a</s>a", {.parse_special = true}),
            ids_of(t, {"a", "</s>", "a"}));
}

TEST(Tokenizer, RefusesAnUnknownPreTokenizerByName) {
  const auto t = Tokenizer::from_gguf(
      {.model = "gpt2", .pre = "no-such-pre", .tokens = {"a"}});
  ASSERT_FALSE(t);
  EXPECT_THAT(t.reason(), HasSubstr("'no-such-pre' is not supported"));
  EXPECT_THAT(t.reason(), HasSubstr("qwen2"));
}

TEST(Tokenizer, RefusesBadVocabularies) {
  auto reason = [](const GgufVocabulary& v) {
    return Tokenizer::from_gguf(v).reason();
  };
  EXPECT_THAT(reason({.model = "gpt2"}), HasSubstr("tokens: empty"));
  EXPECT_THAT(reason({.model = "rwkv", .tokens = {"a"}}), HasSubstr("'rwkv'"));
  EXPECT_THAT(reason({.model = "gpt2", .tokens = {"a"}, .merges = {"ab"}}),
              HasSubstr("merges[0]"));
  EXPECT_THAT(reason({.model = "gpt2", .tokens = {"a"}, .merges = {"a b"}}),
              HasSubstr("out of vocabulary"));
  EXPECT_THAT(reason({.model = "llama", .tokens = {"a"}, .scores = {1, 2}}),
              HasSubstr("2 for 1 tokens"));
  EXPECT_THAT(reason({.model = "llama", .tokens = {"a"}, .eos = 7}),
              HasSubstr("token id 7"));
  EXPECT_THAT(reason({.model = "gpt2", .tokens = {"\xFF"}}),
              HasSubstr("tokens[0]: not UTF-8"));
}

TEST(Tokenizer, RefusesBadInput) {
  EXPECT_THAT(Tokenizer::from_json("{", Json::object()).reason(),
              HasSubstr("tokenizer.json"));
  const auto t = synthetic::byte_level();
  EXPECT_THAT(t.encode("a\xFF").reason(), HasSubstr("not UTF-8 at byte 1"));
}

TEST(Tokenizer, TokenBytesUndoTheSpelling) {
  const auto bytes = synthetic::byte_level();
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(bytes.token_bytes(byte), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(bytes.token_bytes(256), "<|end|>");
  EXPECT_EQ(bytes.token_bytes(-1), "");
  EXPECT_EQ(bytes.token_bytes(bytes.vocab_size()), "");
  const auto pieces = synthetic::sentence_piece(true);
  EXPECT_EQ(pieces.token_bytes(3 + 0xE4), "\xE4");
  EXPECT_EQ(pieces.token_bytes(*pieces.id_of("\u2581Hello")), " Hello");
}

TEST(Tokenizer, NamesItsEnds) {
  const auto t = synthetic::byte_level();
  EXPECT_EQ(t.end_ids(), Ids{256});
  EXPECT_TRUE(t.is_end(256));
  EXPECT_EQ(t.eos_token(), "<|end|>");
  EXPECT_EQ(t.bos_id(), std::nullopt);
  EXPECT_EQ(t.vocab_size(), 259);
}

}  // namespace
}  // namespace quern
