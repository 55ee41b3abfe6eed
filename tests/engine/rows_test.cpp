#include <cmath>
#include <map>

#include "engine/row_checks.h"
#include "engine/tiny_model.h"

namespace quern::test {
namespace {

class Rows : public testing::TestWithParam<
                 std::tuple<const char*, const char*, Precision>> {
 protected:
  std::unique_ptr<TextModel> model_ =
      tiny_model(std::get<0>(GetParam()), std::get<1>(GetParam()));
  Precision precision_ = std::get<2>(GetParam());
};

TEST_P(Rows, SameBitsHoweverThePromptIsCut) {
  check_chunks(*model_, 600, {1, 64, 100, 256, 599}, precision_);
}

TEST_P(Rows, SameBitsInAnyCompany) {
  check_company(*model_, 90, {2, 5, 16}, 3, precision_);
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, Rows,
    testing::Combine(testing::Values("llama", "gemma3_text"),
                     testing::Values("F32", "BF16"),
                     testing::Values(Precision::fast, Precision::exact)));

// Every codec, in full layers and in rings.
class CodecRows : public testing::TestWithParam<const char*> {
 protected:
  CodecRows() {
    const KvCodec codec = parse_kv_codec(GetParam());
    kv_ = {codec, codec};
  }
  KvScheme kv_;
};

TEST_P(CodecRows, SameBitsHoweverThePromptIsCut) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type, "F32", 64);
    check_chunks(*model, 300, {1, 100, 256}, Precision::fast, kv_);
    check_chunks(*model, 100, {1, 64}, Precision::exact, kv_);
  }
}

TEST_P(CodecRows, EightRowsAreAsAlone) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const auto model = tiny_model(type, "F32", 64);
    check_company(*model, 90, {2, 8}, 3, Precision::fast, kv_);
  }
}

TEST_P(CodecRows, ExactLogitsAreNearThoseOfRawRows) {
  const auto model = tiny_model("llama", "F32", 64);
  const auto ids = random_ids(80, model->facts().vocabulary, 3);
  const Logits raw = chunked(*model, ids, Precision::exact, 80);
  const Logits fast = chunked(*model, ids, Precision::fast, 80, kv_);
  const Logits exact = chunked(*model, ids, Precision::exact, 80, kv_);
  double length = 0, error = 0, apart = 0;
  for (size_t i = 0; i < raw.size(); i++) {
    length += double(raw[i]) * raw[i];
    error += std::pow(double(exact[i]) - raw[i], 2);
    apart += std::pow(double(fast[i]) - exact[i], 2);
  }
  length = std::sqrt(length);
  error = std::sqrt(error) / length;
  apart = std::sqrt(apart) / length;
  // Half as much again as was seen.
  const std::map<int, double> most{
      {8, 0.03}, {5, 0.15}, {4, 0.32}, {3, 0.52}, {2, 1}};
  EXPECT_LE(error, kv_.full.raw() ? 0 : most.at(kv_.full.value_bits));
  // Attention is as far off as its own test allows. In the layers after it a
  // code flips, by its whole step, as often as that is a part of the step,
  // which is sqrt(12) times the codes' own error.
  const double kernel = kv_.full.raw() ? 1e-3 : 1.5e-2;
  EXPECT_LE(apart, std::sqrt(kernel * kernel + 4 * kernel * error));
}

INSTANTIATE_TEST_SUITE_P(Kv, CodecRows,
                         testing::Values("raw", "8", "4", "turbo", "turbo:k8v8",
                                         "turbo:k8v4", "turbo:k5v5",
                                         "turbo:k4v4", "turbo:k2v2"));

// Each layer its own codec, rings among them.
class MixedRows : public testing::TestWithParam<const char*> {
 protected:
  MixedRows() {
    kv_.layers = {{0, turbo_kv()}, {1, affine_kv(8, 32)}, {3, turbo_kv(4, 4)}};
  }
  std::unique_ptr<TextModel> model_ = tiny_model(GetParam(), "F32", 64);
  KvScheme kv_;
};

TEST_P(MixedRows, LayersHaveTheirOwnCodecs) {
  const auto layers = model_->make_row(kv_).signatures();
  const char* codecs[] = {"/turboquant:8:3/2x64", "/quant:8:32/f16/2x64",
                          "/plain/f16/2x64", "/turboquant:4:4/2x64"};
  ASSERT_EQ(layers.size(), std::size(codecs));
  for (size_t i = 0; i < layers.size(); i++) {
    EXPECT_TRUE(layers[i].ends_with(codecs[i])) << layers[i];
  }
}

TEST_P(MixedRows, SameBitsHoweverThePromptIsCut) {
  check_chunks(*model_, 300, {1, 100, 256}, Precision::fast, kv_);
}

TEST_P(MixedRows, EightRowsAreAsAlone) {
  check_company(*model_, 90, {2, 8}, 3, Precision::fast, kv_);
}

INSTANTIATE_TEST_SUITE_P(Kv, MixedRows,
                         testing::Values("llama", "gemma3_text"));

}  // namespace
}  // namespace quern::test
