#include "nn/kv_config.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

// Four layers, the last with heads of 96 numbers.
constexpr int kHeadDims[] = {64, 128, 64, 96};

Result<KvScheme> parse(std::string_view text) {
  return parse_kv_config(text, "kv.json", kHeadDims);
}

std::string reason(std::string_view text) {
  const auto scheme = parse(text);
  return scheme ? "" : scheme.reason();
}

TEST(KvConfig, BitsAndSchemes) {
  const KvScheme kv = parse(R"([
      {"layer_idx": 2, "bits": 4, "group_size": 32, "mode": "affine"},
      {"layer_idx": 0, "bits": 8},
      {"layer_idx": 1, "scheme": "turbo:k5v4"},
      {"layer_idx": 3, "bits": 16, "group_size": 128}])")
                          .or_throw();
  for (bool is_ring : {false, true}) {
    EXPECT_EQ(kv.codec(0, is_ring), affine_kv(8, 64));
    EXPECT_EQ(kv.codec(1, is_ring), turbo_kv(5, 4));
    EXPECT_EQ(kv.codec(2, is_ring), affine_kv(4, 32));
    EXPECT_EQ(kv.codec(3, is_ring), raw_kv());
  }
  EXPECT_EQ(kv.name(), "config");
}

TEST(KvConfig, LayersThatAreNotListedAreRaw) {
  const KvScheme kv = parse(R"([{"layer_idx": 1, "scheme": "8"}])").or_throw();
  EXPECT_EQ(kv.codec(0, false), raw_kv());
  EXPECT_EQ(kv.codec(2, true), raw_kv());
  EXPECT_EQ(parse("[]").or_throw(), KvScheme());
}

TEST(KvConfig, RawLayersHaveTheNumbersOfThePrecision) {
  const KvScheme kv = parse(R"([{"layer_idx": 0, "scheme": "raw"},
                                {"layer_idx": 1, "bits": 8}])")
                          .or_throw()
                          .with(qmm::Number::f32);
  EXPECT_EQ(kv.codec(0, false), raw_kv(qmm::Number::f32));
  EXPECT_EQ(kv.codec(1, false), affine_kv(8));
  EXPECT_EQ(kv.codec(2, true), raw_kv(qmm::Number::f32));
}

TEST(KvConfig, AFaultNamesFileEntryAndWhatIsExpected) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"{}", "kv.json: expected a list of layers, got {}"},
      {"7", "kv.json: expected a list of layers, got 7"},
      {"[7]", "kv.json[0]: expected an object"},
      {R"([{"bits": 8}])", "kv.json[0]: layer_idx is missing"},
      {R"([{"layer_idx": 0}])", "kv.json[0]: expected bits or a scheme"},
      {R"([{"layer_idx": 0, "bits": null}])",
       "kv.json[0]: expected bits or a scheme"},
      {R"([{"layer_idx": 0, "bits": 8}, {"layer_idx": 4, "bits": 8}])",
       "kv.json[1]: layer_idx must be an integer in [0, 3], got 4"},
      {R"([{"layer_idx": -1, "bits": 8}])",
       "kv.json[0]: layer_idx must be an integer in [0, 3], got -1"},
      {R"([{"layer_idx": 0.5, "bits": 8}])",
       "kv.json[0]: layer_idx must be an integer in [0, 3], got 0.5"},
      {R"([{"layer_idx": "0", "bits": 8}])",
       "kv.json[0]: layer_idx must be an integer in [0, 3], got \"0\""},
      {R"([{"layer_idx": 18446744073709551616, "bits": 8}])",
       "kv.json[0]: layer_idx must be an integer in [0, 3], got "
       "1.8446744073709552e+19"},
      {R"([{"layer_idx": 0, "bits": 8}, {"layer_idx": 1, "bits": 8},
           {"layer_idx": 0, "bits": 4}])",
       "kv.json[2]: layer_idx 0 has an entry already"},
      {R"([{"layer_idx": 0, "bits": 6}])",
       "kv.json[0]: bits must be one of 4, 8, 16, got 6"},
      {R"([{"layer_idx": 0, "bits": "8"}])",
       "kv.json[0]: bits must be one of 4, 8, 16, got \"8\""},
      {R"([{"layer_idx": 0, "bits": true}])",
       "kv.json[0]: bits must be one of 4, 8, 16, got true"},
      {R"([{"layer_idx": 0, "bits": 1e400}])",
       "kv.json: not valid JSON: number overflow parsing '1e400'"},
      {R"([{"layer_idx": 0, "bits": 8, "group_size": 128}])",
       "kv.json[0]: group_size must be one of 32, 64, got 128"},
      {R"([{"layer_idx": 3, "bits": 8}])",
       "kv.json[0]: 8 takes head dims up to 512 that are multiples "
       "of its group, not 96"},
      {R"([{"layer_idx": 3, "scheme": "turbo"}])",
       "kv.json[0]: turbo-k8v3 takes head dims 64, 128, 256 and "
       "512, not 96"},
      {R"([{"layer_idx": 0, "scheme": 8}])",
       "kv.json[0]: scheme must be a string"},
      {R"([{"layer_idx": 0, "scheme": "3\n"}])",
       "kv.json[0]: no KV scheme '3\\x0A': expected one of raw, 4, "
       "8, turbo[:k#v#]"},
      {R"([{"layer_idx": 0, "scheme": "turbo:k3v3"}])",
       "kv.json[0]: turbo keys have 2, 4, 5 or 8 bits, not 3"},
      {R"([{"layer_idx": 0, "scheme": "8", "bits": 8}])",
       "kv.json[0]: a scheme leaves no place for bits"},
      {R"([{"layer_idx": 0, "scheme": "8", "group_size": 32}])",
       "kv.json[0]: a scheme leaves no place for group_size"},
  };
  for (const auto& [text, fault] : kFaults) EXPECT_EQ(reason(text), fault);
}

TEST(KvConfig, WhatIsNotJsonIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("[{"), std::string("[]x"),
        std::string("\xff"), std::string(100'000, '['),
        std::string("[]\0", 3)}) {
    EXPECT_TRUE(reason(text).starts_with("kv.json: not valid JSON: "));
  }
}

// 96 = 3 * 32.
TEST(KvConfig, SmallGroupsFitOddHeads) {
  const KvScheme kv =
      parse(R"([{"layer_idx": 3, "bits": 8, "group_size": 32}])").or_throw();
  EXPECT_EQ(kv.codec(3, false), affine_kv(8, 32));
}

}  // namespace
}  // namespace quern
