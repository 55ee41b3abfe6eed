// The two forms of the same rows: each row on its own planes (Cache), and all
// in one buffer (MergedCache).
#include "kv/cache.h"
#include "kv/merged.h"
#include "kv/naive_row.h"

namespace quern {
namespace {

using test::Floats;
using test::Token;

constexpr test::Shape kShape{4, 2, 32};
constexpr float kScale = 0.2f, kClose = 1e-5f;  // f32

struct Case {
  int window;
  qmm::Number number;
};

class Forms : public testing::TestWithParam<Case> {
 protected:
  int window() const { return GetParam().window; }
  KvForm form() const {
    return {raw_kv(GetParam().number), kShape.kv_heads, kShape.head_dim};
  }
  KvShape ragged_shape() const {
    return {GetParam().number, kShape.kv_heads, kShape.head_dim};
  }
  std::unique_ptr<Cache> ragged() const {
    return std::make_unique<Cache>(ragged_shape(), window() > 0
                                                       ? Layout::ring(window())
                                                       : Layout::append());
  }

  // A part of one token after the other: [T, heads * D].
  static mx::array flat(const std::vector<Token>& tokens, Floats Token::* part,
                        int heads) {
    Floats x;
    for (const Token& t : tokens) {
      x.insert(x.end(), (t.*part).begin(), (t.*part).end());
    }
    return test::to_array(x, {int(tokens.size()), heads * kShape.head_dim});
  }

  // `count` tokens for each row, by position: [B * count, H * D].
  static Floats feed(std::vector<std::unique_ptr<Cache>>& caches,
                     const std::vector<Token>& tokens, int count) {
    std::vector<CacheRow> rows;
    for (size_t b = 0; b < caches.size(); b++) {
      rows.push_back({caches[b].get(), int(b) * count, count});
    }
    return test::to_floats(quern::attend(
        flat(tokens, &Token::q, kShape.heads),
        flat(tokens, &Token::k, kShape.kv_heads),
        flat(tokens, &Token::v, kShape.kv_heads), rows, {.scale = kScale}));
  }

  static Floats feed(MergedCache& cache, const std::vector<Token>& tokens,
                     int count) {
    auto part = [&](Floats Token::* which, int heads) {  // [B, heads, N, D]
      const mx::array x = flat(tokens, which, heads);
      return mx::swapaxes(
          mx::reshape(x, {cache.batch_size(), count, heads, kShape.head_dim}),
          1, 2);
    };
    const mx::array out = cache.attend(
        part(&Token::q, kShape.heads), part(&Token::k, kShape.kv_heads),
        part(&Token::v, kShape.kv_heads), {.scale = kScale});
    cache.release_rope_offsets();
    return test::to_floats(mx::swapaxes(out, 1, 2));
  }

  // The row of a ragged cache as planes in order.
  MergedCache moved(const Cache& cache) const {
    mx::eval(cache.arrays());
    const int length = cache.offset();
    const int from = window() > 0 ? std::max(0, length - window()) : 0;
    AttendOptions options{.kv = ragged_shape()};
    options.ring = window() > 0;
    const mx::array kv = gather_kv(cache.planes(), options,
                                   cache.layout().capacity(), from, length);
    auto part = [&](int i) {  // [1, kv_heads, T, D]
      return mx::astype(
          mx::slice(kv, {i, 0, 0, 0},
                    {i + 1, kv.shape(1), kv.shape(2), kv.shape(3)}),
          ragged_shape().dtype());
    };
    return MergedCache::row(form(), window(), {part(0), part(1)}, length);
  }

  std::vector<Token> tokens(const std::vector<int>& positions, int count) {
    std::vector<Token> out;
    for (size_t b = 0; b < positions.size(); b++) {
      for (int i = 0; i < count; i++) {
        out.push_back(test::token_of(int(b), positions[b] + i, kShape));
      }
    }
    return out;
  }
};

TEST_P(Forms, RaggedRowsEqualMergedRowsEqualRowsAlone) {
  for (int B : {1, 2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << B << " rows");
    std::vector<std::unique_ptr<Cache>> ragged;
    std::vector<MergedCache> solo;
    std::vector<int> positions;
    for (int b = 0; b < B; b++) {
      std::vector<std::unique_ptr<Cache>> one;
      one.push_back(this->ragged());
      const int length = 1 + (b * 37 + 11) % 90;
      feed(one, tokens({0}, length), length);
      solo.push_back(moved(*one[0]));
      ragged.push_back(std::move(one[0]));
      positions.push_back(length);
    }
    std::vector<const MergedCache*> rows;
    for (const MergedCache& row : solo) rows.push_back(&row);
    MergedCache merged = MergedCache::merge(rows);
    for (int count : {1, 1, 7, 1, 40, 1, 1, 1}) {
      const auto next = tokens(positions, count);
      const Floats got = feed(merged, next, count);
      EXPECT_LT(test::largest_difference(feed(ragged, next, count), got),
                kClose);
      Floats alone;
      for (int b = 0; b < B; b++) {
        const auto from = next.begin() + b * count;
        for (float x : feed(solo[b], {from, from + count}, count)) {
          alone.push_back(x);
        }
        positions[b] += count;
      }
      EXPECT_LT(test::largest_difference(alone, got), kClose);
    }
    for (int b = 0; b < B; b++) {  // and they hold the same bytes
      EXPECT_EQ(test::plane_bytes(moved(*ragged[b]).planes()),
                test::plane_bytes(merged.extract(b).planes()));
    }
  }
}

constexpr qmm::Number kF32 = qmm::Number::f32, kF16 = qmm::Number::f16;
INSTANTIATE_TEST_SUITE_P(Windows, Forms,
                         testing::Values(Case{0, kF32}, Case{16, kF32},
                                         Case{100, kF32}, Case{0, kF16},
                                         Case{16, kF16}));

}  // namespace
}  // namespace quern
