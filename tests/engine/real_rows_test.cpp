// The numeric contract on real models (quantised weights, rings).
#include "engine/real_model.h"
#include "engine/recorder.h"
#include "engine/row_checks.h"

namespace quern::test {
namespace {

class RealRows : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<TextModel> model_ = real_model(GetParam());
};

TEST_P(RealRows, SameLastLogitsForChunksOf64To4096) {
  const int V = model_->facts().vocabulary;
  const auto ids = random_ids(1100, V, 5);
  auto last_logits = [&](int chunk) {
    Row row = model_->make_row(kv_number(Precision::fast));
    Prefill prefill(*model_, row, ids, Precision::fast, chunk);
    return to_vector(model_->logits(prefill.finish(), Precision::fast));
  };
  const Logits whole = last_logits(4096);
  for (int chunk : {64, 100, 256, 512, 1024}) {
    EXPECT_EQ(last_logits(chunk), whole) << "chunks of " << chunk;
  }
}

TEST_P(RealRows, SameBitsInBatchesOf2And5And16) {
  check_company(*model_, 70, {2, 5, 16}, 2, Precision::fast);
}

// Through the engine, each with its own prompt, length, seed and sampler.
TEST_P(RealRows, EightRequestsEqualTheirSoloRuns) {
  Engine engine(*model_, {.batch = 8, .prefill_chunk = 128});
  std::vector<Ask> asks;
  std::vector<std::shared_ptr<Recorder>> heard;
  for (int i = 0; i < 8; i++) {
    asks.push_back(
        {random_ids(5 + 43 * i, model_->facts().vocabulary, i), 24 + 3 * i});
    asks[i].sampling.temperature = i % 2 ? 0.8f : 0.f;
    asks[i].sampling.top_p = i % 4 ? 0.9f : 1.f;
    asks[i].sampling.seed = i;
    asks[i].sampling.logprobs = i % 3 ? 4 : -1;
    heard.push_back(std::make_shared<Recorder>());
    submit(engine, request_of(asks[i], heard[i]));
  }
  for (int i = 0; i < 8; i++) {
    EXPECT_EQ(heard[i]->wait().finish, Finish::length)
        << heard[i]->wait().reason;
    EXPECT_TRUE(same(heard[i]->tokens(), solo(*model_, asks[i]).tokens)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealRows,
                         testing::Values(kSmolLm2, kGemma3, kQwenCoder));

}  // namespace
}  // namespace quern::test
