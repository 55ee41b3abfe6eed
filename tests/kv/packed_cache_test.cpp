// The contract of a cache for every codec and layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include "base/error_of.h"
#include "kv/every_codec.h"
#include "kv/row.h"

namespace quern {
namespace {

constexpr int kHeads = 6, kKvHeads = 2, kDim = 64;

mx::array noise(int tokens, int heads, uint64_t seed) {
  return mx::random::normal({tokens, heads * kDim}, mx::float32, 0, 1,
                            mx::random::key(seed));
}

struct Tokens {
  mx::array q, k, v;

  Tokens(int count, uint64_t seed)
      : q(noise(count, kHeads, seed)),
        k(noise(count, kKvHeads, seed + 1)),
        v(noise(count, kKvHeads, seed + 2)) {}
  Tokens(mx::array q, mx::array k, mx::array v) : q(q), k(k), v(v) {}
  Tokens cut(int from, int to) const {
    auto part = [&](const mx::array& a) {
      return mx::slice(a, {from, 0}, {to, a.shape(1)});
    };
    return {part(q), part(k), part(v)};
  }
};

std::vector<float> feed(Cache& cache, const Tokens& t) {
  const CacheRow row{&cache, 0, t.q.shape(0)};
  mx::array out = attend(t.q, t.k, t.v, {&row, 1}, {.scale = 0.125f});
  mx::eval(out);
  return {out.data<float>(), out.data<float>() + out.size()};
}

std::vector<uint8_t> bytes_of(const Cache& cache) {
  mx::eval(cache.arrays());
  const auto* p = cache.planes().data<uint8_t>();
  return {p, p + cache.planes().nbytes()};
}

struct Case {
  KvCodec codec;
  bool ring;

  Cache cache() const {
    return Cache({codec, kKvHeads, kDim},
                 ring ? Layout::ring(100) : Layout::append());
  }
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const KvCodec& codec : test::every_codec()) {
    for (bool ring : {false, true}) cases.push_back({codec, ring});
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return test::as_name(info.param.cache().signature());
}

class EveryCache : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Kv, EveryCache, testing::ValuesIn(all_cases()),
                         name_of);

TEST_P(EveryCache, TokenByTokenIsOneAppend) {
  const int count = GetParam().ring ? 700 : 300;  // a ring of 128 + 256 wraps
  const Tokens t(count, 11);
  Cache whole = GetParam().cache(), single = GetParam().cache();
  const auto expected = feed(whole, t);
  std::vector<float> got;
  for (int i = 0; i < count; i++) {
    for (float x : feed(single, t.cut(i, i + 1))) got.push_back(x);
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(bytes_of(single).size(), bytes_of(whole).size());
  if (!GetParam().ring) {
    EXPECT_EQ(bytes_of(single), bytes_of(whole));
  }
}

TEST_P(EveryCache, TrimmedToAnyOffsetItGoesOnAsIfNeverThere) {
  const Tokens t(130, 23), other(2, 37);
  Cache full = GetParam().cache(), grown = GetParam().cache();
  feed(full, t);
  for (int offset = 0; offset <= 130; offset++) {
    auto back = full.copy(), straight = grown.copy();
    auto& trimmed = static_cast<Cache&>(*back);
    trimmed.trim(130 - offset);
    EXPECT_EQ(trimmed.offset(), offset);
    ASSERT_EQ(feed(trimmed, other), feed(static_cast<Cache&>(*straight), other))
        << "offset " << offset;
    if (offset < 130) feed(grown, t.cut(offset, offset + 1));
  }
}

TEST_P(EveryCache, CopiesShareNoMemory) {
  const Tokens t(70, 5), a(3, 6), b(3, 7);
  Cache lone = GetParam().cache();
  feed(lone, t);
  const auto expected = feed(lone, b);
  std::unique_ptr<LayerState> twin;
  {
    Cache cache = GetParam().cache();
    feed(cache, t);
    twin = cache.copy();
    feed(cache, a);  // writes into its own planes only
  }
  EXPECT_EQ(feed(static_cast<Cache&>(*twin), b), expected);
}

TEST_P(EveryCache, BytesAreThoseOfTheFormula) {
  const size_t token = kKvHeads * GetParam().codec.bytes_per_token(kDim);
  Cache cache = GetParam().cache();
  feed(cache, Tokens(100, 2));
  EXPECT_EQ(cache.bytes(), 256 * token);
  EXPECT_EQ(cache.planes().nbytes(), 256 * token);
  EXPECT_EQ(cache.bytes_at(100), 256 * token);
  EXPECT_EQ(cache.bytes_at(5000), (GetParam().ring ? 128 + 256 : 5120) * token);
}

TEST_P(EveryCache, FillsWithNumbers) {
  Cache cache = GetParam().cache();
  cache.fill(1000);
  EXPECT_EQ(cache.offset(), 1000);
  for (float x : feed(cache, Tokens(2, 1))) ASSERT_TRUE(std::isfinite(x));
}

TEST_P(EveryCache, RowsInOneCallAreAsAlone) {
  const Tokens a(90, 3), b(5, 4), more(3, 5);
  Cache one = GetParam().cache(), two = GetParam().cache();
  feed(one, a);
  feed(two, b);
  auto one_alone = one.copy(), two_alone = two.copy();
  const std::vector<CacheRow> rows{{&one, 0, 1}, {&two, 1, 2}};
  mx::array out = attend(more.q, more.k, more.v, rows, {.scale = 0.125f});
  mx::eval(out);
  auto alone = feed(static_cast<Cache&>(*one_alone), more.cut(0, 1));
  for (float x : feed(static_cast<Cache&>(*two_alone), more.cut(1, 3))) {
    alone.push_back(x);
  }
  EXPECT_EQ(
      std::vector<float>(out.data<float>(), out.data<float>() + out.size()),
      alone);
}

TEST(PackedCache, SignaturesNameTheCodec) {
  EXPECT_EQ((Case{turbo_kv(), false}.cache().signature()),
            "append/turboquant:8:3/2x64");
  EXPECT_EQ((Case{affine_kv(4), true}.cache().signature()),
            "ring-100/quant:4:64/f16/2x64");
}

TEST(PackedCache, RowsOfOtherCodecsAreRefused) {
  Cache a = Case{turbo_kv(8, 3), false}.cache();
  Cache b = Case{turbo_kv(8, 4), false}.cache();
  const Tokens t(2, 1);
  const std::vector<CacheRow> rows{{&a, 0, 1}, {&b, 1, 1}};
  EXPECT_THAT(
      test::error_of([&] { attend(t.q, t.k, t.v, rows, {}); }),
      testing::HasSubstr("append/turboquant:8:3/2x64 and append/turboquant"));
}

}  // namespace
}  // namespace quern
