// The parts of the engine that need no model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/admission.h"
#include "engine/meter.h"
#include "engine/prefill_batch.h"
#include "engine/request_queue.h"

namespace quern::test {
namespace {

using testing::ElementsAre;
using Kind = Refusal::Kind;

// 1000 bytes of weights, 200 for steps, 10 a token.
MemoryNeeds needs() {
  return {
      .weights = 1000, .transients = 150, .reserve = 50, .row = [](int tokens) {
        return size_t(10) * tokens;
      }};
}

TEST(Admission, LongestRowIsWhatContextAndMemoryAllow) {
  EXPECT_EQ(Admission(needs(), 5000, 4096, 8).longest_row(), 380);
  EXPECT_EQ(Admission(needs(), 5000, 100, 8).longest_row(), 100);
  EXPECT_EQ(Admission(needs(), 5000, 0, 8).longest_row(), 380);
  EXPECT_THROW(Admission(needs(), 1219, 4096, 8), Error);
  EXPECT_EQ(Admission(needs(), 1220, 4096, 8).longest_row(), 2);
}

TEST(Admission, TellsTooLongFromOverBudget) {
  const Admission admission(needs(), 5000, 500, 8);
  EXPECT_FALSE(admission.refuse(379, -1));
  EXPECT_FALSE(admission.refuse(379, 7));
  EXPECT_FALSE(admission.refuse(380, 0));
  for (int prompt : {380, 499}) {
    const auto refusal = admission.refuse(prompt, 1);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->kind, Kind::over_budget);
    EXPECT_EQ(refusal->asked, prompt);
    EXPECT_EQ(refusal->most, 380);
  }
  const auto refusal = admission.refuse(int64_t(1) << 40, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, Kind::too_long);
  EXPECT_EQ(refusal->asked, int64_t(1) << 40);
  EXPECT_EQ(refusal->most, 500);
}

TEST(Admission, ClampsAnswersToTheRoom) {
  const Admission admission(needs(), 5000, 0, 8);
  EXPECT_EQ(admission.most_tokens(80, -1), 300);
  EXPECT_EQ(admission.most_tokens(80, 301), 300);
  EXPECT_EQ(admission.most_tokens(80, 7), 7);
  EXPECT_EQ(admission.most_tokens(80, 0), 0);
}

TEST(Admission, RowsWaitForMemoryAndForAPlace) {
  Admission admission(needs(), 5000, 0, 2);
  auto first = admission.reserve(200);
  ASSERT_TRUE(first);
  EXPECT_FALSE(admission.reserve(181));
  auto second = admission.reserve(180);
  ASSERT_TRUE(second);
  EXPECT_EQ(admission.reserved_bytes(), 3800u);
  first.reset();
  EXPECT_EQ(admission.reserved_bytes(), 1800u);
  first = admission.reserve(10);
  ASSERT_TRUE(first);
  EXPECT_FALSE(admission.reserve(1)) << "there are two places";
}

TEST(Admission, ReservationsGrowWhereThereIsRoom) {
  Admission admission(needs(), 5000, 0, 8);
  const auto first = admission.reserve(100), second = admission.reserve(200);
  EXPECT_TRUE(first->extend(180));
  EXPECT_EQ(first->tokens(), 180);
  EXPECT_FALSE(first->extend(181));
  EXPECT_EQ(first->tokens(), 180);
  EXPECT_EQ(admission.reserved_bytes(), 3800u);
}

// Every row is as wide as the longest.
TEST(Admission, PaddedRowsAreBilledByTheLongest) {
  MemoryNeeds padded = needs();
  padded.padded = true;
  Admission admission(padded, 5000, 0, 3);
  auto first = admission.reserve(100), second = admission.reserve(190);
  ASSERT_TRUE(second);
  EXPECT_EQ(admission.reserved_bytes(), 2 * 1900u);
  EXPECT_FALSE(admission.reserve(1)) << "three rows of 190";
  EXPECT_FALSE(first->extend(191));
  EXPECT_EQ(first->tokens(), 100);
  EXPECT_TRUE(first->extend(150)) << "no wider than the second";
  EXPECT_EQ(admission.reserved_bytes(), 2 * 1900u);
  second.reset();
  EXPECT_EQ(admission.reserved_bytes(), 1500u);
  second = admission.reserve(10);
  ASSERT_TRUE(second);
  EXPECT_EQ(admission.reserved_bytes(), 2 * 1500u);
  first.reset();
  EXPECT_EQ(admission.reserved_bytes(), 100u);
}

JobPtr job(int prompt = 1) {
  return std::make_shared<Job>(Job{.ticket = std::make_shared<Ticket>(),
                                   .decode = {.row = Row({}),
                                              .sampler = SamplerRow({}, 4),
                                              .position = 0,
                                              .left = 0},
                                   .prompt = prompt,
                                   .most = 0});
}

JobPtr take(RequestQueue& queue) {
  return queue.take([](const Job&) { return true; });
}

TEST(RequestQueue, FirstComeFirstServedAndAllOrNone) {
  RequestQueue queue(3);
  const JobPtr a = job(), b = job(), c = job();
  EXPECT_EQ(queue.push({a, b}), RequestQueue::Pushed::yes);
  EXPECT_EQ(queue.push({c, job()}), RequestQueue::Pushed::full);
  EXPECT_EQ(queue.waiting(), 2);
  EXPECT_EQ(queue.push({c}), RequestQueue::Pushed::yes);
  EXPECT_EQ(take(queue), a);
  EXPECT_EQ(queue.push({job()}), RequestQueue::Pushed::full)
      << "one that was taken counts until it ends";
  queue.ended();
  EXPECT_EQ(take(queue), b);
  EXPECT_EQ(take(queue), c);
  EXPECT_EQ(take(queue), nullptr);
}

TEST(RequestQueue, NobodyOvertakesOneThatDoesNotFit) {
  RequestQueue queue(3);
  const JobPtr large = job(100), small = job(1);
  queue.push({large, small});
  const auto fits = [](const Job& j) { return j.prompt < 50; };
  EXPECT_EQ(queue.take(fits), nullptr);
  large->ticket->cancel();
  EXPECT_THAT(queue.take_cancelled(), ElementsAre(large));
  EXPECT_EQ(queue.take(fits), small);
}

TEST(RequestQueue, CancelledOnesTakeNoPlaceAndKeepTheOrderOfTheRest) {
  RequestQueue queue(3);
  const JobPtr a = job(), b = job(), c = job(), d = job();
  queue.push({a, b, c});
  b->ticket->cancel();
  EXPECT_EQ(queue.push({d}), RequestQueue::Pushed::yes);
  EXPECT_THAT(queue.take_cancelled(), ElementsAre(b));
  EXPECT_EQ(take(queue), a);
  EXPECT_EQ(take(queue), c);
  EXPECT_EQ(take(queue), d);
}

TEST(RequestQueue, DrainsWhenTheLastHasEnded) {
  RequestQueue queue(2);
  queue.push({job()});
  EXPECT_FALSE(queue.drain(0));
  EXPECT_EQ(queue.push({job()}), RequestQueue::Pushed::closed);
  take(queue);
  EXPECT_FALSE(queue.drain(0.01));
  std::thread engine([&] { queue.ended(); });
  EXPECT_TRUE(queue.drain(60));
  engine.join();
}

TEST(RequestQueue, WaitsForARequestOrTheEnd) {
  RequestQueue queue(2);
  EXPECT_TRUE(queue.wait(true));
  std::thread caller([&] { queue.push({job()}); });
  EXPECT_TRUE(queue.wait(false));
  caller.join();
  queue.stop();
  EXPECT_FALSE(queue.wait(false));
  EXPECT_FALSE(queue.wait(true));
  EXPECT_EQ(queue.push({job()}), RequestQueue::Pushed::closed);
  EXPECT_EQ(queue.take_all().size(), 1u);
}

TEST(Prefill, SharesAChunkBetweenTheFirstAndTheShortest) {
  const auto shares = [](std::vector<int> lacking) {
    return share_out(lacking, 256);
  };
  EXPECT_THAT(shares({1000, 5}), ElementsAre(251, 5));
  EXPECT_THAT(shares({1000, 900, 200}), ElementsAre(128, 0, 128));
  EXPECT_THAT(shares({1000, 100, 90}), ElementsAre(128, 38, 90));
  EXPECT_THAT(shares({100, 100, 100, 1}), ElementsAre(100, 100, 55, 1));
  EXPECT_THAT(shares({7}), ElementsAre(7));
  EXPECT_THAT(shares({}), ElementsAre());
}

TEST(Meter, CountsASecondOverTheLastSeconds) {
  Meter meter;
  EXPECT_EQ(meter.rate(7), 0);
  // 40 a second from 100.0 to 110.0.
  for (int i = 0; i < 400; i++) meter.add(100 + i * 0.025, 1);
  EXPECT_NEAR(meter.rate(110), 40, 0.5);
  EXPECT_NEAR(meter.rate(112.5), 20, 1.5);
  EXPECT_EQ(meter.rate(116), 0);
  // From the first after a silence on, not over the whole window.
  for (int i = 0; i <= 40; i++) meter.add(200 + i * 0.025, 1);
  EXPECT_NEAR(meter.rate(201), 41, 0.5);
}

}  // namespace
}  // namespace quern::test
