// Rows in one buffer against the same rows alone and against naive lists.
#include "kv/merged.h"

#include <algorithm>
#include <memory>

#include "kv/naive_row.h"

namespace quern {
namespace {

using test::Floats;
using test::NaiveRow;
using test::Token;

constexpr float kScale = 0.125f;
constexpr float kClose = 2e-5f;  // f32 sums in another order

struct Case {
  KvCodec codec;
  int window;  // 0 = append
  test::Shape shape = {};

  KvForm form() const { return {codec, shape.kv_heads, shape.head_dim}; }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.codec.signature();
  name += fmt::format("_{}_{}", info.param.window, info.param.shape.head_dim);
  for (char& c : name) {
    if (!isalnum(c)) c = '_';
  }
  return name;
}

// Part `which` of tokens of B rows, N each: [B, heads, N, D].
mx::array together(const std::vector<std::vector<Token>>& rows,
                   Floats Token::* which, int heads, int D) {
  const int B = int(rows.size()), N = int(rows[0].size());
  Floats x;
  for (const auto& row : rows) {
    for (const Token& token : row) {
      const Floats& part = token.*which;
      x.insert(x.end(), part.begin(), part.end());
    }
  }
  return mx::swapaxes(test::to_array(x, {B, N, heads, D}), 1, 2);
}

// One row as it should be: the list, and a cache of its own.
struct Solo {
  int id;
  NaiveRow naive;
  MergedCache cache;
};

// One step of some rows in a cache: [B] of [N, heads * D].
std::vector<Floats> feed(MergedCache& cache, const test::Shape& s,
                         const std::vector<std::vector<Token>>& rows) {
  auto part = [&](Floats Token::* which, int heads) {
    return together(rows, which, heads, s.head_dim);
  };
  const mx::array out =
      cache.attend(part(&Token::q, s.heads), part(&Token::k, s.kv_heads),
                   part(&Token::v, s.kv_heads), {.scale = kScale});
  cache.release_rope_offsets();
  const int N = int(rows[0].size());
  const Floats all = test::to_floats(mx::swapaxes(out, 1, 2));
  std::vector<Floats> each;
  const size_t size = size_t(N) * s.heads * s.head_dim;
  for (size_t b = 0; b < rows.size(); b++) {
    each.emplace_back(all.begin() + b * size, all.begin() + (b + 1) * size);
  }
  return each;
}

class Merged : public testing::TestWithParam<Case> {
 protected:
  Solo new_row(int tokens) {
    const Case& c = GetParam();
    Solo solo{next_id_++, NaiveRow(c.codec, c.shape, c.window),
              MergedCache(c.form(), c.window)};
    for (int left = tokens; left > 0;) {
      const int some = std::min(left, 1 + int(random_() % 9));
      grow(solo, some);
      left -= some;
    }
    return solo;
  }

  std::vector<Token> next_tokens(const Solo& solo, int count) const {
    std::vector<Token> out;
    for (int i = 0; i < count; i++) {
      out.push_back(
          test::token_of(solo.id, solo.naive.length() + i, GetParam().shape));
    }
    return out;
  }

  // `count` tokens at once; what they see, by the list.
  Floats grow(Solo& solo, int count) {
    const auto tokens = next_tokens(solo, count);
    const Floats got = feed(solo.cache, GetParam().shape, {tokens})[0];
    Floats expected;
    for (const Token& token : tokens) {
      for (float x : solo.naive.attend(token, kScale)) expected.push_back(x);
    }
    EXPECT_LT(test::largest_difference(got, expected), kClose);
    return got;
  }

  MergedCache merged(const std::vector<Solo>& rows) {
    std::vector<const MergedCache*> caches;
    for (const Solo& row : rows) caches.push_back(&row.cache);
    return MergedCache::merge(caches);
  }

  void step(MergedCache& cache, std::vector<Solo>& rows, int count = 1) {
    std::vector<std::vector<Token>> tokens;
    for (const Solo& row : rows) tokens.push_back(next_tokens(row, count));
    const auto got = feed(cache, GetParam().shape, tokens);
    for (size_t b = 0; b < rows.size(); b++) {
      EXPECT_LT(test::largest_difference(got[b], grow(rows[b], count)), kClose);
    }
  }

  // Row for row the bytes of the list and of the row alone.
  void expect_same(const MergedCache& cache, const std::vector<Solo>& rows) {
    ASSERT_EQ(cache.batch_size(), int(rows.size()));
    for (int b = 0; b < cache.batch_size(); b++) {
      SCOPED_TRACE(testing::Message() << "row " << b);
      const MergedCache row = cache.extract(b);
      const Solo& solo = rows[b];
      EXPECT_EQ(row.offsets(), std::vector{solo.naive.length()});
      EXPECT_EQ(row.signature(), solo.cache.signature());
      const auto bytes = test::plane_bytes(row.planes());
      if (solo.naive.length() > 0) {
        EXPECT_EQ(bytes, solo.naive.planes());
      }
      EXPECT_EQ(bytes, test::plane_bytes(solo.cache.extract(0).planes()));
    }
  }

  std::vector<Solo> some_rows(int B) {
    std::vector<Solo> rows;
    for (int b = 0; b < B; b++) rows.push_back(new_row(int(random_() % 20)));
    return rows;
  }

  template <class T>
  static std::vector<T> picked(const std::vector<T>& rows,
                               const std::vector<int>& keep) {
    std::vector<T> out;
    for (int i : keep) out.push_back(rows[i]);
    return out;
  }

  std::mt19937 random_{17};
  int next_id_ = 1;
};

TEST_P(Merged, BytesAndResultsAreThoseOfRowsAlone) {
  for (int B : {1, 2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << B << " rows");
    std::vector<Solo> rows = some_rows(B);
    MergedCache cache = merged(rows);
    expect_same(cache, rows);
    for (int i = 0; i < 12; i++) step(cache, rows);
    expect_same(cache, rows);
    if (B > 1) {
      std::vector<int> keep;  // every other row, the last one first
      for (int b = B - 1; b >= 0; b -= 2) keep.push_back(b);
      cache.filter(keep);
      rows = picked(rows, keep);
    }
    for (int i = 0; i < 5; i++) step(cache, rows);
    MergedCache first = cache.extract(0);
    Solo alone = rows[0];
    rows.push_back(new_row(3));
    cache.extend(rows.back().cache);
    for (int i = 0; i < 12; i++) step(cache, rows);
    expect_same(cache, rows);
    for (int i = 0; i < 3; i++) {
      std::vector<Solo> one{alone};
      step(first, one);
      alone = one[0];
    }
    expect_same(first, {alone});
  }
}

TEST_P(Merged, ManyTokensAtOnceBetweenSingleOnes) {
  std::vector<Solo> rows = some_rows(3);
  MergedCache cache = merged(rows);
  for (int count : {1, 5, 1, 1, 3, 4, 11, 1, 2}) {
    step(cache, rows, count);
    expect_same(cache, rows);
  }
}

TEST_P(Merged, TrimmedAndAlignedRowsGoOn) {
  std::vector<Solo> rows;
  for (int tokens : {4, 1, 3}) rows.push_back(new_row(tokens));
  MergedCache cache = merged(rows);
  step(cache, rows);
  EXPECT_EQ(cache.trimmable(), 2);  // of the shortest row
  cache.trim(2);
  for (Solo& row : rows) {
    row.naive.trim(2);
    row.cache.trim(2);
  }
  expect_same(cache, rows);
  step(cache, rows);
  const std::vector<int> drop{3, 0, 1};
  cache.align(drop);
  for (int b = 0; b < 3; b++) {
    rows[b].naive.trim(drop[b]);
    rows[b].cache.trim(drop[b]);
  }
  expect_same(cache, rows);
  EXPECT_EQ(cache.state().valid_length(), 2);
  for (int i = 0; i < 20; i++) step(cache, rows);
  expect_same(cache, rows);
}

constexpr int kRing = 7;
std::vector<Case> cases() {
  using qmm::Number;
  std::vector<Case> out;
  for (int window : {0, kRing}) {
    for (Number number : {Number::f32, Number::f16, Number::bf16}) {
      out.push_back({raw_kv(number), window});
    }
    out.push_back({affine_kv(4, 64), window});
    out.push_back({affine_kv(8, 64), window});
    out.push_back({affine_kv(4, 32, Number::f32), window});
    out.push_back({affine_kv(8, 32, Number::bf16), window});
    out.push_back({turbo_kv(8, 3), window});
    out.push_back({turbo_kv(4, 4), window, {6, 2, 128}});
    out.push_back({turbo_kv(5, 5), window});
    out.push_back({turbo_kv(2, 8), window, {2, 2, 64}});
    out.push_back({turbo_kv(8, 2), window, {2, 1, 256}});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Forms, Merged, testing::ValuesIn(cases()), name_of);

// Random histories of a ring: the tokens it shows are those of the lists.
TEST(MergedRing, RandomHistoriesMatchTheLists) {
  const KvForm form{raw_kv(qmm::Number::f32), 1, 1};
  for (int history = 0; history < 300; history++) {
    SCOPED_TRACE(history);
    std::mt19937 random(history);
    const int window = 2 + int(random() % 9);
    std::vector<std::vector<float>> rows(1 + random() % 4);
    float next = 1;
    MergedCache cache(form, window, int(rows.size()));
    auto write = [&](int N) {
      Floats x;
      for (auto& row : rows) {
        for (int i = 0; i < N; i++) x.push_back(next++);
        row.insert(row.end(), x.end() - N, x.end());
      }
      const mx::array kv = test::to_array(x, {int(rows.size()), 1, N, 1});
      cache.append(kv, kv);
      cache.release_rope_offsets();
    };
    for (int written = 0; written < 4 * window;) {
      const int turn = int(random() % 12);
      if (turn == 0) {
        const int some = int(random() % unsigned(cache.trimmable() + 1));
        cache.trim(some);
        for (auto& row : rows) row.resize(row.size() - size_t(some));
      } else if (turn == 1) {
        std::vector<int> keep;
        for (int i = 0, n = 1 + int(random() % 4); i < n; i++) {
          keep.push_back(int(random() % rows.size()));
        }
        decltype(rows) kept;
        for (int i : keep) kept.push_back(rows[i]);
        rows = kept;
        cache.filter(keep);
      } else if (turn == 2 && rows.size() < 6) {
        const int i = int(random() % rows.size());
        cache.extend(cache.extract(i));
        rows.push_back(rows[i]);
      } else if (turn == 3) {
        cache.align();
      } else {
        const int N = turn < 6 ? 1 + int(random() % 5) : 1;
        write(N);
        written += N;
      }
      if (random() % 4) continue;
      const size_t b = random() % rows.size();
      const size_t held = std::min(rows[b].size(), size_t(window));
      const MergedCache row = cache.extract(int(b));
      ASSERT_EQ(test::to_floats(row.planes()[0]),
                Floats(rows[b].end() - held, rows[b].end()));
      ASSERT_EQ(row.offsets()[0], int(rows[b].size()));
    }
  }
}

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
  NaiveRow naive(form.codec, shape, 3);
  MergedCache cache(form, 0);
  for (int i = 0; i < 9; i++) {
    const Token t = test::token_of(1, i, shape);
    const mx::array out = cache.attend(
        test::to_array(t.q, {1, 2, 1, 32}), test::to_array(t.k, {1, 1, 1, 32}),
        test::to_array(t.v, {1, 1, 1, 32}), {.scale = kScale, .window = 3});
    cache.release_rope_offsets();
    EXPECT_LT(
        test::largest_difference(test::to_floats(out), naive.attend(t, kScale)),
        kClose);
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
