// mlx-lm's processors and filters, from goldens.json (make_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "sample/row.h"

namespace quern {
namespace {

Json goldens() {
  std::ifstream file(QUERN_TEST_DIR "/sample/goldens.json");
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str(), "goldens.json").or_throw();
}

SamplingParams processors(const Json& json) {
  SamplingParams p;
  p.repetition_penalty = json.value("repetition_penalty", 1.f);
  p.repetition_context = json.value("repetition_context", 20);
  p.presence_penalty = json.value("presence_penalty", 0.f);
  p.presence_context = json.value("presence_context", 20);
  p.frequency_penalty = json.value("frequency_penalty", 0.f);
  p.frequency_context = json.value("frequency_context", 20);
  Json biases = json.value("logit_bias", Json::object());
  for (auto& [id, bias] : biases.items()) {
    p.logit_bias[std::stoi(id)] = bias.get<float>();
  }
  return p;
}

TEST(Goldens, ProcessedLogprobs) {
  Json cases = goldens().at("processed");
  EXPECT_EQ(cases.size(), 11u);
  for (const Json& golden : cases) {
    SCOPED_TRACE(golden.at("params").dump());
    auto logits = golden.at("logits").get<std::vector<float>>();
    auto history = golden.at("history").get<std::vector<int32_t>>();
    auto want = golden.at("logprobs").get<std::vector<float>>();
    SamplingParams params = processors(golden.at("params"));
    params.logprobs = kMaxTopLogprobs;
    SamplerRow row(params, static_cast<int>(logits.size()), history);
    auto sampled = row.sample(logits, 0).or_throw();
    ASSERT_EQ(sampled.top.size(), want.size());
    for (auto [id, logprob] : sampled.top) {
      EXPECT_NEAR(logprob, want[id], 5e-6) << id;
    }
  }
}

TEST(Goldens, TruncatedSets) {
  constexpr float kAll = std::numeric_limits<float>::infinity();
  Json cases = goldens().at("truncated");
  EXPECT_EQ(cases.size(), 38u);
  for (const Json& golden : cases) {
    const Json& params = golden.at("params");
    SCOPED_TRACE(params.dump());
    auto row = golden.at("logits").get<std::vector<float>>();
    std::vector<float> nearest;
    ASSERT_TRUE(to_distances(row, nearest));
    Candidates candidates;
    candidates.collect(row, nearest, kAll);
    if (params.contains("top_p")) {
      candidates.keep_top_p(params.at("top_p").get<float>(), mass(row, 1));
    }
    if (params.contains("min_p")) {
      candidates.keep_min_p(params.at("min_p").get<float>());
    }
    if (params.contains("xtc_threshold")) {
      candidates.drop_top_choices(
          params.at("xtc_threshold").get<float>(),
          params.at("xtc_exempt").get<std::vector<int32_t>>());
    }
    if (params.contains("top_k")) {
      candidates.keep_top_k(params.at("top_k").get<int>());
    }
    std::vector<int32_t> kept(candidates.ids().begin(), candidates.ids().end());
    EXPECT_EQ(kept, golden.at("kept").get<std::vector<int32_t>>());
  }
}

}  // namespace
}  // namespace quern
