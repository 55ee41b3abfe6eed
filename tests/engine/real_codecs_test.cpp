// Codes of keys and values in real models: what a row answers depends neither
// on its company nor on how it came to its length.
#include <future>

#include "engine/real_model.h"
#include "engine/recorder.h"
#include "engine/row_checks.h"

namespace quern::test {
namespace {

struct Case {
  const char* model;
  const char* codec;  // of every layer, those with a window included
};

// Every width of keys and of values, each in some model.
constexpr Case kCases[] = {
    {kSmolLm2, "8"},          {kSmolLm2, "turbo:k8v3"},
    {kSmolLm2, "turbo:k4v4"}, {kSmolLm2, "turbo:k5v5"},
    {kSmolLm2, "turbo:k2v2"}, {kGemma3, "raw"},
    {kGemma3, "4"},           {kGemma3, "turbo:k8v3"},
    {kQwenCoder, "8"},        {kQwenCoder, "turbo:k8v8"}};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = fmt::format("{}_{}", info.param.model, info.param.codec);
  for (char& c : name) c = std::isalnum(c) ? c : '_';
  return name;
}

class RealCodecs : public testing::TestWithParam<Case> {
 protected:
  std::vector<int32_t> ids(int count, int seed) const {
    return random_ids(count, model_->facts().vocabulary, seed);
  }
  Row row() const { return model_->make_row(kv_); }

  // Feeds the row in one call: the logits of the last tokens.
  Logits feed(Row& row, std::span<const int32_t> tokens, int last) const {
    const mx::array hidden = forward(*model_, row, tokens, Precision::fast);
    const int count = hidden.shape(0);
    return to_vector(model_->logits(
        mx::slice(hidden, {count - last, 0}, {count, hidden.shape(1)}),
        Precision::fast));
  }

  std::unique_ptr<TextModel> model_ = real_model(GetParam().model);
  const KvCodec codec_ = parse_kv_codec(GetParam().codec);
  const KvScheme kv_{codec_, codec_};
};
INSTANTIATE_TEST_SUITE_P(Kv, RealCodecs, testing::ValuesIn(kCases), name_of);

// Eight requests, of which five join while the others decode.
TEST_P(RealCodecs, EightRowsAnswerAsAlone) {
  constexpr int kRows = 8, kAtOnce = 3;
  std::vector<Ask> asks;
  std::vector<std::shared_ptr<Recorder>> heard;
  std::vector<std::promise<void>> second_token(kRows);
  for (int i = 0; i < kRows; i++) {
    asks.push_back({ids(3 + 29 * (i * 3 % kRows), i), 10 + i});
    asks[i].sampling.logprobs = 2;
    heard.push_back(std::make_shared<Recorder>());
    heard[i]->token = [&, i](int tokens) {
      if (tokens == 2) second_token[i].set_value();
      return true;
    };
  }
  {
    Engine engine(*model_, {.kv = kv_, .batch = kRows, .prefill_chunk = 128});
    for (int i = 0; i < kRows; i++) {
      if (i >= kAtOnce) second_token[i - kAtOnce].get_future().wait();
      submit(engine, request_of(asks[i], heard[i]));
    }
    for (const auto& recorder : heard) {
      EXPECT_EQ(recorder->wait().finish, Finish::length)
          << recorder->wait().reason;
    }
  }
  for (int i = 0; i < kRows; i++) {
    const Answer alone = solo(*model_, asks[i], Precision::fast, kv_);
    EXPECT_TRUE(same(heard[i]->tokens(), alone.tokens)) << "row " << i;
  }
}

// Gemma's rings have wrapped by then.
TEST_P(RealCodecs, AppendedByTokensOrTrimmedItIsAFreshRow) {
  const int length = GetParam().model == kGemma3 ? 840 : 200, single = 30;
  const auto text = ids(length, 5), other = ids(3, 6);
  const std::span<const int32_t> all(text);

  Row whole = row(), grown = row();
  const Logits expected = feed(whole, all, single);
  feed(grown, all.first(length - single), 1);
  Logits got;
  for (int i = length - single; i < length; i++) {
    for (float logit : feed(grown, all.subspan(i, 1), 1)) got.push_back(logit);
  }
  EXPECT_EQ(got, expected);

  Row fresh = row();
  for (int drop : {130, 65, 64, 63, 1}) {
    const int left = length - drop;
    feed(fresh, all.subspan(fresh.length(), left - fresh.length()), 1);
    for (const Row* from : {&whole, &grown}) {
      Row trimmed = from->copy(), straight = fresh.copy();
      ASSERT_TRUE(trimmed.trim(drop));
      EXPECT_EQ(feed(trimmed, other, 3), feed(straight, other, 3))
          << drop << " tokens less";
    }
  }
}

}  // namespace
}  // namespace quern::test
