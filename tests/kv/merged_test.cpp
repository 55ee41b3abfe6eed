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

// A ring's tokens, numbers that go up, beside lists of them.
class RingHistory {
 public:
  explicit RingHistory(int seed)
      : random_(unsigned(seed)),
        window_(2 + below(9)),
        rows_(size_t(1 + below(4))),
        cache_({raw_kv(qmm::Number::f32), 1, 1}, window_, int(rows_.size())) {}

  void run() {
    while (written_ < 4 * window_) {  // three wraps at least
      turn();
      if (below(4) == 0) check(below(int(rows_.size())));
    }
    for (size_t b = 0; b < rows_.size(); b++) check(int(b));
  }

 private:
  int below(int n) { return int(random_() % unsigned(n)); }

  void turn() {
    switch (below(12)) {
      case 0: return trim(below(cache_.trimmable() + 1));
      case 1: return filter();
      case 2: return extend();
      case 3: return cache_.align();
      case 4:
      case 5: return write(1 + below(5));
      default: return write(1);
    }
  }

  void write(int N) {
    Floats x;
    for (Floats& row : rows_) {
      for (int i = 0; i < N; i++) {
        row.push_back(next_);
        x.push_back(next_++);
      }
    }
    const mx::array kv = test::to_array(x, {int(rows_.size()), 1, N, 1});
    cache_.append(kv, kv);
    cache_.release_rope_offsets();
    written_ += N;
  }

  void trim(int tokens) {
    cache_.trim(tokens);
    for (Floats& row : rows_) row.resize(row.size() - size_t(tokens));
  }

  void filter() {
    std::vector<int> keep;
    std::vector<Floats> kept;
    for (int i = 0, n = 1 + below(4); i < n; i++) {
      keep.push_back(below(int(rows_.size())));
      kept.push_back(rows_[keep.back()]);
    }
    cache_.filter(keep);
    rows_ = kept;
  }

  // A copy of one of the rows joins.
  void extend() {
    const int row = below(int(rows_.size()));
    cache_.extend(cache_.extract(row));
    rows_.push_back(Floats(rows_[row]));
  }

  void check(int b) {
    const Floats& row = rows_[b];
    const size_t held = std::min(row.size(), size_t(window_));
    const MergedCache alone = cache_.extract(b);
    EXPECT_EQ(test::to_floats(alone.planes()[0]),
              Floats(row.end() - held, row.end()));
    EXPECT_EQ(alone.offsets(), std::vector{int(row.size())});
  }

  std::mt19937 random_;
  int window_;
  std::vector<Floats> rows_;
  MergedCache cache_;
  float next_ = 1;
  int written_ = 0;
};

TEST(MergedRing, RandomHistoriesMatchTheLists) {
  for (int seed = 0; seed < 300; seed++) {
    SCOPED_TRACE(seed);
    RingHistory(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace quern
