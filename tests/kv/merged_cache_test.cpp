// What a merged cache promises beside its rows: names, errors, one array of
// positions a step, buffers.
#include "kv/merged.h"
#include "kv/naive_row.h"

namespace quern {
namespace {

using test::Floats;

KvForm small() { return {raw_kv(qmm::Number::f32), 2, 32}; }

TEST(MergedCache, SignaturesNameLayoutCodecAndShape) {
  auto signature = [](KvCodec codec, int window) {
    return MergedCache({codec, 2, 64}, window).signature();
  };
  EXPECT_EQ(signature(raw_kv(), 0), "merged/append/plain/f16/2x64");
  EXPECT_EQ(signature(affine_kv(8), 9), "merged/ring-9/quant:8:64/f16/2x64");
  EXPECT_EQ(signature(turbo_kv(), 0), "merged/append/turboquant:8:3/2x64");
}

TEST(MergedCache, RowsOfOtherSignaturesDoNotMerge) {
  const MergedCache a(small(), 0), b(small(), 4);
  const MergedCache* rows[] = {&a, &b};
  EXPECT_EQ(test::error_of([&] { MergedCache::merge(rows); }),
            "[kv.merge] rows must share a signature: got "
            "merged/append/plain/f32/2x32 and merged/ring-4/plain/f32/2x32");
  EXPECT_EQ(test::error_of([] { MergedCache::merge({}); }),
            "[kv.merge] needs a row");
}

TEST(MergedCache, RefusesWhatDoesNotFit) {
  MergedCache cache(small(), 0, 2);
  auto zeros = [](mx::Shape shape) { return mx::zeros(shape); };
  auto append = [&](mx::Shape k, mx::Shape v) {
    return test::error_of([&] { cache.append(zeros(k), zeros(v)); });
  };
  EXPECT_EQ(append({1, 2, 1, 32}, {1, 2, 1, 32}),
            "[kv.append] expected keys [2, 2, N, 32]");
  EXPECT_EQ(append({2, 2, 1, 32}, {2, 2, 1, 16}),
            "[kv.append] expected values [2, 2, N, 32]");
  EXPECT_EQ(append({2, 2, 1, 32}, {2, 2, 2, 32}),
            "[kv.append] 1 keys, 2 values");
  EXPECT_EQ(test::error_of([] { MergedCache(small(), -1); }),
            "[kv.merged] a window of -1 tokens");
  EXPECT_EQ(test::error_of([] { MergedCache({turbo_kv(), 2, 96}, 0); }),
            "[kv_codec] turbo-k8v3 takes head dims 64, 128, 256 and 512, not "
            "96");
  EXPECT_EQ(test::error_of([&] { cache.extract(2); }),
            "[kv.extract] no row 2 of 2");
  EXPECT_EQ(test::error_of([&] { cache.take({}); }), "[kv.filter] needs a row");
  EXPECT_EQ(test::error_of([&] { cache.trim(1); }),
            "[kv.trim] 1 tokens, at most 0 can go");
  const int drop[] = {0, 1};
  EXPECT_EQ(test::error_of([&] { cache.align(drop); }),
            "[kv.align] 1 tokens of row 1, at most 0 can go");
  EXPECT_EQ(test::error_of(
                [&] { MergedCache::row(small(), 0, small().zeros(1, 3), 4); }),
            "[kv.row] expected one row of 4 tokens, got 1 of 3");
  EXPECT_EQ(test::error_of([&] {
              MergedCache::row(small(), 0, {mx::zeros({1, 2, 3, 32})}, 3);
            }),
            "[kv.form] planes that are not of plain/f32/2x32");
}

TEST(MergedCache, RopeOffsetsAreOneArrayWithinAStep) {
  const MergedCache one = MergedCache::row(small(), 4, small().zeros(1, 4), 9);
  const MergedCache two = MergedCache::row(small(), 4, small().zeros(1, 1), 1);
  const MergedCache* rows[] = {&one, &two};
  MergedCache cache = MergedCache::merge(rows);
  const mx::array kv = mx::zeros({2, 2, 1, 32});
  auto positions = [&] { return test::to_floats(cache.rope_offsets()); };
  for (bool before : {false, true}) {
    std::optional<mx::array> first;
    if (before) first = cache.rope_offsets();
    cache.append(kv, kv);
    if (!first) first = cache.rope_offsets();
    EXPECT_EQ(cache.rope_offsets().id(), first->id());
    EXPECT_EQ(positions(), before ? (Floats{10, 2}) : (Floats{9, 1}));
    EXPECT_EQ(cache.rope_offsets().dtype(), mx::int32);
    EXPECT_EQ(test::error_of([&] { cache.append(kv, kv); }),
              "[kv.append] release_rope_offsets ends a step first");
    cache.release_rope_offsets();
    EXPECT_NE(cache.rope_offsets().id(), first->id());
  }
  EXPECT_EQ(positions(), (Floats{11, 3}));
  const int keep[] = {1};
  cache.filter(keep);
  EXPECT_EQ(positions(), (Floats{3}));
}

TEST(MergedCache, WindowOfALayoutThatKeepsAll) {
  const test::Shape shape{2, 1, 32};
  const KvForm form{raw_kv(qmm::Number::f32), 1, 32};
  test::NaiveRow naive(form.codec, shape, 3);
  MergedCache cache(form, 0);
  for (int i = 0; i < 9; i++) {
    const test::Token t = test::token_of(1, i, shape);
    const mx::array out = cache.attend(
        test::to_array(t.q, {1, 2, 1, 32}), test::to_array(t.k, {1, 1, 1, 32}),
        test::to_array(t.v, {1, 1, 1, 32}), {.scale = 0.2f, .window = 3});
    cache.release_rope_offsets();
    EXPECT_LT(
        test::largest_difference(test::to_floats(out), naive.attend(t, 0.2f)),
        2e-5f);
  }
}

// A step writes its tokens; it does not copy the past.
TEST(MergedCache, StepsWriteInPlace) {
  for (KvCodec codec : {raw_kv(), affine_kv(4), turbo_kv()}) {
    for (int window : {0, 4}) {
      MergedCache cache({codec, 2, 64}, window, 2);
      const mx::array q = mx::ones({2, 4, 1, 64}), kv = mx::ones({2, 2, 1, 64});
      std::vector<const void*> first;
      for (int i = 0; i < 9; i++) {
        mx::array out = cache.attend(q, kv, kv, {});
        cache.release_rope_offsets();
        mx::eval(out);
        std::vector<const void*> now;
        for (mx::array plane : cache.planes()) {
          mx::eval(plane);
          now.push_back(plane.data<uint8_t>());
        }
        if (i == 0) first = now;
        EXPECT_EQ(now, first);
      }
    }
  }
}

// Buffers grow by 256, with the window as the most of a ring.
TEST(MergedCache, BuffersGrowInSteps) {
  MergedCache append(small(), 0), ring(small(), 300);
  auto add = [](MergedCache& cache, int N) {
    const mx::array kv = mx::zeros({1, 2, N, 32});
    cache.append(kv, kv);
    cache.release_rope_offsets();
    return cache.planes()[0].shape(2);
  };
  EXPECT_EQ(add(append, 1), 256);
  EXPECT_EQ(add(append, 255), 256);
  EXPECT_EQ(add(append, 1), 512);
  EXPECT_EQ(add(append, 300), 257 + 512);
  EXPECT_EQ(add(ring, 1), 256);
  EXPECT_EQ(add(ring, 254), 256);
  EXPECT_EQ(add(ring, 1), 256);
  EXPECT_EQ(add(ring, 1), 300);
  for (int i = 0; i < 50; i++) EXPECT_EQ(add(ring, 1), 300);
  EXPECT_EQ(add(ring, 40), 339);
  EXPECT_EQ(add(ring, 1), 300);
  EXPECT_EQ(ring.bytes(), 2u * 2 * 300 * 32 * 4);
}

}  // namespace
}  // namespace quern
