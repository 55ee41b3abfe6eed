// The engine with its rows in merged buffers: --batch-layout merged.
#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <future>

#include "engine/prompt_scores.h"
#include "engine/recorder.h"
#include "engine/row_checks.h"
#include "engine/tiny_model.h"
#include "plan/memory_plan.h"

namespace quern::test {
namespace {

constexpr int kVocabulary = 96;  // of the tiny models
constexpr auto kMerged = BatchLayout::merged;

KvScheme every_layer(const char* codec) {
  return {parse_kv_codec(codec), parse_kv_codec(codec)};
}

// Short and long prompts and answers; every second one is drawn.
Ask mixed_ask(int i) {
  Ask ask{.prompt = random_ids(i % 5 == 0 ? 150 + i : 1 + i * 7 % 40,
                               kVocabulary, 100 + i),
          .max_tokens = 1 + i * 11 % 40};
  if (i % 2) ask.sampling = {.temperature = 0.8f, .seed = uint64_t(i)};
  if (i % 3 == 1) ask.end_ids = {int32_t(i), 5};
  ask.sampling.logprobs = 2;
  return ask;
}

std::vector<int32_t> ids_of(const std::vector<Sampled>& tokens) {
  std::vector<int32_t> ids;
  for (const Sampled& s : tokens) ids.push_back(s.token);
  return ids;
}

class MergedEngine
    : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::unique_ptr<TextModel> model_ =
      tiny_model(std::get<0>(GetParam()), "F32", 64);
  KvScheme kv_ = every_layer(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(
    Tiny, MergedEngine,
    testing::Combine(testing::Values("llama", "gemma3_text"),
                     testing::Values("raw", "8", "4", "turbo", "turbo:k2v2")));

// Rows join and leave all the time; a quarter of them is cancelled.
TEST_P(MergedEngine, EachOfManyEqualsItsSoloRun) {
  const EngineOptions options{.kv = kv_,
                              .layout = kMerged,
                              .batch = 5,
                              .queue = 64,
                              .prefill_chunk = 48};
  std::vector<Ask> asks;
  std::vector<Answer> alone;
  for (int i = 0; i < 20; i++) {
    asks.push_back(mixed_ask(i));
    alone.push_back(solo(*model_, asks[i], options));
  }
  Engine engine(*model_, options);
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 20; i++) {
    heard.push_back(std::make_shared<Recorder>());
    const auto ticket =
        std::make_shared<std::promise<std::shared_ptr<Ticket>>>();
    if (i % 4 == 3) {
      heard[i]->token = [ticket](int tokens) {
        if (tokens == 3) ticket->get_future().get()->cancel();
        return true;
      };
    }
    ticket->set_value(submit(engine, request_of(asks[i], heard[i])));
  }
  ASSERT_TRUE(engine.drain(600));
  int cancelled = 0;
  for (int i = 0; i < 20; i++) {
    SCOPED_TRACE(i);
    if (heard[i]->wait().finish == Finish::cancelled) {
      EXPECT_TRUE(begins(alone[i].tokens, heard[i]->tokens()));
      cancelled++;
      continue;
    }
    EXPECT_EQ(heard[i]->wait().finish, alone[i].finish)
        << heard[i]->wait().reason;
    EXPECT_TRUE(same(heard[i]->tokens(), alone[i].tokens));
  }
  EXPECT_GT(cancelled, 2);
  EXPECT_EQ(engine.stats().kv_bytes, 0u);
  EXPECT_EQ(engine.stats().layout, kMerged);
}

// On the numbers that codes decode to, attention of both forms is the same but
// for the order of sums; keys of turbo are rounded to bf16 in one of them.
TEST_P(MergedEngine, GreedyTokensAreThoseOfRaggedRows) {
  if (kv_.full.kind == KvCodec::Kind::turbo) return;
  Engine engine(*model_,
                {.precision = Precision::exact, .kv = kv_, .layout = kMerged});
  std::vector<Ask> asks;
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 8; i++) {
    asks.push_back({random_ids(5 + 9 * i, kVocabulary, i), 30});
    heard.push_back(std::make_shared<Recorder>());
    submit(engine, request_of(asks[i], heard[i]));
  }
  for (int i = 0; i < 8; i++) {
    heard[i]->wait();
    EXPECT_EQ(ids_of(heard[i]->tokens()),
              ids_of(solo(*model_, asks[i],
                          {.precision = Precision::exact, .kv = kv_})
                         .tokens))
        << i;
  }
}

// MLX counts every byte it hands out.
TEST_P(MergedEngine, StaysWithinWhatThePlanBills) {
  const StepSizes sizes{
      .chunk = 256, .batch = 8, .scored = kScoredAtOnce, .layout = kMerged};
  const MemoryNeeds needs =
      memory_needs(*model_, kv_.with(qmm::Number::f16), sizes);
  const size_t before = mx::get_active_memory();
  mx::reset_peak_memory();
  size_t bill = 0, held = 0;
  {
    Engine engine(
        *model_,
        {.kv = kv_, .layout = kMerged, .batch = 8, .prefill_chunk = 256});
    std::vector<std::shared_ptr<Recorder>> heard;
    for (int i = 0; i < 8; i++) {
      heard.push_back(std::make_shared<Recorder>());
      heard[i]->token = [&](int) {
        held = std::max(held, engine.stats().kv_bytes);
        return true;
      };
      const Ask ask{random_ids(30 + 60 * i, kVocabulary, i), 30 + 5 * i};
      submit(engine, request_of(ask, heard[i]));
    }
    bill = 8 * needs.row(450 + 65);
    size_t reserved = 0;
    for (auto& one : heard) {
      EXPECT_EQ(one->wait().finish, Finish::length);
      reserved = std::max(reserved, engine.stats().kv_reserved_bytes);
    }
    EXPECT_LE(reserved, bill);
  }
  // Rows of the longest one's width.
  EXPECT_GT(held,
            8 * 450 * 2 * kv_.with(qmm::Number::f16).full.bytes_per_token(64));
  EXPECT_LE(held, bill);
  const size_t peak = mx::get_peak_memory() - before;
  EXPECT_LE(peak, bill + needs.transients);
  EXPECT_LE(mx::get_active_memory(), before);
}

// Room for two rows at first and for one at full length.
TEST(MergedEngineMemory, RowsThatFindNoRoomWaitAndGoOn) {
  const auto model = tiny_model("gemma3_text", "F32", 64);
  const KvScheme kv = every_layer("turbo");
  const StepSizes sizes{
      .chunk = 256, .batch = 4, .scored = kScoredAtOnce, .layout = kMerged};
  const MemoryNeeds needs =
      memory_needs(*model, kv.with(qmm::Number::f16), sizes);
  const EngineOptions options{
      .kv = kv,
      .layout = kMerged,
      .batch = 4,
      .memory_budget = needs.fixed() + 2 * needs.row(700)};
  std::vector<Ask> asks;
  std::vector<Answer> alone;
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 3; i++) {
    asks.push_back({random_ids(100 + i, kVocabulary, i), 620});
    alone.push_back(solo(*model, asks[i], options));
  }
  const size_t before = mx::get_active_memory();
  mx::reset_peak_memory();
  Engine engine(*model, options);
  for (int i = 0; i < 3; i++) {
    heard.push_back(std::make_shared<Recorder>());
    submit(engine, request_of(asks[i], heard[i]));
  }
  ASSERT_TRUE(engine.drain(600));
  for (int i = 0; i < 3; i++) {
    // Text that is fed again has met the ragged form's attention in between.
    EXPECT_EQ(heard[i]->wait().finish, Finish::length);
    EXPECT_EQ(heard[i]->tokens().size(), 620u);
  }
  EXPECT_TRUE(same(heard[0]->tokens(), alone[0].tokens));
  EXPECT_GE(engine.stats().pauses, 1u);
  EXPECT_LE(mx::get_peak_memory() - before,
            needs.transients + 2 * needs.row(700));
}

TEST(MergedEngineFaults, EndTheirRowOnly) {
  const auto model = tiny_model("gemma3_text");
  const EngineOptions options{.layout = kMerged};
  const Ask ask{random_ids(30, kVocabulary, 1), 40};
  const Answer alone = solo(*model, ask, options);
  Engine engine(*model, options);
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 4; i++) heard.push_back(std::make_shared<Recorder>());
  heard[0]->token = [](int tokens) -> bool {
    if (tokens == 7) fail("no more");
    return true;
  };
  heard[1]->token = [](int tokens) { return tokens < 4; };
  heard[2]->end = [] { fail("no end"); };
  for (auto& one : heard) submit(engine, request_of(ask, one));
  EXPECT_TRUE(engine.drain(60));
  EXPECT_EQ(heard[0]->wait().reason, "no more");
  EXPECT_EQ(heard[1]->wait().finish, Finish::stop);
  EXPECT_EQ(heard[1]->tokens().size(), 4u);
  for (int i : {2, 3}) EXPECT_TRUE(same(heard[i]->tokens(), alone.tokens));
}

}  // namespace
}  // namespace quern::test
