#include "text/stops.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

struct Outcome {
  std::vector<std::string> deltas;  // of each push, then of finish
  std::string text;                 // joined
  std::string stop;                 // empty: none
};

Outcome run(std::vector<std::string> stops,
            const std::vector<std::string>& pieces) {
  StopMatcher matcher(std::move(stops));
  Outcome out;
  for (const auto& piece : pieces) out.deltas.push_back(matcher.push(piece));
  out.deltas.push_back(matcher.finish());
  for (const auto& delta : out.deltas) out.text += delta;
  if (matcher.stopped()) out.stop = matcher.matched();
  return out;
}

TEST(CaseB01, NothingOfTheStopLeaks) {
  const auto out = run({"\nUser:"}, {"Alpha", "\nUs", "er", ": leak", " tail"});
  EXPECT_EQ(out.text, "Alpha");
  EXPECT_EQ(out.stop, "\nUser:");
}

TEST(CaseB04, HeldTextIsSentOnce) {
  const auto out = run({"\n", "Alice:"}, {" Alice", "!", "x"});
  EXPECT_EQ(out.deltas, (std::vector<std::string>{" ", "Alice!", "x", ""}));
  EXPECT_EQ(out.stop, "");
}

TEST(CaseB05, TextInFrontOfTheStopInOneToken) {
  const auto out = run({"\n"}, {"What", "?\n", "Next"});
  EXPECT_EQ(out.deltas, (std::vector<std::string>{"What", "?", "", ""}));
}

TEST(CaseB07, TheStopNamesItself) {
  const auto out = run({"?\n"}, {"Mars", "?\n"});
  EXPECT_EQ(out.text, "Mars");
  EXPECT_EQ(out.stop, "?\n");
}

// What the whole text gives: cut at the first place where a stop begins.
std::pair<std::string, std::string> whole(const std::vector<std::string>& stops,
                                          const std::string& text) {
  size_t cut = std::string::npos;
  std::string stop;
  for (const auto& s : stops) {
    const size_t at = text.find(s);
    if (at < cut) cut = at, stop = s;
  }
  return {text.substr(0, cut), stop};
}

TEST(StopMatcher, AnySplitGivesTheSameText) {
  const std::vector<std::string> stops = {"abab", "bb", "\xE4\xB8\xAD"};
  for (const std::string text :
       {"ababab", "aababb", "abaaba", "aaab", "x\xE4\xB8\xAD y", "bab", "abb",
        "aabaabab", "\xE4\xB8"}) {
    const auto [expected, stop] = whole(stops, text);
    for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      std::vector<std::string> pieces = {""};
      for (size_t i = 0; i < text.size(); ++i) {
        pieces.back() += text[i];
        if (cuts >> i & 1) pieces.push_back("");
      }
      const auto out = run(stops, pieces);
      EXPECT_EQ(out.text, expected) << text << " " << cuts;
      EXPECT_EQ(out.stop, stop) << text << " " << cuts;
    }
  }
}

// A longer stop that did not come about hides no other.
TEST(StopMatcher, StopsInsideWhatWasHeldBack) {
  const auto out = run({"Hello world!!", "ell"}, {"Hello", " world!"});
  EXPECT_EQ(out.deltas, (std::vector<std::string>{"", "", "H"}));
  EXPECT_EQ(out.stop, "ell");
}

TEST(StopMatcher, EmptyStopsMatchNothing) {
  EXPECT_EQ(run({"", ""}, {"a", "b"}).text, "ab");
  EXPECT_EQ(run({}, {"a"}).deltas, (std::vector<std::string>{"a", ""}));
}

TEST(StopMatcher, HoldsOnlyWhatMayBecomeAStop) {
  EXPECT_EQ(run({"</end>"}, {"a<", "/", "b", "</en"}).deltas,
            (std::vector<std::string>{"a", "", "</b", "", "</en"}));
}

}  // namespace
}  // namespace quern
