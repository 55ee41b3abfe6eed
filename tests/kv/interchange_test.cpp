// Rows between their own planes and the interchange form.
#include "kv/interchange.h"

#include "base/error_of.h"
#include "kv/cache_cases.h"

namespace quern {
namespace {

using test::Floats;
using test::Token;
using Case = test::CacheCase;

constexpr test::Shape kShape = Case::kShape;
constexpr int kWindow = Case::kWindow;

// The tokens that follow; what they see.
Floats feed(Cache& cache, int count) {
  Floats q, k, v;
  for (int i = 0; i < count; i++) {
    const Token t = test::token_of(1, cache.offset() + i, kShape);
    q.insert(q.end(), t.q.begin(), t.q.end());
    k.insert(k.end(), t.k.begin(), t.k.end());
    v.insert(v.end(), t.v.begin(), t.v.end());
  }
  const int width = kShape.kv_heads * kShape.head_dim;
  const CacheRow row{&cache, 0, count};
  return test::to_floats(
      attend(test::to_array(q, {count, kShape.heads * kShape.head_dim}),
             test::to_array(k, {count, width}),
             test::to_array(v, {count, width}), {&row, 1}, {.scale = 0.2f}));
}

test::Bytes own_bytes(const Cache& cache) {
  mx::eval(cache.arrays());
  const auto* p = cache.planes().data<uint8_t>();
  return {p, p + cache.planes().nbytes()};
}

class Interchange : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Kv, Interchange, testing::ValuesIn(test::all_cases()),
                         test::case_name);

TEST_P(Interchange, PlanesAreThoseOfTheList) {
  const Case& c = GetParam();
  Cache cache = c.cache();
  test::NaiveRow naive(c.codec, kShape, c.window);
  for (int count : {1, 70, 1, 300, 40}) {
    feed(cache, count);
    while (naive.length() < cache.offset()) {
      naive.attend(test::token_of(1, naive.length(), kShape), 0.2f);
    }
    const int kept =
        c.window > 0 ? std::min(c.window, cache.offset()) : cache.offset();
    const Planes planes = cache.last(kept);
    form_of(c.shape()).require(planes);
    EXPECT_EQ(test::plane_bytes(planes), naive.planes());
  }
}

TEST_P(Interchange, ARowFromItsPlanesGoesOnAsTheRowItself) {
  const Case& c = GetParam();
  for (int length : {0, 1, 39, 40, 64, 200, 321, 1000}) {
    SCOPED_TRACE(testing::Message() << length << " tokens");
    Cache cache = c.cache();
    while (cache.offset() < length) {
      feed(cache, std::min(250, length - cache.offset()));
    }
    Cache back(c.shape(), c.layout(), cache.last(cache.layout().kept()),
               length);
    EXPECT_EQ(back.offset(), length);
    EXPECT_EQ(back.signature(), cache.signature());
    EXPECT_EQ(back.trimmable(), cache.trimmable());
    EXPECT_EQ(test::plane_bytes(back.last(back.layout().kept())),
              test::plane_bytes(cache.last(cache.layout().kept())));
    if (cache.layout().capacity() == back.layout().capacity()) {
      EXPECT_EQ(own_bytes(back), own_bytes(cache));
    }
    const int gone = cache.trimmable() / 2;
    cache.trim(gone);
    back.trim(gone);
    for (int count : {1, 30, 1})
      EXPECT_EQ(feed(back, count), feed(cache, count));
    EXPECT_EQ(back.trimmable(), cache.trimmable());
  }
}

TEST_P(Interchange, ARingIsWorthWhatTheNextTokenSees) {
  const Case& c = GetParam();
  if (c.window == 0) return;  // keeps all
  Cache cache = c.cache();
  feed(cache, 500);
  Cache back(c.shape(), c.layout(), cache.last(c.window - 1), 500);
  EXPECT_EQ(back.trimmable(), 0);
  for (int count : {1, 30, 1}) EXPECT_EQ(feed(back, count), feed(cache, count));
}

TEST(InterchangeErrors, SayWhatWasExpected) {
  const Case c{turbo_kv(), 0}, ring{raw_kv(), kWindow};
  Cache cache = c.cache(), turns = ring.cache();
  feed(cache, 5);
  feed(turns, 500);
  EXPECT_EQ(test::error_of([&] { cache.last(6); }),
            "[kv.last] 6 tokens, 5 are there");
  const Planes four = cache.last(4), few = turns.last(kWindow - 2);
  EXPECT_EQ(test::error_of([&] { Cache(c.shape(), c.layout(), four, 5); }),
            "[kv.restore] 4 tokens of 5, expected 5 to 5");
  EXPECT_EQ(
      test::error_of([&] { Cache(ring.shape(), ring.layout(), few, 500); }),
      "[kv.restore] 38 tokens of 500, expected 39 to 320");
  EXPECT_EQ(test::error_of([&] { Cache(c.shape(), c.layout(), few, 38); }),
            "[kv.form] planes that are not of turboquant:8:3/2x64");
}

}  // namespace
}  // namespace quern
