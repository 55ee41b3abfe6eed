#include "kv/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include "kv/row.h"

namespace quern {
namespace {

constexpr int kHeads = 4, kKvHeads = 2, kDim = 32;

mx::array noise(int tokens, int heads, uint64_t seed) {
  return mx::random::normal({tokens, heads * kDim}, mx::float32, 0, 1,
                            mx::random::key(seed));
}

struct Tokens {
  mx::array q, k, v;
};
Tokens tokens(int count, uint64_t seed) {
  return {noise(count, kHeads, seed), noise(count, kKvHeads, seed + 1),
          noise(count, kKvHeads, seed + 2)};
}

Tokens cut(const Tokens& t, int from, int to) {
  auto part = [&](const mx::array& a) {
    return mx::slice(a, {from, 0}, {to, a.shape(1)});
  };
  return {part(t.q), part(t.k), part(t.v)};
}

mx::array feed(Cache& cache, const Tokens& t) {
  const CacheRow row{&cache, 0, t.q.shape(0)};
  mx::array out = attend(t.q, t.k, t.v, {&row, 1}, {.scale = 0.2f});
  mx::eval(out);
  return out;
}

Cache make_cache(Layout layout, qmm::Number number = qmm::Number::f32) {
  return Cache({number, kKvHeads, kDim}, layout);
}

std::vector<float> values(const mx::array& a) {
  return {a.data<float>(), a.data<float>() + a.size()};
}

TEST(Cache, SignatureNamesLayoutNumberAndShape) {
  EXPECT_EQ(make_cache(Layout::append()).signature(), "append/plain/f32/2x32");
  EXPECT_EQ(make_cache(Layout::ring(16), qmm::Number::f16).signature(),
            "ring-16/plain/f16/2x32");
}

// MLX counts what one dimension holds in 31 bits: 2^24 tokens of 127 numbers
// fit, of 128 they do not.
TEST(Cache, TellsHowManyTokensItCannotHold) {
  const auto bytes = [](int head_dim) {
    const KvShape shape{qmm::Number::f16, 1, head_dim};
    return Cache(shape, Layout::append()).bytes_at(1 << 24);
  };
  EXPECT_EQ(bytes(127), 2ull * 2 * 127 << 24);
  EXPECT_EQ(bytes(128), SIZE_MAX);
}

TEST(Cache, RowsOfUnequalSignaturesAreRefused) {
  Cache a = make_cache(Layout::append()), b = make_cache(Layout::ring(8));
  const Tokens t = tokens(2, 1);
  const std::vector<CacheRow> rows{{&a, 0, 1}, {&b, 1, 1}};
  try {
    attend(t.q, t.k, t.v, rows, {});
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("append/plain/f32/2x32 and ring-8"));
  }
}

TEST(Cache, TokenByTokenEqualsAtOnceBitForBit) {
  for (Layout layout : {Layout::append(), Layout::ring(40)}) {
    const Tokens t = tokens(700, 11);
    Cache whole = make_cache(layout), single = make_cache(layout);
    const std::vector<float> expected = values(feed(whole, t));
    std::vector<float> got;
    for (int i = 0; i < 700; i++) {
      for (float v : values(feed(single, cut(t, i, i + 1)))) got.push_back(v);
    }
    EXPECT_EQ(got, expected);
  }
}

TEST(Cache, TrimmedRowGoesOnAsIfNeverThere) {
  for (Layout layout : {Layout::append(), Layout::ring(100)}) {
    const Tokens t = tokens(400, 23), other = tokens(50, 37);
    Cache straight = make_cache(layout), back = make_cache(layout);
    feed(straight, cut(t, 0, 350));
    const auto expected = values(feed(straight, other));
    feed(back, t);
    back.trim(50);
    EXPECT_EQ(back.offset(), 350);
    EXPECT_EQ(values(feed(back, other)), expected);
  }
}

TEST(Cache, TrimRefusesMoreThanARingCanGiveBack) {
  Cache cache = make_cache(Layout::ring(16));
  feed(cache, tokens(1000, 3));
  EXPECT_LT(cache.trimmable(), 1000);
  EXPECT_THROW(cache.trim(cache.trimmable() + 1), Error);
}

TEST(Cache, CopySharesNoMemory) {
  Cache cache = make_cache(Layout::append());
  const Tokens t = tokens(20, 5), a = tokens(3, 6), b = tokens(3, 7);
  feed(cache, t);
  auto twin = cache.copy();
  auto& twin_cache = static_cast<Cache&>(*twin);
  EXPECT_NE(cache.planes().data<float>(), twin_cache.planes().data<float>());
  Cache lone = make_cache(Layout::append());
  feed(lone, t);
  feed(cache, a);  // writes into its own planes only
  EXPECT_EQ(values(feed(twin_cache, b)), values(feed(lone, b)));
}

TEST(Cache, CopyOutlivesTheOriginalsMemory) {
  const size_t before = mx::get_active_memory();
  std::unique_ptr<LayerState> twin;
  size_t with_both;
  {
    Cache cache = make_cache(Layout::append());
    feed(cache, tokens(2000, 9));
    twin = cache.copy();
    with_both = mx::get_active_memory();
  }
  const size_t left = mx::get_active_memory();
  EXPECT_LE(left - before, twin->bytes() + 65536);
  EXPECT_GE(with_both - left, twin->bytes());
}

TEST(Cache, BytesAreThoseOfItsPlanes) {
  Cache cache = make_cache(Layout::append(), qmm::Number::f16);
  feed(cache, tokens(100, 2));
  // keys and values, 256 tokens, 2 heads of 32 numbers of 2 bytes
  EXPECT_EQ(cache.bytes(), 2u * 256 * 2 * 32 * 2);
}

TEST(Row, TrimsAllLayersOrNone) {
  std::vector<std::unique_ptr<LayerState>> layers;
  layers.push_back(std::make_unique<Cache>(make_cache(Layout::append())));
  layers.push_back(std::make_unique<Cache>(make_cache(Layout::ring(16))));
  Row row(std::move(layers));
  const Tokens t = tokens(1000, 1);
  for (int i = 0; i < 2; i++) feed(static_cast<Cache&>(row.layer(i)), t);
  EXPECT_EQ(row.length(), 1000);
  EXPECT_FALSE(row.trim(900));  // the ring has lost what it would need
  EXPECT_EQ(row.layer(0).offset(), 1000);
  EXPECT_TRUE(row.trim(100));
  EXPECT_EQ(row.layer(0).offset(), 900);
  EXPECT_EQ(row.layer(1).offset(), 900);
}

}  // namespace
}  // namespace quern
