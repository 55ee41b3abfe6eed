// The interchange form against the plain codecs, odd numbers included.
#include "kv/form.h"

#include <limits>

#include "kv/every_codec.h"
#include "kv/naive_row.h"

namespace quern {
namespace {

using test::Floats;

constexpr int kDim = 128;
constexpr float kInf = std::numeric_limits<float>::infinity();

// Rows of normal numbers with one part of each replaced.
std::vector<Floats> odd_rows() {
  std::vector<Floats> rows;
  auto add = [&](int from, int to, float x) {
    rows.push_back(test::normal_floats(kDim, int(rows.size())));
    std::fill(rows.back().begin() + from, rows.back().begin() + to, x);
  };
  add(0, 0, 0);
  add(0, kDim, 0);
  add(32, 64, 0);
  add(0, 64, 1.5f);
  add(0, 32, -3e4f);
  add(64, kDim, 1e-9f);
  add(5, 6, 900);
  add(70, 71, NAN);
  add(3, 4, kInf);
  add(127, 128, -kInf);
  add(32, kDim, 3.3e38f);
  add(0, 64, -3.3e38f);
  return rows;
}

bool is_nan(const test::Bytes& bytes, mx::Dtype dtype, size_t i) {
  const auto number = dtype == mx::float16    ? qmm::Number::f16
                      : dtype == mx::bfloat16 ? qmm::Number::bf16
                                              : qmm::Number::f32;
  return std::isnan(number_at(bytes.data(), number, int64_t(i)));
}

// Byte for byte; but any NaN is as good as another.
void expect_plane(const test::Bytes& got, const test::Bytes& want,
                  mx::Dtype dtype) {
  ASSERT_EQ(got.size(), want.size());
  const size_t size = mx::issubdtype(dtype, mx::floating) ? dtype.size() : 1;
  for (size_t i = 0; i < got.size() / size; i++) {
    if (std::equal(&got[i * size], &got[i * size] + size, &want[i * size])) {
      continue;
    }
    EXPECT_TRUE(size > 1 && is_nan(got, dtype, i) && is_nan(want, dtype, i))
        << "at " << i;
  }
}

void expect_row(const KvForm& form, const Floats& x) {
  const mx::array row = test::to_array(x, {1, 1, 1, kDim});
  const Planes planes = form.encode(row, row);
  form.require(planes);
  const test::Stored key = test::stored(form.codec, x, true),
                     value = test::stored(form.codec, x, false);
  std::vector<test::Bytes> want = key.planes;
  want.insert(want.end(), value.planes.begin(), value.planes.end());
  const auto got = test::plane_bytes(planes);
  ASSERT_EQ(got.size(), want.size());
  for (size_t p = 0; p < got.size(); p++) {
    SCOPED_TRACE(testing::Message() << "plane " << p);
    expect_plane(got[p], want[p], planes[p].dtype());
  }
}

TEST(KvForm, EncodesAsThePlainCodecs) {
  for (const KvCodec& codec : test::every_codec()) {
    const auto rows = odd_rows();
    for (size_t i = 0; i < rows.size(); i++) {
      SCOPED_TRACE(testing::Message() << codec.signature() << " row " << i);
      expect_row({codec, 1, kDim}, rows[i]);
    }
  }
}

TEST(KvForm, DecodesAsThePlainCodecs) {
  for (const KvCodec& codec : test::every_codec()) {
    SCOPED_TRACE(codec.signature());
    const KvForm form{codec, 1, kDim};
    const Floats x = test::normal_floats(kDim, 5);
    const mx::array row = test::to_array(x, {1, 1, 1, kDim});
    const auto decoded = form.decode(form.encode(row, row));
    EXPECT_LT(test::largest_difference(test::to_floats(decoded.k),
                                       test::stored(codec, x, true).values),
              1e-6f);
    EXPECT_LT(test::largest_difference(test::to_floats(form.summed(decoded.v)),
                                       test::stored(codec, x, false).values),
              2e-6f);
  }
}

TEST(KvForm, BytesAreThoseOfTheCodec) {
  for (const KvCodec& codec : test::every_codec()) {
    const KvForm form{codec, 3, kDim};
    EXPECT_EQ(storage::bytes(form.zeros(2, 5)),
              2 * 3 * 5 * codec.bytes_per_token(kDim));
    form.require(form.zeros(2, 5));
  }
}

TEST(KvForm, ZerosDecodeToZero) {
  for (const KvCodec& codec : test::every_codec()) {
    const KvForm form{codec, 1, kDim};
    const auto decoded = form.decode(form.zeros(1, 2));
    const Floats zeros(2 * kDim, 0.f);
    EXPECT_EQ(test::to_floats(decoded.k), zeros);
    EXPECT_EQ(test::to_floats(decoded.v), zeros);
  }
}

TEST(KvForm, RefusesOtherPlanes) {
  const KvForm form{turbo_kv(), 2, 64};
  Planes planes = form.zeros(1, 4);
  planes[1] = mx::astype(planes[1], mx::float32);
  const char* error = "[kv.form] planes that are not of turboquant:8:3/2x64";
  EXPECT_EQ(test::error_of([&] { form.require(planes); }), error);
  planes.pop_back();
  EXPECT_EQ(test::error_of([&] { form.require(planes); }), error);
}

}  // namespace
}  // namespace quern
