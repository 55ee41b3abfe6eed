#include "engine/generation.h"

#include <gtest/gtest.h>

#include "engine/row_checks.h"
#include "engine/tiny_model.h"

namespace quern::test {
namespace {

std::vector<int32_t> generate(const TextModel& model, GenerationOptions options,
                              int prompt = 20) {
  Generation generation(model, random_ids(prompt, model.facts().vocabulary, 3),
                        options);
  std::vector<int32_t> ids;
  while (auto token = generation.next()) ids.push_back(token->token);
  return ids;
}

DecodeRowPtr decode_row(const TextModel& model,
                        const std::vector<int32_t>& prompt,
                        const SamplingParams& sampling, int tokens) {
  return std::make_shared<DecodeRow>(DecodeRow{
      .row = model.make_row(kv_number(Precision::fast)),
      .sampler = SamplerRow(sampling, model.facts().vocabulary, prompt),
      .position = prompt.size(),
      .left = tokens});
}

// Greedy tokens by whole forward passes, without cache or pipeline.
std::vector<int32_t> greedy_by_hand(const TextModel& model, int tokens) {
  auto ids = random_ids(20, model.facts().vocabulary, 3);
  std::vector<int32_t> answer;
  const int V = model.facts().vocabulary;
  for (int i = 0; i < tokens; i++) {
    const Logits all = chunked(model, ids, Precision::exact, int(ids.size()));
    const auto last = all.end() - V;
    answer.push_back(int32_t(std::max_element(last, all.end()) - last));
    ids.push_back(answer.back());
  }
  return answer;
}

TEST(Generation, GreedyEqualsForwardPassesOfTheWholeText) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type);
    EXPECT_EQ(
        generate(*model, {.precision = Precision::exact, .max_tokens = 40}),
        greedy_by_hand(*model, 40));
  }
}

TEST(Generation, SeedGivesTheSameTextInAnyCompany) {
  const auto model = tiny_model("llama");
  GenerationOptions options{.max_tokens = 30};
  options.sampling.temperature = 1;
  options.sampling.seed = 7;
  const auto alone = generate(*model, options);
  EXPECT_EQ(generate(*model, options), alone);
  options.prefill_chunk = 3;
  EXPECT_EQ(generate(*model, options), alone);

  // The same request as one row of a batch, beside rows of other seeds.
  const auto prompt = random_ids(20, model->facts().vocabulary, 3);
  DecodeBatch batch(*model, Precision::fast);
  std::vector<std::vector<int32_t>> texts(3);
  for (int i = 0; i < 3; i++) {
    SamplingParams sampling = options.sampling;
    sampling.seed = 5 + i;  // 7 is the third
    const auto row = decode_row(*model, prompt, sampling, 30);
    Prefill prefill(*model, row->row, prompt, Precision::fast);
    batch.join({row}, prefill.finish());
    texts[i].push_back(batch.read()[0].sampled->token);
  }
  batch.issue();
  for (int step = 1; step < 30; step++) {
    EXPECT_EQ(batch.issue(), step + 1 < 30);
    auto drawn = batch.read();
    for (int i = 0; i < 3; i++) texts[i].push_back(drawn[i].sampled->token);
  }
  EXPECT_EQ(texts[2], alone);
  EXPECT_NE(texts[0], alone);
}

TEST(Generation, RowsLeaveWithoutMovingOthers) {
  const auto model = tiny_model("gemma3_text");
  const int V = model->facts().vocabulary;
  DecodeBatch batch(*model, Precision::fast);
  std::vector<DecodeRowPtr> rows;
  std::vector<std::vector<int32_t>> texts(3);
  std::vector<std::vector<int32_t>> alone(3);
  for (int i = 0; i < 3; i++) {
    const auto prompt = random_ids(10 + 13 * i, V, i);
    Generation lone(*model, prompt, {.max_tokens = 20});
    while (auto token = lone.next()) alone[i].push_back(token->token);
    rows.push_back(decode_row(*model, prompt, {}, 20));
    Prefill prefill(*model, rows[i]->row, prompt, Precision::fast);
    batch.join({rows[i]}, prefill.finish());
  }
  const auto read = [&] {
    for (const Draw& draw : batch.read()) {
      const auto row = std::find(rows.begin(), rows.end(), draw.row);
      texts[row - rows.begin()].push_back(draw.sampled->token);
    }
  };
  // One leaves while its next step is under way.
  for (int step = 1; step < 20; step++) {
    if (step == 7) batch.leave(*rows[1]);
    batch.issue();
    while (batch.under_way() > 1) read();
  }
  while (batch.under_way() > 0) read();
  EXPECT_EQ(texts[0], alone[0]);
  EXPECT_EQ(texts[2], alone[2]);
  EXPECT_EQ(texts[1],
            std::vector<int32_t>(alone[1].begin(), alone[1].begin() + 7));
}

TEST(Generation, EndsAtAnEndTokenWithoutGivingIt) {
  const auto model = tiny_model("llama");
  const auto text = generate(*model, {.max_tokens = 10});
  const auto end = std::find(text.begin(), text.end(), text[4]);
  Generation generation(*model, random_ids(20, model->facts().vocabulary, 3),
                        {.max_tokens = 10, .end_ids = {text[4]}});
  std::vector<int32_t> ids;
  while (auto token = generation.next()) ids.push_back(token->token);
  EXPECT_EQ(ids, std::vector<int32_t>(text.begin(), end));
  EXPECT_EQ(generation.finish(), Finish::stop);
}

TEST(Generation, EndsAtItsLengthAndAtTheContexts) {
  const auto model = tiny_model("llama");
  Generation one(*model, random_ids(20, 96, 3), {.max_tokens = 1});
  EXPECT_TRUE(one.next());
  EXPECT_FALSE(one.next());
  EXPECT_EQ(one.finish(), Finish::length);
  // 8192 is the tiny models' trained length.
  EXPECT_EQ(generate(*model, {.max_tokens = 50}, 8190).size(), 2u);
}

// A row given up by one answer, cut to what the next prompt shares with it.
TEST(Generation, GoesOnFromAPast) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type);
    const auto prompt = random_ids(60, model->facts().vocabulary, 3);
    auto first = prompt;
    first.resize(40);
    Generation before(*model, first, {.max_tokens = 5});
    while (before.next()) {
    }
    Row past = before.release();
    ASSERT_TRUE(past.trim(past.length() - 40));

    Generation after(*model, prompt, {.max_tokens = 12}, std::move(past));
    std::vector<int32_t> ids;
    while (auto token = after.next()) ids.push_back(token->token);
    EXPECT_EQ(ids, generate(*model, {.max_tokens = 12}, 60)) << type;
  }
}

TEST(Generation, RefusesAPastOfTheWholePrompt) {
  const auto model = tiny_model("llama");
  Generation before(*model, {1, 2, 3}, {.max_tokens = 1});
  while (before.next()) {
  }
  EXPECT_THROW(Generation(*model, {1, 2, 3}, {}, before.release()), Error);
}

TEST(Generation, ProgressMayEndIt) {
  const auto model = tiny_model("llama");
  Generation generation(*model, random_ids(40, 96, 3), {.prefill_chunk = 8});
  int calls = 0;
  EXPECT_FALSE(generation.next([&](int fed, int total) {
    EXPECT_EQ(total, 40);
    EXPECT_EQ(fed, 8 * ++calls);
    return calls < 3;
  }));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(generation.finish(), Finish::stop);
  EXPECT_EQ(generation.release().length(), 24);
}

TEST(Generation, RefusesAnEmptyPromptAndBadParameters) {
  const auto model = tiny_model("llama");
  EXPECT_THROW(Generation(*model, {}, {}), Error);
  GenerationOptions options;
  options.sampling.temperature = -1;
  EXPECT_THROW(Generation(*model, {1, 2}, options), Error);
}

}  // namespace
}  // namespace quern::test
