// Affine codes of rows against MLX's own quantize.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/affine/codec.h"
#include "ops/numbers.h"
#include "ops/support.h"

namespace quern {
namespace {

namespace mx = mlx::core;
using qmm::Number;
using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

struct Encoder {
  std::string name;
  decltype(Kernels::encode_affine) encode;
};

// The plain codec and each instruction set this CPU has.
std::vector<Encoder> encoders() {
  std::vector<Encoder> all{{"plain", affine::encode}};
  const std::string chosen = kernels().name;
  std::vector<Isa> isas = test::available_isas();
  std::stable_partition(isas.begin(), isas.end(),
                        [&](Isa isa) { return isa_name(isa) != chosen; });
  for (Isa isa : isas) {  // ends with the one in use
    use_isa(isa);
    all.push_back({isa_name(isa), kernels().encode_affine});
  }
  return all;
}

struct Case {
  Number number;
  mx::Dtype dtype;
};
const Case kNumbers[] = {{Number::f32, mx::float32},
                         {Number::f16, mx::float16},
                         {Number::bf16, mx::bfloat16}};

struct Encoded {
  Bytes codes, scales, biases;
  bool operator==(const Encoded&) const = default;
};

class AffineEncoder : public testing::TestWithParam<Encoder> {
 protected:
  static Encoded encode(const Floats& x, int bits, int group, Number number) {
    const size_t scales = x.size() / group * qmm::number_bytes(number);
    Encoded e{Bytes(x.size() * bits / 8), Bytes(scales), Bytes(scales)};
    GetParam().encode(x.data(), int(x.size()), bits, group, number,
                      e.codes.data(), e.scales.data(), e.biases.data());
    return e;
  }
};
INSTANTIATE_TEST_SUITE_P(Codec, AffineEncoder, testing::ValuesIn(encoders()),
                         [](const auto& info) { return info.param.name; });

Bytes bytes_of(const mx::array& a) {
  mx::array row = mx::contiguous(a);
  mx::eval(row);
  const uint8_t* p = row.data<uint8_t>();
  return {p, p + row.nbytes()};
}

Floats odd_numbers(int seed, int size) {
  Floats x;
  auto add = [&](float scale, float offset) {
    for (float v : test::normal_floats(size, ++seed, scale)) {
      x.push_back(v + offset);
    }
  };
  for (float scale : {1.f, 1e-3f, 1e-9f, 300.f}) add(scale, 0);
  for (float offset : {1.f, -30.f, 1000.f}) add(0.1f, offset);
  for (float v : test::normal_floats(size, ++seed, 4.f)) {
    x.push_back(std::nearbyint(v));  // ties
  }
  for (float constant : {0.f, -0.f, 0.5f, -3.f, 6e-8f}) {
    x.insert(x.end(), size, constant);
  }
  Floats outlier = test::normal_floats(size, ++seed, 0.01f);
  outlier[5] = -1000;
  x.insert(x.end(), outlier.begin(), outlier.end());
  return x;
}

TEST_P(AffineEncoder, GivesMlxsBytes) {
  for (const Case& c : kNumbers) {
    for (int seed = 0; seed < 20; seed++) {
      const Floats any = odd_numbers(100 * seed, 512);
      const int size = int(any.size());
      const mx::array w = mx::astype(test::to_array(any, {1, size}), c.dtype);
      const Floats x = test::to_floats(w);
      for (int bits : {4, 8}) {
        for (int group : {32, 64}) {
          SCOPED_TRACE(testing::Message()
                       << bits << " bits, group " << group << " seed " << seed
                       << " number " << int(c.number));
          const auto expected = mx::quantize(w, group, bits);
          const Encoded e = encode(x, bits, group, c.number);
          ASSERT_EQ(e.codes, bytes_of(expected[0]));
          ASSERT_EQ(e.scales, bytes_of(expected[1]));
          ASSERT_EQ(e.biases, bytes_of(expected[2]));
        }
      }
    }
  }
}

TEST_P(AffineEncoder, DecodesAsMlxDoes) {
  const Floats x = odd_numbers(7, 128);
  const int size = int(x.size());
  for (int bits : {4, 8}) {
    for (int group : {32, 64}) {
      const Encoded e = encode(x, bits, group, Number::f32);
      Floats out(size);
      affine::decode(e.codes.data(), e.scales.data(), e.biases.data(), size,
                     bits, group, Number::f32, out.data());
      const auto q = mx::quantize(test::to_array(x, {1, size}), group, bits);
      const Floats expected =
          test::to_floats(mx::dequantize(q[0], q[1], q[2], group, bits));
      for (int i = 0; i < size; i++) {  // MLX may round once for twice
        ASSERT_NEAR(out[i], expected[i], std::ldexp(std::fabs(x[i]) + 1, -22));
      }
    }
  }
}

TEST_P(AffineEncoder, NotFiniteDecodesToNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float odd : {std::nanf(""), -std::nanf(""), kInf, -kInf}) {
    for (const Case& c : kNumbers) {
      for (int bits : {4, 8}) {
        Floats x = test::normal_floats(128, 1), out(128);
        x[37] = odd;
        const Encoded e = encode(x, bits, 32, c.number);
        EXPECT_EQ(Bytes(&e.codes[4 * bits], &e.codes[8 * bits]),
                  Bytes(4 * bits));
        affine::decode(e.codes.data(), e.scales.data(), e.biases.data(), 128,
                       bits, 32, c.number, out.data());
        for (int i = 0; i < 128; i++) {
          EXPECT_EQ(std::isnan(out[i]), i / 32 == 1) << i;
        }
        x[37] = 0;
        Encoded expected = encode(x, bits, 32, c.number);
        const int width = qmm::number_bytes(c.number);
        std::copy_n(&e.scales[width], width, &expected.scales[width]);
        std::copy_n(&e.biases[width], width, &expected.biases[width]);
        std::fill_n(&expected.codes[4 * bits], 4 * bits, 0);
        EXPECT_EQ(e, expected);  // the other groups as without it
      }
    }
  }
}

TEST_P(AffineEncoder, HugeFiniteNumbers) {
  for (float huge : {3e38f, -3e38f, 1e32f}) {
    const Encoded e = encode(Floats(32, huge), 8, 32, Number::f32);
    EXPECT_EQ(e.codes, Bytes(32));
    Floats out(32);
    affine::decode(e.codes.data(), e.scales.data(), e.biases.data(), 32, 8, 32,
                   Number::f32, out.data());
    EXPECT_EQ(out, Floats(32, huge));
  }
}

}  // namespace
}  // namespace quern
