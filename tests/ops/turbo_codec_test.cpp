// The turbo codec of one row: known answers, edge cases, and the vector kernels
// against the plain codec.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/crc32.h"
#include "ops/numbers.h"
#include "ops/simd/portable.h"
#include "ops/support.h"
#include "ops/turbo/codec.h"

namespace quern {
namespace {

using test::crc32;
using Bytes = std::vector<uint8_t>;
using Halves = std::vector<uint16_t>;
using Floats = std::vector<float>;

constexpr int kHeadDims[] = {64, 128, 256, 512};
constexpr int kKeyBits[] = {2, 4, 5, 8};
constexpr int kValueBits[] = {2, 3, 4, 5, 8};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Encoded {
  Bytes codes;
  Halves scales, zeros;
  bool operator==(const Encoded&) const = default;
};

struct Encoder {
  std::string name;
  decltype(Kernels::encode_turbo_keys) encode_keys;
  decltype(Kernels::encode_turbo_values) encode_values;

  Encoded keys(const Floats& x, int bits) const {
    const int D = int(x.size());
    Encoded e{Bytes(D * bits / 8), Halves(D / 32), Halves(D / 32)};
    encode_keys(x.data(), D, bits, e.codes.data(), e.scales.data(),
                e.zeros.data());
    return e;
  }
  Encoded values(const Floats& x, int bits) const {
    const int D = int(x.size());
    Encoded e{Bytes(D * bits / 8), Halves(D / 32), {}};
    encode_values(x.data(), D, bits, e.codes.data(), e.scales.data());
    return e;
  }
};

const Encoder kPlain{"plain", turbo::encode_keys, turbo::encode_values};

// The plain codec and each instruction set this CPU has.
std::vector<Encoder> encoders() {
  std::vector<Encoder> all{kPlain};
  const std::string chosen = kernels().name;
  std::vector<Isa> isas = test::available_isas();
  std::stable_partition(isas.begin(), isas.end(),
                        [&](Isa isa) { return isa_name(isa) != chosen; });
  for (Isa isa : isas) {  // ends with the one in use
    use_isa(isa);
    all.push_back({isa_name(isa), kernels().encode_turbo_keys,
                   kernels().encode_turbo_values});
  }
  return all;
}

class TurboEncoder : public testing::TestWithParam<Encoder> {};
INSTANTIATE_TEST_SUITE_P(Codec, TurboEncoder, testing::ValuesIn(encoders()),
                         [](const auto& info) { return info.param.name; });

Floats decoded_keys(const Encoded& e, int bits) {
  const int D = int(e.codes.size()) * 8 / bits;
  Floats out(D);
  turbo::decode_keys(e.codes.data(), {e.scales.data()}, {e.zeros.data()}, D,
                     bits, out.data());
  return out;
}

Floats rotated_values(const Encoded& e, int bits) {
  const int D = int(e.codes.size()) * 8 / bits;
  Floats out(D);
  turbo::decode_values(e.codes.data(), {e.scales.data()}, D, bits,
                       turbo::centroids(bits), out.data());
  return out;
}

Floats eager_values(const Encoded& e, int bits) {
  Floats y = rotated_values(e, bits);
  turbo::unrotate(y.data(), int(y.size()));
  return y;
}

Halves as_bf16(const Floats& x) {
  Halves out(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    out[i] = portable::float_to_bfloat(x[i]);
  }
  return out;
}

template <class T>
uint32_t crc(const std::vector<T>& v) {
  return crc32(v.data(), v.size() * sizeof(T));
}

Bytes from_hex(const std::string& hex) {
  Bytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(uint8_t(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// The row of the known answers, exact in f32.
Floats known_row(int D) {
  Floats x(D);
  for (int i = 0; i < D; i++) {
    x[i] = D == 64 ? float(37 * i % 64 - 32) / 16
                   : float((37 * i + 11) % 257 - 128) / 64;
  }
  return x;
}

// CRC-32 of: codes, scales, zeros, decoded bf16; of values: codes, scales,
// eager bf16, deferred bf16. Made with another implementation.
struct Known {
  int head_dim, bits;
  uint32_t crc[4];
};
const Known kKnownKeys[] = {
    {64, 8, {0x03c5442a, 0x16d1e056, 0x2b8f8bec, 0x8a86fb34}},
    {64, 5, {0xd5400a49, 0x40fbeeff, 0x2b233ea3, 0x53b46f32}},
    {64, 4, {0x521c7ccf, 0x92d512ba, 0x2b475266, 0x59a7b122}},
    {64, 2, {0xcccf8574, 0xf93e5be7, 0x2b8f8bec, 0xcdd4455b}},
    {128, 8, {0x00f76a02, 0xd50abcab, 0xf724ea26, 0x5e378e12}},
    {128, 5, {0x8d3f69b4, 0x05c5ea79, 0x14f4493e, 0x1aea8453}},
    {128, 4, {0x1314fa64, 0x949d291b, 0xcbe6b734, 0x01f17859}},
    {128, 2, {0x14fca2b5, 0x0655cee3, 0x76c3f107, 0xfe7a2bfa}},
    {256, 8, {0x95999a82, 0xfa308719, 0xfd3e2ebb, 0xab86cbb1}},
    {256, 5, {0xd122342d, 0xcb16bafc, 0xa655f228, 0xd4fade60}},
    {256, 4, {0xb0adec85, 0x0bf8bdf6, 0x7a37fdf5, 0x543fbf6b}},
    {256, 2, {0x09df6af6, 0x1663e9e0, 0x020a2132, 0x7ab0b0d2}},
    {512, 8, {0x88b19fd4, 0x1a306084, 0xc5d6b20a, 0x7b81c715}},
    {512, 5, {0x99e018f0, 0xdecf56d5, 0x327d9953, 0xcb00498a}},
    {512, 4, {0x16c34c1e, 0xea646263, 0x7990d2c3, 0x1ae8bd3b}},
    {512, 2, {0xd7488ba2, 0x09fa67a5, 0xf7e7cb14, 0xd88c48d4}},
};
const Known kKnownValues[] = {
    {64, 2, {0x85ed059c, 0xcc46225d, 0xb9755ae1, 0x5523a9f3}},
    {64, 3, {0x7e1cf3fe, 0xcc46225d, 0xd654377f, 0xb9c01677}},
    {64, 4, {0x824e124c, 0xcc46225d, 0x64f179b8, 0x9a20f97d}},
    {64, 5, {0x8f53f6be, 0xcc46225d, 0xdb78e99f, 0xb3c4a9d6}},
    {64, 8, {0x33f5e23f, 0xcc46225d, 0x2066802d, 0x35957685}},
    {128, 2, {0x0b126c5f, 0xa0e672e1, 0x9aa4f506, 0xcbc505d3}},
    {128, 3, {0x47b70edc, 0xa0e672e1, 0xf6595ea6, 0xf2e91fb1}},
    {128, 4, {0xa0a8a43a, 0xa0e672e1, 0xbdf522a1, 0xbaaad285}},
    {128, 5, {0x19d1b5de, 0xa0e672e1, 0x88bb2d15, 0xf0a963ea}},
    {128, 8, {0x3d221a50, 0xa0e672e1, 0x6c0eb67e, 0xff5a30ac}},
    {256, 2, {0xc71ddbb2, 0x874088e3, 0x76fce184, 0x2b8b37fa}},
    {256, 3, {0xa006c10e, 0x874088e3, 0xb68f229e, 0x1f13f03d}},
    {256, 4, {0x30838417, 0x874088e3, 0xb07107bd, 0x60038b27}},
    {256, 5, {0xc6ceb972, 0x874088e3, 0x7c9509ce, 0x34970b53}},
    {256, 8, {0x28cf90d0, 0x874088e3, 0xe840d357, 0x5f29c23e}},
    {512, 2, {0xfcff5715, 0x214191ef, 0x6df64f61, 0x59cf3663}},
    {512, 3, {0xdca6ed2e, 0x214191ef, 0x6240842a, 0xb5d00899}},
    {512, 4, {0x79d49d5c, 0x214191ef, 0x52255dce, 0x7e830033}},
    {512, 5, {0x758baf52, 0x214191ef, 0x8aa587ed, 0xfa32de66}},
    {512, 8, {0x33d11223, 0x214191ef, 0x5eed90b1, 0xcab83bd4}},
};

TEST_P(TurboEncoder, KnownKeys) {
  for (const Known& known : kKnownKeys) {
    SCOPED_TRACE(testing::Message() << known.head_dim << " k" << known.bits);
    const Encoded e = GetParam().keys(known_row(known.head_dim), known.bits);
    EXPECT_EQ(crc(e.codes), known.crc[0]);
    EXPECT_EQ(crc(e.scales), known.crc[1]);
    EXPECT_EQ(crc(e.zeros), known.crc[2]);
    EXPECT_EQ(crc(as_bf16(decoded_keys(e, known.bits))), known.crc[3]);
  }
}

TEST_P(TurboEncoder, KnownValues) {
  for (const Known& known : kKnownValues) {
    SCOPED_TRACE(testing::Message() << known.head_dim << " v" << known.bits);
    const Encoded e = GetParam().values(known_row(known.head_dim), known.bits);
    EXPECT_EQ(crc(e.codes), known.crc[0]);
    EXPECT_EQ(crc(e.scales), known.crc[1]);
    EXPECT_EQ(crc(as_bf16(eager_values(e, known.bits))), known.crc[2]);
    EXPECT_EQ(crc(as_bf16(rotated_values(e, known.bits))), known.crc[3]);
  }
}

TEST_P(TurboEncoder, FirstBytes) {
  const Floats x = known_row(128);
  auto starts = [](const Bytes& codes, const char* hex) {
    const Bytes expected = from_hex(hex);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), codes.begin()))
        << hex;
  };
  const Encoded k8 = GetParam().keys(x, 8), v3 = GetParam().values(x, 3);
  starts(k8.codes, "81aad3fc264f7883");
  starts(GetParam().keys(x, 4).codes, "3085ca0f53a8fd31");
  starts(GetParam().keys(x, 5).codes, "a0a847b307453daa");
  starts(v3.codes, "2b67efffd269a727");
  starts(GetParam().values(x, 4).codes, "a768ccf7dd376a74");
  EXPECT_EQ(k8.scales, (Halves{0x232e, 0x232e, 0x2404, 0x232e}));
  // -3, 8, -0, -13
  EXPECT_EQ(k8.zeros, (Halves{0xc200, 0x4800, 0x8000, 0xca80}));
  EXPECT_EQ(v3.scales, (Halves{0x3d19, 0x3d20, 0x3cc2, 0x3adf}));
  const Halves eager = as_bf16(eager_values(v3, 3));
  const float start[] = {-2.1875f, -1.40625f, -0.85546875f, 0.146484375f};
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(number_at(eager.data(), qmm::Number::bf16, i), start[i]);
  }
}

TEST_P(TurboEncoder, WorkedRow) {
  const Floats x = known_row(64);
  const Encoded k8 = GetParam().keys(x, 8);
  EXPECT_EQ(k8.codes,
            from_hex("8116a93ed267fa8d22b54bde7306992ec157ea7f12a53ace63f6891e"
                     "b147da6f02922cbb55e57f0e9e38c862f1811bab45d46efe8d27b751"
                     "e17b0a9a34c45eed"));
  EXPECT_EQ(k8.scales, (Halves{0x23f0, 0x23af}));
  EXPECT_EQ(k8.zeros, (Halves{0xc000, 0xc000}));
  const Halves keys = as_bf16(decoded_keys(k8, 8));
  const float start[] = {-2, 0.310546875f, -1.3828125f, 0.9296875f};
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(number_at(keys.data(), qmm::Number::bf16, i), start[i]);
  }
  const Encoded k4 = GetParam().keys(x, 4);
  EXPECT_EQ(k4.codes, from_hex("90c3e5183a6c8fb2d4f7395b7ea1c3e6184a6d9fb2e5073"
                               "95c8ea1d4f6284b7d"));
  EXPECT_EQ(k4.scales, (Halves{0x3433, 0x3411}));
  EXPECT_EQ(k4.zeros, (Halves{0xc800, 0xc800}));  // -8
  const Encoded k5 = GetParam().keys(x, 5);
  EXPECT_EQ(k5.codes, from_hex("4096abf813f464e6e1a848b72fcb55fc8569f0ea50d4a3d"
                               "997e426eec02c58f527ead1ecc761d16e"));
  EXPECT_EQ(k5.zeros, (Halves{0xcc00, 0xcc00}));  // -16
  const Encoded k2 = GetParam().keys(x, 2);
  EXPECT_EQ(k2.codes, from_hex("d86db6dbed769bed66bbdd62b7d96eb7"));
  EXPECT_EQ(k2.zeros, (Halves{0xc000, 0xc000}));
  const Encoded v3 = GetParam().values(x, 3);
  EXPECT_EQ(v3.codes,
            from_hex("aa93519f257613247e65b62254448f49b72b940acf9bd644"));
  EXPECT_EQ(v3.scales, (Halves{0x3cd0, 0x3c6c}));
  const Halves values = as_bf16(eager_values(v3, 3));
  const float eager[] = {-1.9296875f, 0.353515625f, -1.296875f,
                         1.1015625f,  -0.546875f,   1.7265625f};
  for (int i = 0; i < 6; i++) {
    EXPECT_EQ(number_at(values.data(), qmm::Number::bf16, i), eager[i]);
  }
}

// The known defect: the zero of a constant group overflows f16.
TEST_P(TurboEncoder, ConstantKeysDecodeToNan) {
  for (int bits : kKeyBits) {
    const Encoded e = GetParam().keys(Floats(64, 0.5f), bits);
    EXPECT_EQ(e.codes, Bytes(64 * bits / 8));
    EXPECT_EQ(e.scales, (Halves{0, 0}));
    EXPECT_EQ(e.zeros, (Halves{0x7c00, 0x7c00}));
    EXPECT_EQ(as_bf16(decoded_keys(e, bits)), Halves(64, 0x7fc0));
  }
  const Encoded negative = GetParam().keys(Floats(64, -0.5f), 8);
  EXPECT_EQ(negative.zeros, (Halves{0xfc00, 0xfc00}));
  EXPECT_EQ(as_bf16(decoded_keys(negative, 8)), Halves(64, 0x7fc0));
}

TEST_P(TurboEncoder, SmallConstantKeysDecodeToZero) {
  for (int bits : kKeyBits) {
    const Encoded e = GetParam().keys(Floats(64, 1e-4f), bits);
    EXPECT_EQ(e.codes, Bytes(64 * bits / 8));
    EXPECT_EQ(e.scales, (Halves{0, 0}));
    EXPECT_EQ(e.zeros, (Halves{0x70e2, 0x70e2}));  // 1e4
    EXPECT_EQ(as_bf16(decoded_keys(e, bits)), Halves(64, 0));
  }
}

TEST_P(TurboEncoder, Zeros) {
  for (int bits : kKeyBits) {
    const Encoded e = GetParam().keys(Floats(64), bits);
    EXPECT_EQ(e, (Encoded{Bytes(64 * bits / 8), {0, 0}, {0, 0}}));
    EXPECT_EQ(as_bf16(decoded_keys(e, bits)), Halves(64, 0));
  }
  const Encoded v = GetParam().values(Floats(64), 3);
  Bytes codes(64);
  turbo::unpack_bits(v.codes.data(), 64, 3, codes.data());
  EXPECT_EQ(codes, Bytes(64, 3));
  EXPECT_EQ(v.scales, (Halves{0, 0}));
  EXPECT_EQ(as_bf16(rotated_values(v, 3)), Halves(64, 0x8000));
}

// -0 is the least of zeros, wherever it stands.
TEST_P(TurboEncoder, SignOfZero) {
  for (int at : {0, 1, 17, 31}) {
    Floats x(32, 0.f);
    x[at] = -0.f;
    for (int bits : {2, 4, 5}) {
      EXPECT_EQ(GetParam().keys(x, bits).zeros, Halves{0x8000});
    }
    EXPECT_EQ(GetParam().keys(x, 8).zeros, Halves{0});
  }
  EXPECT_EQ(GetParam().keys(Floats(32, -0.f), 8).zeros, Halves{0x8000});
}

TEST_P(TurboEncoder, AnOutlierSpoilsItsGroupOnly) {
  Floats x = test::normal_floats(128, 3, 0.01f);
  const Encoded plain = GetParam().keys(x, 8);
  x[40] = 1000;
  const Encoded e = GetParam().keys(x, 8);
  for (int g : {0, 2, 3}) {
    EXPECT_EQ(e.scales[g], plain.scales[g]);
    EXPECT_EQ(e.zeros[g], plain.zeros[g]);
    EXPECT_TRUE(std::equal(&e.codes[g * 32], &e.codes[g * 32] + 32,
                           &plain.codes[g * 32]));
  }
  for (int i = 32; i < 64; i++) {
    EXPECT_EQ(int8_t(e.codes[i]), i == 40 ? 127 : -127) << i;
  }
}

TEST_P(TurboEncoder, NotFiniteDecodesToNan) {
  for (float odd : {kNan, -kNan, kInf, -kInf}) {
    for (int at : {0, 5, 31, 63}) {
      Floats x = test::normal_floats(128, 4);
      const Floats finite = x;
      x[32 + at] = odd;
      const int spoilt = (32 + at) / 32;
      for (int bits : kKeyBits) {
        Encoded e = GetParam().keys(x, bits);
        const Encoded expected = GetParam().keys(finite, bits);
        for (int g = 0; g < 4; g++) {
          const Bytes codes(&e.codes[g * 4 * bits],
                            &e.codes[g * 4 * bits] + 4 * bits);
          const Bytes whole(&expected.codes[g * 4 * bits],
                            &expected.codes[g * 4 * bits] + 4 * bits);
          EXPECT_EQ(codes, g == spoilt ? Bytes(4 * bits) : whole);
          EXPECT_EQ(e.scales[g], g == spoilt ? 0x7e00 : expected.scales[g]);
          EXPECT_EQ(e.zeros[g], g == spoilt ? 0x7e00 : expected.zeros[g]);
        }
        const Floats back = decoded_keys(e, bits);
        for (int i = 0; i < 128; i++) {
          EXPECT_EQ(std::isnan(back[i]), i / 32 == spoilt);
        }
      }
      for (int bits : kValueBits) {
        const Encoded e = GetParam().values(x, bits);
        EXPECT_EQ(e, (Encoded{Bytes(16 * bits), Halves(4, 0x7e00), {}}));
        EXPECT_EQ(as_bf16(eager_values(e, bits)), Halves(128, 0x7fc0));
      }
    }
  }
}

TEST_P(TurboEncoder, HugeFiniteNumbers) {
  for (float huge : {3e38f, 1e31f, -3e38f}) {
    for (int bits : kKeyBits) {
      const Encoded e = GetParam().keys(Floats(64, huge), bits);
      EXPECT_EQ(e.codes, Bytes(64 * bits / 8));
      EXPECT_EQ(e.scales, (Halves{0, 0}));
      EXPECT_EQ(e.zeros, Halves(2, huge > 0 ? 0x7c00 : 0xfc00));
    }
  }
  Floats ends(32, 0.f);
  ends[0] = -3e38f;
  ends[31] = 3e38f;  // a range beyond f32
  EXPECT_EQ(GetParam().keys(ends, 8).scales, Halves{0x7c00});
  for (int bits : kValueBits) {
    const Encoded e = GetParam().values(Floats(64, 3e38f), bits);
    EXPECT_EQ(e.scales[0], 0x7e00);  // overflow in the transform
  }
}

// Rows as caches have them, and rows that are hard.
std::vector<Floats> odd_rows(int D, int seed) {
  std::vector<Floats> rows;
  for (float scale : {1.f, 1e-3f, 1e-20f, 1e-38f, 1e3f, 1e30f}) {
    rows.push_back(test::normal_floats(D, seed++, scale));
  }
  for (float offset : {1.f, -20.f, 300.f, 1e5f}) {
    Floats x = test::normal_floats(D, seed++, 0.1f);
    for (float& v : x) v += offset;
    rows.push_back(x);
  }
  Floats integers = test::normal_floats(D, seed++, 3.f);  // ties
  for (float& v : integers) v = std::nearbyint(v);
  rows.push_back(integers);
  Floats mixed = test::normal_floats(D, seed++);
  std::fill_n(mixed.begin(), 32, 0.25f);
  mixed[40] = 1e4f;
  for (int i = 34; i < 64; i += 3) mixed[i] = i % 2 ? 0.f : -0.f;
  rows.push_back(mixed);
  for (float odd : {kInf, -kInf, kNan}) {
    rows.push_back(rows[0]);
    rows.back()[D - 7] = odd;
  }
  rows.push_back(Floats(D, 0.f));
  rows.push_back(Floats(D, -0.f));
  rows.push_back(Floats(D, 7.f));
  return rows;
}

TEST_P(TurboEncoder, EqualsThePlainCodec) {
  for (int D : kHeadDims) {
    for (int seed = 0; seed < 40; seed++) {
      for (const Floats& x : odd_rows(D, 1000 * seed)) {
        for (int bits : kKeyBits) {
          ASSERT_EQ(GetParam().keys(x, bits), kPlain.keys(x, bits))
              << D << " k" << bits << " seed " << seed;
        }
        for (int bits : kValueBits) {
          ASSERT_EQ(GetParam().values(x, bits), kPlain.values(x, bits))
              << D << " v" << bits << " seed " << seed;
        }
      }
    }
  }
}

TEST(TurboDecoder, VectorsDecodeAsThePlainCodec) {
  for (Isa isa : test::available_isas()) {
    use_isa(isa);
    for (int D : kHeadDims) {
      for (const Floats& x : odd_rows(D, D)) {
        for (int group : {32, 64}) {
          const Floats scales = test::normal_floats(D / group, group);
          const Floats zeros = test::normal_floats(D / group, D);
          Floats out(D), expected(D);
          for (int bits : kKeyBits) {
            const Encoded e = kPlain.keys(x, bits);
            kernels().decode_turbo_keys(e.codes.data(), scales.data(),
                                        zeros.data(), group, D, bits,
                                        out.data());
            turbo::decode_keys(e.codes.data(),
                               {scales.data(), qmm::Number::f32, group},
                               {zeros.data(), qmm::Number::f32, group}, D, bits,
                               expected.data());
            ASSERT_TRUE(test::same_bits(out, expected)) << D << " k" << bits;
          }
          for (int bits : kValueBits) {
            const Encoded e = kPlain.values(x, bits);
            kernels().decode_turbo_values(e.codes.data(), scales.data(), group,
                                          D, bits, turbo::centroids(bits),
                                          out.data());
            turbo::decode_values(e.codes.data(),
                                 {scales.data(), qmm::Number::f32, group}, D,
                                 bits, turbo::centroids(bits), expected.data());
            ASSERT_TRUE(test::same_bits(out, expected)) << D << " v" << bits;
          }
        }
      }
    }
  }
}

TEST_P(TurboEncoder, KeysTakeAnyWholeGroups) {
  const Floats x = test::normal_floats(96, 1);
  const Floats last(x.begin() + 64, x.end());
  for (int bits : kKeyBits) {
    const Encoded e = GetParam().keys(x, bits);
    const Encoded alone = GetParam().keys(last, bits);
    EXPECT_TRUE(
        std::equal(alone.codes.begin(), alone.codes.end(), &e.codes[8 * bits]));
    EXPECT_EQ(e.scales[2], alone.scales[0]);
  }
}

double mean_square(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += std::pow(double(a[i]) - b[i], 2);
  return sum / double(a.size());
}

// The other known defect: an integer in f16 is exact to 2048 only, so keys far
// from zero lose their codes. Errors as measured on another implementation.
TEST(TurboDefects, KeysFarFromZeroAreCoarse) {
  const std::pair<float, double> known[] = {
      {0, .0024}, {20, .0071}, {50, .0151}, {100, .0298}};
  for (const auto& [mean, error] : known) {
    Floats x = test::normal_floats(512 * 100, 1, 0.5f), back;
    for (float& v : x) v += mean;
    for (size_t at = 0; at < x.size(); at += 512) {
      const Floats row(&x[at], &x[at] + 512);
      const Floats decoded = decoded_keys(kPlain.keys(row, 8), 8);
      back.insert(back.end(), decoded.begin(), decoded.end());
    }
    EXPECT_NEAR(std::sqrt(mean_square(x, back)), error, 0.05 * error) << mean;
  }
  Floats narrow(32);
  for (int i = 0; i < 32; i++) narrow[i] = 1 + 0.01f * float(i) / 31;
  const Encoded e = kPlain.keys(narrow, 8);
  EXPECT_EQ(int(number_at(e.zeros.data(), qmm::Number::f16, 0)) % 16, 0);
}

// Squared error on unit normal rows, relative to theirs.
TEST(TurboQuality, OnNormalRows) {
  constexpr int D = 128;
  auto error = [&](auto roundtrip) {
    double sum = 0;
    for (int seed = 0; seed < 400; seed++) {
      const Floats x = test::normal_floats(D, seed);
      sum += mean_square(x, roundtrip(x)) / mean_square(x, Floats(D));
    }
    return sum / 400;
  };
  const std::pair<int, double> keys[] = {
      {8, 2.28e-5}, {5, 1.53e-3}, {4, 6.5e-3}, {2, .165}};
  for (const auto& [bits, known] : keys) {
    EXPECT_NEAR(error([&, b = bits](const Floats& x) {
                  return decoded_keys(kPlain.keys(x, b), b);
                }),
                known, 0.05 * known)
        << bits;
  }
  const std::pair<int, double> values[] = {
      {8, 1.0e-4}, {5, .00237}, {4, .00894}, {3, .0323}, {2, .1117}};
  for (const auto& [bits, known] : values) {
    EXPECT_NEAR(error([&, b = bits](const Floats& x) {
                  return eager_values(kPlain.values(x, b), b);
                }),
                known, 0.05 * known)
        << bits;
  }
}

TEST(TurboPacking, Vectors) {
  struct Case {
    int bits;
    Bytes codes;
    const char* packed;
  };
  const Case cases[] = {
      {2, {0, 1, 2, 3}, "E4"},
      {3, {0, 1, 2, 3, 4, 5, 6, 7}, "88C6FA"},
      {4, {1, 2, 15, 8}, "218F"},
      {5, {0, 1, 2, 3, 4, 5, 6, 7}, "2088418A39"},
      {5, {31, 0, 17, 9, 30, 1, 2, 16}, "1FC4E48380"},
      {8, {0, 129, 255}, "0081FF"},
  };
  for (const Case& c : cases) {
    const int count = int(c.codes.size());
    Bytes packed(count * c.bits / 8), back(count);
    turbo::pack_bits(c.codes.data(), count, c.bits, packed.data());
    EXPECT_EQ(packed, from_hex(c.packed));
    turbo::unpack_bits(packed.data(), count, c.bits, back.data());
    EXPECT_EQ(back, c.codes);
  }
}

TEST(TurboFwht, EqualsMlxToTheBit) {
  for (int D : kHeadDims) {
    const int rows = 1000;
    const Floats x = test::normal_floats(rows * D, D);
    const Floats expected = test::to_floats(
        test::mx::hadamard_transform(test::to_array(x, {rows, D})));
    Floats plain = x;
    for (int r = 0; r < rows; r++) turbo::fwht(&plain[r * D], D);
    EXPECT_TRUE(test::same_bits(plain, expected)) << D;
    for (Isa isa : test::available_isas()) {
      use_isa(isa);
      Floats y = x;
      for (int r = 0; r < rows; r++) kernels().fwht(&y[r * D], D);
      EXPECT_TRUE(test::same_bits(y, expected)) << D << isa_name(isa);
    }
  }
}

// As bytes in which a set bit means +1: another way to write the table.
TEST(TurboTables, Signs) {
  const std::pair<int, const char*> known[] = {
      {64, "71ab9648fdb7219d"},
      {128, "f220c695affd63952ac87cb521a69feb"},
      {256, "edcf199deeb532ef90eb925636a1632c640dd0c58ca2d84d9426cfa8a83c7401"},
      {512,
       "42b4c98ff21c049d9c1bc62b9e2d35a37083b864bced2216cf21d5ab453545887bc178"
       "eee7eab3653a5cfbcde08d7ea2adeb7d753d64587110b4f1ad926294d6"}};
  for (const auto& [D, hex] : known) {
    const Bytes bytes = from_hex(hex);
    ASSERT_EQ(int(bytes.size()) * 8, D);
    for (int i = 0; i < D; i++) {
      EXPECT_EQ(turbo::signs(D)[i], bytes[i / 8] >> i % 8 & 1 ? 1.f : -1.f);
    }
  }
  EXPECT_EQ(turbo::signs(96), nullptr);
  EXPECT_EQ(turbo::centroids(6), nullptr);
}

}  // namespace
}  // namespace quern
