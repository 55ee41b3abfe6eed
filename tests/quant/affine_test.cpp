// Packed affine weights against MLX's own quantize and dequantize.
#include <cmath>

#include "ops/support.h"
#include "quant/affine_views.h"
#include "quant/pack.h"

namespace quern {
namespace {

constexpr int kRows = 19, kColumns = 256;

struct Case {
  int bits, group;
  mx::Dtype dtype;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      for (mx::Dtype dtype : {mx::float32, mx::float16, mx::bfloat16}) {
        all.push_back({bits, group, dtype});
      }
    }
  }
  return all;
}

test::AffineViews quantised(const Case& c) {
  const auto values = test::normal_floats(kRows * kColumns, 5);
  const mx::array w =
      mx::astype(test::to_array(values, {kRows, kColumns}), c.dtype);
  return test::AffineViews(mx::quantize(w, c.group, c.bits));
}

// MLX computes scale * code + bias in f32 too, possibly with one rounding for
// two: half an ulp of the product and of the sum, both below 4 max |w|.
TEST(Affine, MeansWhatMlxSays) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << c.bits << " bits, group " << c.group);
    const auto q = quantised(c);
    const Weight w =
        pack_affine(q.codes(), q.scales(), q.biases(), c.bits, c.group)
            .or_throw();
    const auto expected = test::to_floats(
        mx::dequantize(q.array(0), mx::astype(q.array(1), mx::float32),
                       mx::astype(q.array(2), mx::float32), c.group, c.bits));
    const auto values = test::to_floats(dequantize(w));
    ASSERT_EQ(values.size(), expected.size());
    const float most = std::fabs(*std::max_element(
        expected.begin(), expected.end(),
        [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    for (size_t i = 0; i < values.size(); i++) {
      ASSERT_NEAR(values[i], expected[i], std::ldexp(4 * most, -24)) << i;
    }
    std::vector<float> row(kColumns);
    for (Isa isa : test::available_isas()) {
      use_isa(isa);
      const Tiles tiles{w.format, w.tiles.data<uint8_t>(), w.n, w.k};
      for (int n = 0; n < kRows; n++) {
        kernels().dequantize_row(tiles, n, row.data());
        ASSERT_TRUE(
            test::same_bits(row.data(), &values[n * kColumns], kColumns))
            << kernels().name << " row " << n;
      }
    }
  }
}

}  // namespace
}  // namespace quern
