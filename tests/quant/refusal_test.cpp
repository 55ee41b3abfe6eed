// Weights that are refused, and the one line that says why.
#include "ops/support.h"
#include "quant/affine_views.h"
#include "quant/pack.h"

namespace quern {
namespace {

using testing::Test;

// A tensor of zero bytes.
TensorView tensor(TensorType type, std::vector<int64_t> shape) {
  static const std::vector<std::byte> zeros(1 << 16);
  const size_t bytes = tensor_bytes(type, shape).or_throw();
  EXPECT_LE(bytes, zeros.size());
  return {"w", type, std::move(shape), {zeros.data(), bytes}, nullptr};
}

std::string refusal(const Result<Weight>& w) {
  return w.ok() ? "accepted" : w.reason();
}

TEST(PackWeight, RefusesUnsupportedTypesByName) {
  for (TensorType type :
       {TensorType::IQ1_S, TensorType::IQ2_XXS, TensorType::IQ3_S,
        TensorType::IQ4_NL, TensorType::IQ4_XS, TensorType::TQ1_0,
        TensorType::MXFP4, TensorType::Q8_K}) {
    EXPECT_EQ(refusal(pack_weight(tensor(type, {2, 512})))
                  .rfind("tensor 'w' has the type " +
                             std::string(type_info(type).name) + ", supported",
                         0),
              0u)
        << type_info(type).name;
  }
  for (TensorType type : {TensorType::F64, TensorType::I32, TensorType::U8,
                          TensorType::BOOL, TensorType::F8_E4M3}) {
    EXPECT_EQ(refusal(pack_weight(tensor(type, {2, 32}))),
              "w: a weight of type " + std::string(type_info(type).name) +
                  " is not supported");
  }
}

TEST(PackWeight, RefusesShapes) {
  EXPECT_EQ(refusal(pack_weight(tensor(TensorType::F32, {8}))),
            "w: expected a matrix, got 1 dimensions");
  EXPECT_EQ(refusal(pack_weight(tensor(TensorType::Q4_0, {2, 2, 32}))),
            "w: expected a matrix, got 3 dimensions");
  EXPECT_EQ(refusal(pack_weight(tensor(TensorType::F16, {0, 32}))),
            "w: a weight of 0 x 32 is out of range");
  EXPECT_EQ(refusal(pack_weight(tensor(TensorType::Q8_0, {4, 0}))),
            "w: a weight of 4 x 0 is out of range");
}

TEST(ToF32, RefusesCodes) {
  const auto a = to_f32(tensor(TensorType::Q4_0, {2, 32}));
  ASSERT_FALSE(a.ok());
  EXPECT_EQ(a.reason(), "w: expected F32, F16 or BF16, got Q4_0");
}

class PackAffine : public Test {
 protected:
  test::AffineViews parts_{mx::quantize(
      test::to_array(test::normal_floats(4 * 128, 1), {4, 128}), 64, 4)};

  std::string refused(TensorView codes, TensorView scales, TensorView biases,
                      int bits = 4, int group = 64) {
    return refusal(pack_affine(codes, scales, biases, bits, group));
  }
};

TEST_F(PackAffine, RefusesBitsAndGroups) {
  const auto c = parts_.codes(), s = parts_.scales(), b = parts_.biases();
  EXPECT_EQ(refused(c, s, b), "accepted");
  for (auto [bits, group] : std::vector<std::pair<int, int>>{{7, 64},
                                                             {1, 64},
                                                             {9, 64},
                                                             {0, 64},
                                                             {-4, 64},
                                                             {4, 16},
                                                             {4, 0},
                                                             {4, 48},
                                                             {4, 256}}) {
    EXPECT_EQ(refused(c, s, b, bits, group),
              fmt::format("codes: {} bits in groups of {} are not supported "
                          "(bits 2, 3, 4, 5, 6, 8; groups 32, 64, 128)",
                          bits, group));
  }
}

TEST_F(PackAffine, RefusesPartsThatDoNotFit) {
  const auto c = parts_.codes(), s = parts_.scales(), b = parts_.biases();
  const std::string fits =
      "codes: codes, scales and biases do not fit 4 bits "
      "in groups of 64";
  auto shaped = [](TensorView t, std::vector<int64_t> shape) {
    t.shape = std::move(shape);
    return t;
  };
  EXPECT_EQ(refused(shaped(c, {4, 15}), s, b), fits);
  EXPECT_EQ(refused(shaped(c, {64}), s, b), fits);
  EXPECT_EQ(refused(shaped(c, {3, 16}), s, b), fits);
  EXPECT_EQ(refused(c, shaped(s, {4, 1}), b), fits);
  EXPECT_EQ(refused(c, s, shaped(b, {2, 4})), fits);
  EXPECT_EQ(refused(c, shaped(s, {8}), shaped(b, {8})), fits);
  EXPECT_EQ(refused(c, s, b, 8),
            "codes: codes, scales and biases do not fit 8 bits in groups of "
            "64");
  EXPECT_EQ(refused(shaped(c, {0, 16}), shaped(s, {0, 2}), shaped(b, {0, 2})),
            "codes: a weight of 0 x 128 is out of range");
}

TEST_F(PackAffine, RefusesTypes) {
  const auto c = parts_.codes(), s = parts_.scales(), b = parts_.biases();
  auto typed = [](TensorView t, TensorType type) {
    t.type = type;
    return t;
  };
  EXPECT_EQ(refused(typed(c, TensorType::I32), s, b),
            "codes: codes, scales and biases do not fit 4 bits in groups of "
            "64");
  EXPECT_EQ(refused(c, typed(s, TensorType::U8), b),
            "scales: expected F32, F16 or BF16, got U8");
  EXPECT_EQ(refused(c, s, typed(b, TensorType::F16)),
            "biases: expected the type of the scales, got F16");
}

}  // namespace
}  // namespace quern
