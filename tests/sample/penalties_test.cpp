#include "sample/penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(TokenWindow, ForgetsWhatLeavesIt) {
  TokenWindow window(3);
  std::vector<int32_t> history;
  for (int32_t token : {5, 7, 5, 9, 5, 5}) {
    history.push_back(token);
    window.accept(history);
  }
  EXPECT_THAT(window.counts(), UnorderedElementsAre(Pair(9, 1), Pair(5, 2)));
}

TEST(TokenWindow, SizeZeroForgetsNothing) {
  TokenWindow window(0);
  std::vector<int32_t> history;
  for (int32_t token : {5, 7, 5, 9, 5, 5}) {
    history.push_back(token);
    window.accept(history);
  }
  EXPECT_THAT(window.counts(),
              UnorderedElementsAre(Pair(9, 1), Pair(7, 1), Pair(5, 4)));
}

TEST(Penalties, EachInItsTurn) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  Penalties penalties(params);
  for (int32_t token : {0, 1, 1, 1}) penalties.accept(token);
  std::vector<float> logits = {4, -4, 1};
  penalties.apply(logits);
  // 4 / 2 - 0.5 - 0.25; -4 * 2 - 0.5 - 3 * 0.25
  EXPECT_THAT(logits, ElementsAre(1.25f, -9.25f, 1));
}

TEST(Penalties, PassOverTokensWithoutALogit) {
  SamplingParams params;
  params.presence_penalty = 1;
  Penalties penalties(params);
  for (int32_t token : {-200, 1, 1000000}) penalties.accept(token);
  std::vector<float> logits = {0, 0, 0};
  penalties.apply(logits);
  EXPECT_THAT(logits, ElementsAre(0, -1, 0));
}

}  // namespace
}  // namespace quern
