#include "nn/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <cmath>

#include "base/error_of.h"
#include "base/files.h"

namespace quern {
namespace {

Config config() { return Config(Json::object(), "config.json"); }

// Cosines, then sines, of one position.
std::vector<float> table(const Rope& rope, int position) {
  mx::array t = rope.table(mx::array({position}, {1}, mx::int32));
  mx::eval(t);
  return {t.data<float>(), t.data<float>() + t.size()};
}

TEST(Rope, FrequenciesOfEachTypeAreMlxLms) {
  const auto text = read_text(Path(QUERN_TEST_DIR) / "nn/rope_goldens.json");
  const Json goldens = parse_json(text.value(), "rope_goldens.json").or_throw();
  ASSERT_EQ(goldens.size(), 3u);
  for (const auto& [name, golden] : goldens.items()) {
    const Rope rope(config(), golden["theta"].get<float>(),
                    golden["dims"].get<int>(), &golden["scaling"]);
    const auto freqs = golden["inv_freq"].get<std::vector<double>>();
    const double factor = golden["factor"].get<double>();
    const auto got = table(rope, 100);
    for (size_t i = 0; i < freqs.size(); i++) {
      // 100 times a period known to f32 precision.
      const double slack = 100 * freqs[i] * 1e-6 + 1e-6;
      EXPECT_NEAR(got[i], factor * std::cos(100 * freqs[i]), slack) << name;
      EXPECT_NEAR(got[freqs.size() + i], factor * std::sin(100 * freqs[i]),
                  slack)
          << name;
    }
  }
}

TEST(Rope, LinearDividesPositions) {
  const Json scaling{{"type", "linear"}, {"factor", 4.0}};
  const auto scaled = table(Rope(config(), 1e4f, 32, &scaling), 40);
  const auto plain = table(Rope(config(), 1e4f, 32, nullptr), 10);
  for (size_t i = 0; i < plain.size(); i++) {
    EXPECT_NEAR(scaled[i], plain[i], 2e-6);
  }
}

TEST(Rope, AThetaOfTheScalingObjectHolds) {
  const Json parameters{{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(table(Rope(config(), 1e4f, 32, &parameters), 7),
            table(Rope(config(), 5e5f, 32, nullptr), 7));
}

TEST(Rope, DivisorsDivideFrequencies) {
  const mx::array twos = mx::full({16}, 2.f);
  const auto halved = table(Rope(config(), 1e4f, 32, nullptr, twos), 20);
  const auto plain = table(Rope(config(), 1e4f, 32, nullptr), 10);
  for (size_t i = 0; i < plain.size(); i++) {
    EXPECT_NEAR(halved[i], plain[i], 2e-6);
  }
}

std::string reason(const Json& scaling, float theta = 1e4f) {
  return test::error_of([&] { Rope(config(), theta, 32, &scaling); });
}

TEST(Rope, RefusesByName) {
  EXPECT_EQ(reason({{"rope_type", "longrope"}}),
            "config.json: rope type 'longrope' is not supported (default, "
            "linear, llama3, yarn)");
  EXPECT_EQ(reason({{"rope_type", "linear"}}),
            "config.json: rope_scaling.factor is missing");
  EXPECT_EQ(reason({{"rope_type", "linear"}, {"factor", 0}}),
            "config.json: rope_scaling.factor must be above 0");
  EXPECT_EQ(reason(Json("x")), "config.json: rope_scaling must be an object");
  EXPECT_EQ(reason(Json::object(), 1.f),
            "config.json: rope_theta must be above 1");
}

}  // namespace
}  // namespace quern
