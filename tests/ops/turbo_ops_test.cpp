// The turbo codec on arrays against the plain codec of rows and against its
// meaning in MLX's ops.
#include <cmath>

#include "ops/numbers.h"
#include "ops/support.h"
#include "ops/turbo/codec.h"
#include "ops/turbo/turbo.h"

namespace quern {
namespace {

namespace mx = mlx::core;
using mx::array;
using qmm::Number;
using turbo::KvBits;
using turbo::KvPlanes;
using turbo::ValueForm;
using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

constexpr int kHeadDims[] = {64, 128, 256, 512};
constexpr int kKeyBits[] = {2, 4, 5, 8};
constexpr int kValueBits[] = {2, 3, 4, 5, 8};

Bytes bytes_of(const array& a) {
  array row = mx::contiguous(a);
  mx::eval(row);
  const uint8_t* p = row.data<uint8_t>();
  return {p, p + row.nbytes()};
}
bool same_bytes(const array& a, const array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         bytes_of(a) == bytes_of(b);
}

// An array of plain bytes.
template <class T>
array from_bytes(const std::vector<T>& values, mx::Shape shape,
                 mx::Dtype dtype) {
  const auto* p = reinterpret_cast<const uint8_t*>(values.data());
  const int bytes = int(values.size() * sizeof(T));
  return mx::reshape(mx::view(array(p, {bytes}, mx::uint8), dtype), shape);
}

mx::Shape with_last(mx::Shape shape, int last) {
  shape.back() = last;
  return shape;
}

array random_input(mx::Shape shape, int seed, mx::Dtype dtype = mx::float32) {
  size_t size = 1;
  for (int n : shape) size *= size_t(n);
  Floats x = test::normal_floats(size, seed);
  for (size_t i = 0; i < size; i += 97) x[i] *= 50;
  std::fill_n(x.begin(), std::min<size_t>(size, 32), 0.f);
  return mx::astype(test::to_array(x, shape), dtype);
}

KvPlanes encoded(const array& k, const array& v, KvBits bits) {
  return {turbo::encode_keys(k, bits.keys),
          turbo::encode_values(v, bits.values)};
}

// The planes by the plain codec, row by row.
KvPlanes plainly_encoded(const array& k, const array& v, KvBits bits) {
  const Floats ks = test::to_floats(k), vs = test::to_floats(v);
  const int D = k.shape(-1), rows = int(ks.size()) / D, G = D / 32;
  std::vector<uint8_t> kc(ks.size() * bits.keys / 8),
      vc(ks.size() * bits.values / 8);
  std::vector<uint16_t> kscale(rows * G), kzero(rows * G), vscale(rows * G);
  for (int r = 0; r < rows; r++) {
    turbo::encode_keys(&ks[r * D], D, bits.keys, &kc[r * D * bits.keys / 8],
                       &kscale[r * G], &kzero[r * G]);
    turbo::encode_values(&vs[r * D], D, bits.values,
                         &vc[r * D * bits.values / 8], &vscale[r * G]);
  }
  const mx::Shape scales = with_last(k.shape(), G);
  return {{from_bytes(kc, with_last(k.shape(), D * bits.keys / 8),
                      bits.keys == 8 ? mx::int8 : mx::uint8),
           from_bytes(kscale, scales, mx::float16),
           from_bytes(kzero, scales, mx::float16)},
          {from_bytes(vc, with_last(k.shape(), D * bits.values / 8), mx::uint8),
           from_bytes(vscale, scales, mx::float16)}};
}

void expect_same(const KvPlanes& a, const KvPlanes& b) {
  EXPECT_TRUE(same_bytes(a.keys.codes, b.keys.codes));
  EXPECT_TRUE(same_bytes(a.keys.scales, b.keys.scales));
  EXPECT_TRUE(same_bytes(a.keys.zeros, b.keys.zeros));
  EXPECT_TRUE(same_bytes(a.values.codes, b.values.codes));
  EXPECT_TRUE(same_bytes(a.values.scales, b.values.scales));
}

// Planes decoded by the plain codec: keys and values in one of the forms.
struct Plain {
  Floats k, rotated, eager;
};
Plain plainly_decoded(const KvPlanes& p, KvBits bits, int D) {
  const Bytes kc = bytes_of(p.keys.codes), vc = bytes_of(p.values.codes);
  const Floats ks = test::to_floats(p.keys.scales),
               kz = test::to_floats(p.keys.zeros),
               vs = test::to_floats(p.values.scales);
  const int kg = p.keys.scales.shape(-1), vg = p.values.scales.shape(-1);
  const int rows = int(kc.size()) * 8 / bits.keys / D;
  Plain out{Floats(rows * D), Floats(rows * D), {}};
  for (int r = 0; r < rows; r++) {
    turbo::decode_keys(
        &kc[r * D * bits.keys / 8], {&ks[r * kg], Number::f32, D / kg},
        {&kz[r * kg], Number::f32, D / kg}, D, bits.keys, &out.k[r * D]);
    turbo::decode_values(&vc[r * D * bits.values / 8],
                         {&vs[r * vg], Number::f32, D / vg}, D, bits.values,
                         turbo::centroids(bits.values), &out.rotated[r * D]);
  }
  out.eager = out.rotated;
  for (int r = 0; r < rows; r++) turbo::unrotate(&out.eager[r * D], D);
  return out;
}

array as_bf16(const Floats& x, const mx::Shape& shape) {
  std::vector<uint16_t> bits(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    set_number(bits.data(), Number::bf16, int64_t(i), x[i]);
  }
  return from_bytes(bits, shape, mx::bfloat16);
}

// Views of larger arrays: tokens cut out, another order of axes, steps.
std::vector<array> views(int D, int seed, mx::Dtype dtype) {
  const array big = random_input({2, 3, 40, D}, seed, dtype);
  const array tokens_first = random_input({2, 9, 3, D}, seed + 1, dtype);
  const array columns = random_input({2, 5, D, 2}, seed + 2, dtype);
  return {
      big,
      mx::slice(big, {0, 0, 0, 0}, {2, 3, 17, D}),
      mx::slice(big, {1, 0, 5, 0}, {2, 3, 40, D}, {1, 2, 7, 1}),
      mx::slice(big, {0, 2, 30, 0}, {2, -4, 10, D}, {1, -1, -3, 1}),
      mx::transpose(tokens_first, {0, 2, 1, 3}),
      mx::transpose(columns, {0, 3, 1, 2}),  // the elements far apart
      mx::broadcast_to(mx::slice(big, {0, 0, 3, 0}, {1, 1, 4, D}),
                       {2, 2, 5, D}),
  };
}

class TurboOps : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(TurboOps);

TEST_P(TurboOps, EncodeViewsAsThePlainCodec) {
  int seed = 0;
  for (int D : kHeadDims) {
    for (mx::Dtype dtype : {mx::float32, mx::float16, mx::bfloat16}) {
      for (const array& x : views(D, seed += 10, dtype)) {
        const KvBits bits{kKeyBits[seed / 10 % 4], kValueBits[seed / 10 % 5]};
        SCOPED_TRACE(testing::Message() << D << " k" << bits.keys << "v"
                                        << bits.values << " of " << seed);
        const array v = mx::add(x, array(1, dtype));
        expect_same(encoded(x, v, bits), plainly_encoded(x, v, bits));
      }
    }
  }
}

TEST_P(TurboOps, AnyRankAndThreads) {
  for (int threads : {1, 3}) {
    set_threads(threads);
    const array big = random_input({700, 64}, 5);
    expect_same(encoded(big, big, {8, 3}), plainly_encoded(big, big, {8, 3}));
    const array one = random_input({128}, 6);
    expect_same(encoded(one, one, {4, 5}), plainly_encoded(one, one, {4, 5}));
    const array deep = random_input({2, 1, 3, 2, 2, 64}, 7);
    expect_same(encoded(deep, deep, {5, 2}),
                plainly_encoded(deep, deep, {5, 2}));
  }
}

TEST_P(TurboOps, DecodeAsThePlainCodec) {
  int seed = 0;
  for (int D : kHeadDims) {
    for (int kb : kKeyBits) {
      for (int vb : kValueBits) {
        SCOPED_TRACE(testing::Message() << D << " k" << kb << "v" << vb);
        const KvBits bits{kb, vb};
        const array x = random_input({2, 2, 3, D}, ++seed);
        const KvPlanes p = encoded(x, x, bits);
        const Plain plain = plainly_decoded(p, bits, D);
        EXPECT_TRUE(same_bytes(turbo::decode_keys(p.keys, kb),
                               as_bf16(plain.k, x.shape())));
        auto values = [&](ValueForm form) {
          return turbo::decode_values(p.values, vb, form);
        };
        const array rotated = values(ValueForm::rotated);
        EXPECT_EQ(rotated.dtype(), mx::float32);
        EXPECT_TRUE(test::same_bits(test::to_floats(rotated), plain.rotated));
        EXPECT_TRUE(same_bytes(values(ValueForm::deferred),
                               as_bf16(plain.rotated, x.shape())));
        EXPECT_TRUE(same_bytes(values(ValueForm::eager),
                               as_bf16(plain.eager, x.shape())));
      }
    }
  }
}

// Random planes, and their scales with other groups and types.
KvPlanes odd_planes(int D, KvBits bits, int key_group, int value_group,
                    mx::Dtype dtype, int seed) {
  const array x = random_input({2, 3, 40, D}, seed);
  const KvPlanes p = encoded(x, x, bits);
  auto scales = [&](const array& s, int group) {
    return mx::astype(
        mx::slice(s, {0, 0, 0, 0}, s.shape(), {1, 1, 1, group / 32}), dtype);
  };
  return {{p.keys.codes, scales(p.keys.scales, key_group),
           scales(p.keys.zeros, key_group)},
          {p.values.codes, scales(p.values.scales, value_group)}};
}

// The same cut of every plane.
template <class Cut>
KvPlanes cut(const KvPlanes& p, Cut view) {
  return {{view(p.keys.codes), view(p.keys.scales), view(p.keys.zeros)},
          {view(p.values.codes), view(p.values.scales)}};
}

void check_joint(const KvPlanes& p, KvBits bits, int D) {
  const Plain plain = plainly_decoded(p, bits, D);
  const mx::Shape shape = with_last(p.values.codes.shape(), D);
  const array table = turbo::centroid_array(bits.values);
  const auto eager = turbo::try_joint_decode(p, table, bits, D, false);
  ASSERT_TRUE(eager);
  EXPECT_EQ(eager->v.shape(), shape);
  EXPECT_EQ(eager->v.dtype(), mx::float32);
  EXPECT_TRUE(same_bytes(eager->k, as_bf16(plain.k, shape)));
  EXPECT_TRUE(test::same_bits(test::to_floats(eager->v), plain.rotated));
  const auto deferred = turbo::try_joint_decode(p, table, bits, D, true);
  ASSERT_TRUE(deferred);
  EXPECT_TRUE(same_bytes(deferred->k, as_bf16(plain.k, shape)));
  EXPECT_TRUE(same_bytes(deferred->v, as_bf16(plain.rotated, shape)));
  const auto whole =
      turbo::try_decode_inverse(p, table, turbo::sign_array(D), bits, D);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(same_bytes(whole->k, as_bf16(plain.k, shape)));
  EXPECT_TRUE(same_bytes(whole->v, as_bf16(plain.eager, shape)));
  for (bool defer : {false, true}) {
    const auto best = turbo::try_decode(p, bits, D, defer);
    ASSERT_TRUE(best);
    EXPECT_TRUE(same_bytes(best->k, whole->k));
    EXPECT_TRUE(same_bytes(best->v, (defer ? deferred : whole)->v));
  }
}

TEST_P(TurboOps, JointDecodeOfViews) {
  int seed = 0;
  for (int D : kHeadDims) {
    for (mx::Dtype dtype : {mx::float16, mx::bfloat16, mx::float32}) {
      for (int group : {32, 64}) {
        const KvBits bits{kKeyBits[++seed % 4], kValueBits[seed % 5]};
        SCOPED_TRACE(testing::Message() << D << " k" << bits.keys << "v"
                                        << bits.values << " group " << group);
        const KvPlanes p =
            odd_planes(D, bits, group, seed % 3 ? 32 : 64, dtype, seed);
        check_joint(p, bits, D);
        check_joint(cut(p,
                        [](const array& a) {
                          return mx::slice(a, {0, 0, 0, 0},
                                           {2, 3, 17, a.shape(3)});
                        }),
                    bits, D);
        check_joint(cut(p,
                        [](const array& a) {
                          return mx::slice(a, {1, 0, 38, 0},
                                           {2, 3, 3, a.shape(3)},
                                           {1, 2, -5, 1});
                        }),
                    bits, D);
        // Planes as a cache with tokens first would hold them.
        check_joint(cut(p,
                        [](const array& a) {
                          const array t =
                              mx::contiguous(mx::transpose(a, {0, 2, 3, 1}));
                          return mx::transpose(t, {0, 3, 1, 2});
                        }),
                    bits, D);
      }
    }
  }
}

TEST_P(TurboOps, JointDecodeOfRandomViews) {
  std::mt19937 random(7);
  auto draw = [&](int low, int high) {
    return low + int(random() % unsigned(high - low + 1));
  };
  for (int round = 0; round < 60; round++) {
    const int D = kHeadDims[draw(0, 3)];
    const KvBits bits{kKeyBits[draw(0, 3)], kValueBits[draw(0, 4)]};
    const mx::Shape shape = {draw(1, 3), draw(1, 4), draw(1, 60), D};
    const KvPlanes p = encoded(random_input(shape, 2 * round),
                               random_input(shape, 2 * round + 1), bits);
    mx::Shape from(4, 0), to(4, 0), step(4, 1);
    for (int axis = 0; axis < 3; axis++) {
      from[axis] = draw(0, shape[axis] - 1);
      to[axis] = draw(from[axis] + 1, shape[axis]);
      step[axis] = draw(1, 3);
    }
    const bool swapped = draw(0, 1);  // batch and heads
    SCOPED_TRACE(testing::Message() << "round " << round);
    check_joint(cut(p,
                    [&](const array& a) {
                      to[3] = a.shape(3);
                      const array view = mx::slice(a, from, to, step);
                      return swapped ? mx::swapaxes(view, 0, 1) : view;
                    }),
                bits, D);
  }
}

TEST_P(TurboOps, EveryWidthAndHeadInOneGo) {
  int seed = 50;
  for (int D : kHeadDims) {
    for (int kb : kKeyBits) {
      for (int vb : kValueBits) {
        SCOPED_TRACE(testing::Message() << D << " k" << kb << "v" << vb);
        const array x = random_input({1, 2, 5, D}, ++seed);
        check_joint(encoded(x, x, {kb, vb}), {kb, vb}, D);
      }
    }
  }
}

TEST_P(TurboOps, MeaningInMlxsOps) {
  int seed = 200;
  for (int D : kHeadDims) {
    for (int kb : kKeyBits) {
      for (int vb : kValueBits) {
        SCOPED_TRACE(testing::Message() << D << " k" << kb << "v" << vb);
        array x = random_input({1, 2, 7, D}, ++seed);
        if (seed % 4 == 0) {
          array bad = mx::full({1, 2, 1, D}, std::nanf(""), mx::float32);
          x = mx::concatenate({x, bad}, 2);
        }
        const KvPlanes p = encoded(x, x, {kb, vb});
        const KvPlanes meant{turbo::reference::encode_keys(x, kb),
                             turbo::reference::encode_values(x, vb)};
        expect_same(p, meant);
        for (const mx::Dtype to : {mx::bfloat16, mx::float32}) {
          EXPECT_TRUE(
              same_bytes(turbo::decode_keys(p.keys, kb, to),
                         turbo::reference::decode_keys(p.keys, kb, to)));
        }
        for (ValueForm form :
             {ValueForm::eager, ValueForm::rotated, ValueForm::deferred}) {
          EXPECT_TRUE(
              same_bytes(turbo::decode_values(p.values, vb, form),
                         turbo::reference::decode_values(p.values, vb, form)));
        }
      }
    }
  }
}

TEST_P(TurboOps, Unrotate) {
  for (int D : kHeadDims) {
    for (mx::Dtype dtype : {mx::float32, mx::float16, mx::bfloat16}) {
      const array x =
          mx::transpose(random_input({3, 4, D}, D, dtype), {1, 0, 2});
      const array expected = mx::astype(turbo::fwht(x, false), dtype);
      EXPECT_TRUE(same_bytes(turbo::unrotate(x), expected)) << D;
    }
  }
}

// Deferring is linear: attention on rotated values, rotated back once.
TEST_P(TurboOps, DeferredAttention) {
  constexpr int D = 128, T = 50;
  const array v = test::to_array(test::normal_floats(T * D, 9), {1, 1, T, D});
  const auto planes = turbo::encode_values(v, 3);
  const array p = mx::softmax(random_input({1, 1, 4, T}, 10), -1);
  auto attended = [&](ValueForm form) {
    return mx::matmul(
        p, mx::astype(turbo::decode_values(planes, 3, form), mx::float32));
  };
  const Floats eager = test::to_floats(attended(ValueForm::eager));
  const Floats deferred =
      test::to_floats(turbo::unrotate(attended(ValueForm::deferred)));
  for (size_t i = 0; i < eager.size(); i++) {
    ASSERT_NEAR(eager[i], deferred[i], 0.02f);  // bf16 in either space
  }
}

TEST(TurboOpsShapes, PackingOfArrays) {
  for (int bits : kValueBits) {
    const array codes =
        mx::astype(mx::remainder(mx::multiply(mx::arange(3 * 64), array(37)),
                                 array(1 << bits)),
                   mx::uint8);
    const array rows = mx::reshape(codes, {3, 64});
    const array packed = turbo::pack_bits(rows, bits);
    EXPECT_EQ(packed.shape(), (mx::Shape{3, 8 * bits}));
    EXPECT_TRUE(same_bytes(turbo::unpack_bits(packed, bits), rows));
    Bytes plain(3 * 8 * bits);
    turbo::pack_bits(bytes_of(codes).data(), 3 * 64, bits, plain.data());
    EXPECT_EQ(bytes_of(packed), plain);
  }
  EXPECT_EQ(turbo::packed_dim(128, 3), 48);
}

TEST(TurboOpsShapes, NothingToEncode) {
  const array x = mx::zeros({1, 2, 0, 64});
  const KvPlanes p = encoded(x, x, {4, 3});
  mx::eval(p.keys.codes, p.values.scales);
  EXPECT_EQ(p.keys.codes.shape(), (mx::Shape{1, 2, 0, 32}));
  EXPECT_EQ(p.values.scales.shape(), (mx::Shape{1, 2, 0, 2}));
  mx::eval(turbo::decode_keys(p.keys, 4));
}

TEST(TurboOpsShapes, InputsAreNotCopied) {
  const array x = random_input({1, 2, 20, 64}, 1);
  const KvPlanes p = cut(encoded(x, x, {8, 3}), [](const array& a) {
    return mx::slice(a, {0, 0, 2, 0}, {1, 2, 9, a.shape(3)});
  });
  const auto out = turbo::try_decode(p, {8, 3}, 64, false);
  ASSERT_TRUE(out);
  const std::vector<array> given = {p.keys.codes, p.keys.scales, p.keys.zeros,
                                    p.values.codes, p.values.scales};
  for (size_t i = 0; i < given.size(); i++) {
    EXPECT_EQ(out->k.inputs()[i].id(), given[i].id()) << i;
  }
  const array view = mx::transpose(x, {0, 2, 1, 3});
  EXPECT_EQ(turbo::encode_keys(view, 8).codes.inputs()[0].id(), view.id());
}

class TurboNull : public testing::Test {
 protected:
  static constexpr int D = 128;
  static constexpr KvBits kBits{8, 3};

  // Whether any of the three decodes these.
  static bool decodes(const KvPlanes& p, KvBits bits = kBits, int head_dim = D,
                      mx::StreamOrDevice s = {}) {
    const array table = turbo::is_value_bits(bits.values)
                            ? turbo::centroid_array(bits.values)
                            : turbo::centroid_array(3);
    const bool joint =
        turbo::try_joint_decode(p, table, bits, head_dim, true, s).has_value();
    EXPECT_EQ(
        turbo::try_joint_decode(p, table, bits, head_dim, false, s).has_value(),
        joint);
    const array signs =
        turbo::sign_array(turbo::is_head_dim(head_dim) ? head_dim : D);
    EXPECT_EQ(turbo::try_decode_inverse(p, table, signs, bits, head_dim, s)
                  .has_value(),
              joint);
    for (bool defer : {false, true}) {
      EXPECT_EQ(turbo::try_decode(p, bits, head_dim, defer, s).has_value(),
                joint);
    }
    return joint;
  }

  KvPlanes good_ = encoded(random_input({2, 3, 5, D}, 1),
                           random_input({2, 3, 5, D}, 2), kBits);
};

TEST_F(TurboNull, NotForGoodPlanes) { EXPECT_TRUE(decodes(good_)); }

TEST_F(TurboNull, HeadDimAndBits) {
  for (int head_dim : {0, 32, 96, 64, 256, 1024, -128}) {
    EXPECT_FALSE(decodes(good_, kBits, head_dim)) << head_dim;
  }
  for (int bits : {0, 1, 3, 6, 7, 16, -8}) {
    EXPECT_FALSE(decodes(good_, {bits, 3})) << bits;
  }
  for (int bits : {0, 1, 6, 7, 16, -3}) {
    EXPECT_FALSE(decodes(good_, {8, bits})) << bits;
  }
  const array x = random_input({1, 1, 2, 96}, 1);
  const auto keys = turbo::encode_keys(x, 8);
  EXPECT_FALSE(decodes({keys,
                        {mx::zeros({1, 1, 2, 36}, mx::uint8),
                         mx::zeros({1, 1, 2, 3}, mx::float16)}},
                       kBits, 96));
}

TEST_F(TurboNull, Types) {
  KvPlanes p = good_;
  for (mx::Dtype dtype : {mx::uint8, mx::int16, mx::float16}) {
    p = good_;
    p.keys.codes = mx::astype(p.keys.codes, dtype);
    EXPECT_FALSE(decodes(p));
  }
  p = encoded(random_input({1, 1, 2, D}, 1), random_input({1, 1, 2, D}, 1),
              {4, 3});
  EXPECT_TRUE(decodes(p, {4, 3}));
  p.keys.codes = mx::astype(p.keys.codes, mx::int8);
  EXPECT_FALSE(decodes(p, {4, 3}));
  p = good_;
  p.values.codes = mx::astype(p.values.codes, mx::int8);
  EXPECT_FALSE(decodes(p));
  for (mx::Dtype dtype : {mx::int16, mx::uint8, mx::complex64}) {
    for (int plane = 0; plane < 3; plane++) {
      p = good_;
      array& scales = plane == 0   ? p.keys.scales
                      : plane == 1 ? p.keys.zeros
                                   : p.values.scales;
      scales = mx::zeros(scales.shape(), dtype);
      EXPECT_FALSE(decodes(p)) << plane;
    }
  }
}

TEST_F(TurboNull, Tables) {
  auto joint = [&](const array& table) {
    const bool has =
        turbo::try_joint_decode(good_, table, kBits, D, true).has_value();
    EXPECT_EQ(
        turbo::try_decode_inverse(good_, table, turbo::sign_array(D), kBits, D)
            .has_value(),
        has);
    return has;
  };
  EXPECT_TRUE(joint(mx::zeros({8})));
  EXPECT_FALSE(joint(mx::zeros({16})));
  EXPECT_FALSE(joint(mx::zeros({7})));
  EXPECT_FALSE(joint(mx::zeros({1, 8})));
  EXPECT_FALSE(joint(mx::zeros({8}, mx::float16)));
  EXPECT_FALSE(joint(array(1.f)));
  auto inverse = [&](const array& signs) {
    return turbo::try_decode_inverse(good_, turbo::centroid_array(3), signs,
                                     kBits, D)
        .has_value();
  };
  EXPECT_TRUE(inverse(mx::ones({D})));
  EXPECT_FALSE(inverse(mx::ones({D / 2})));
  EXPECT_FALSE(inverse(mx::ones({D, 1})));
  EXPECT_FALSE(inverse(mx::ones({D}, mx::int32)));
}

// Every other rank of every plane, and every other size of every dimension.
TEST_F(TurboNull, RanksAndSizes) {
  auto planes = [](KvPlanes& p) {
    return std::vector<array*>{&p.keys.codes, &p.keys.scales, &p.keys.zeros,
                               &p.values.codes, &p.values.scales};
  };
  for (int i = 0; i < 5; i++) {
    KvPlanes p = good_;
    const array good = *planes(p)[i];
    *planes(p)[i] = mx::flatten(good, 0, 1);
    EXPECT_FALSE(decodes(p)) << i;
    *planes(p)[i] = mx::expand_dims(good, 0);
    EXPECT_FALSE(decodes(p)) << i;
    *planes(p)[i] = mx::zeros({}, good.dtype());
    EXPECT_FALSE(decodes(p)) << i;
    for (int axis = 0; axis < 4; axis++) {
      for (int size : {0, good.shape(axis) - 1, good.shape(axis) + 1}) {
        mx::Shape shape = good.shape();
        shape[axis] = size;
        *planes(p)[i] = mx::zeros(shape, good.dtype());
        EXPECT_FALSE(decodes(p)) << i << " " << axis << " " << size;
      }
    }
  }
  KvPlanes flat =
      cut(good_, [](const array& a) { return mx::flatten(a, 0, 1); });
  EXPECT_FALSE(decodes(flat));
}

TEST_F(TurboNull, Groups) {
  auto with_groups = [&](int keys, int values) {
    KvPlanes p = good_;
    p.keys.scales = mx::zeros({2, 3, 5, keys}, mx::float16);
    p.keys.zeros = mx::zeros({2, 3, 5, keys}, mx::float16);
    p.values.scales = mx::zeros({2, 3, 5, values}, mx::float16);
    return decodes(p);
  };
  for (int keys : {2, 4}) {
    for (int values : {2, 4}) EXPECT_TRUE(with_groups(keys, values));
  }
  for (int odd : {1, 3, 5, 8, 128}) {
    EXPECT_FALSE(with_groups(odd, 4)) << odd;
    EXPECT_FALSE(with_groups(4, odd)) << odd;
  }
}

TEST_F(TurboNull, NothingToDecode) {
  for (int axis : {0, 1, 2}) {
    mx::Shape shape = {2, 3, 5, D};
    shape[axis] = 0;
    const array x = mx::zeros(shape);
    EXPECT_FALSE(decodes(encoded(x, x, kBits))) << axis;
  }
}

TEST_F(TurboNull, TooManyElements) {
  auto wide = [&](int tokens) {
    auto broadcast = [&](const array& a) {
      return mx::broadcast_to(mx::slice(a, {0, 0, 0, 0}, {1, 1, 1, a.shape(3)}),
                              {4, 2, tokens, a.shape(3)});
    };
    return cut(good_, broadcast);  // not evaluated
  };
  EXPECT_TRUE(decodes(wide((1 << 22) - 1)));  // 2^32 - 1024 elements
  EXPECT_FALSE(decodes(wide(1 << 22)));
}

TEST_F(TurboNull, OtherDevices) {
  EXPECT_TRUE(decodes(good_, kBits, D, mx::new_stream(mx::Device::cpu)));
  // A stream needs no device behind it to be refused.
  const mx::Stream gpu(0, mx::Device::gpu);
  EXPECT_FALSE(turbo::try_joint_decode(good_, turbo::centroid_array(3), kBits,
                                       D, true, gpu));
  EXPECT_FALSE(turbo::try_decode_inverse(good_, turbo::centroid_array(3),
                                         turbo::sign_array(D), kBits, D, gpu));
  EXPECT_FALSE(turbo::try_decode(good_, kBits, D, false, gpu));
}

TEST_F(TurboNull, TracedArrays) {
  for (bool shapeless : {false, true}) {
    bool decoded = true;
    auto traced = mx::compile(
        [&](const std::vector<array>& in) {
          KvPlanes p = good_;
          p.values.scales = in[0];
          decoded = decodes(p);
          return std::vector<array>{mx::add(in[0], in[0])};
        },
        shapeless);
    mx::eval(traced({good_.values.scales}));
    EXPECT_FALSE(decoded);
  }
}

// The ordinary functions say what they got.
TEST(TurboOpsErrors, SayWhatWasExpected) {
  using test::error_of;
  auto keys = [](mx::Shape shape, int bits, mx::Dtype dtype = mx::float32) {
    return error_of([&] { turbo::encode_keys(mx::zeros(shape, dtype), bits); });
  };
  auto values = [](mx::Shape shape, int bits) {
    return error_of([&] { turbo::encode_values(mx::zeros(shape), bits); });
  };
  EXPECT_EQ(keys({2, 96}, 8), "");
  EXPECT_EQ(keys({2, 80}, 8),
            "[turbo.encode_keys] head dim 80 is no multiple of 32 up to 512");
  EXPECT_EQ(keys({2, 64}, 3),
            "[turbo.encode_keys] keys have 2, 4, 5 or 8 bits, not 3");
  EXPECT_EQ(keys({2, 64}, 8, mx::int32),
            "[turbo.encode_keys] expected f32, f16 or bf16 [..., D]");
  EXPECT_EQ(values({2, 96}, 3),
            "[turbo.encode_values] head dim 96 is none of 64, 128, 256, 512");
  EXPECT_EQ(values({2, 64}, 6),
            "[turbo.encode_values] no table of 6 bits: values have 2, 3, 4, 5 "
            "or 8");
  const auto k = turbo::encode_keys(mx::zeros({2, 64}), 4);
  EXPECT_EQ(error_of([&] { turbo::decode_keys(k, 8); }),
            "[turbo.decode_keys] expected int8 codes [..., D * 8 / 8], scales "
            "and zeros [..., D / 32 or 64] of f16, bf16 or f32");
  const auto v = turbo::encode_values(mx::zeros({2, 64}), 3);
  EXPECT_EQ(
      error_of([&] { turbo::decode_values(v, 8, ValueForm::eager); }),
      "[turbo.decode_values] expected uint8 codes [..., D * 8 / 8], scales "
      "[..., D / 32 or 64] of f16, bf16 or f32");
  EXPECT_EQ(error_of([] { turbo::packed_dim(3, 5); }),
            "[turbo] 3 codes of 5 bits are no whole bytes");
  EXPECT_EQ(error_of([] { turbo::packed_dim(64, 6); }),
            "[turbo] no codes of 6 bits");
  const array bytes = mx::zeros({3}, mx::uint8);
  EXPECT_EQ(error_of([&] { turbo::unpack_bits(bytes, 5); }),
            "[turbo] 4 codes of 5 bits are no whole bytes");
  EXPECT_EQ(error_of([&] { turbo::pack_bits(array(uint8_t(1)), 4); }),
            "[turbo] expected an array [..., D], not a number");
  EXPECT_EQ(error_of([] { turbo::unrotate(array(1.f)); }),
            "[turbo.unrotate] expected f32, f16 or bf16 [..., D]");
  EXPECT_EQ(error_of([] { turbo::fwht(mx::zeros({96}), true); }),
            "[turbo.signs] head dim 96 is none of 64, 128, 256, 512");
}

}  // namespace
}  // namespace quern
