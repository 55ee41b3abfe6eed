// The two forms of the same rows: each row on its own planes (Cache), and all
// in one buffer (MergedCache), for every codec and layout.
#include <deque>

#include "kv/cache_cases.h"
#include "kv/interchange.h"
#include "kv/merged.h"

namespace quern {
namespace {

using test::Floats;
using test::Token;
using Case = test::CacheCase;

constexpr test::Shape kShape = Case::kShape;
constexpr float kScale = 0.125f;  // 1 / sqrt(head_dim)

// Made once: every case sees the same rows.
const Token& token_of(int row, int position) {
  static std::map<int, std::deque<Token>> rows;
  std::deque<Token>& tokens = rows[row];
  while (int(tokens.size()) <= position) {
    tokens.push_back(test::token_of(row, int(tokens.size()), kShape));
  }
  return tokens[position];
}

// A part of one token after the other: [T, heads * D].
mx::array flat(const std::vector<Token>& tokens, Floats Token::* part,
               int heads) {
  Floats x;
  for (const Token& t : tokens) {
    x.insert(x.end(), (t.*part).begin(), (t.*part).end());
  }
  return test::to_array(x, {int(tokens.size()), heads * kShape.head_dim});
}

// A row in both forms: its cache in the batch, and one that is always fed
// alone.
struct OneRow {
  int id;
  std::unique_ptr<Cache> batched, solo;

  int length() const { return solo->offset(); }
  std::vector<Token> next(int count) const {
    std::vector<Token> tokens;
    for (int i = 0; i < count; i++) {
      tokens.push_back(token_of(id, length() + i));
    }
    return tokens;
  }
};

// `count` tokens for each of the caches: [B * count, H * D].
Floats feed(const std::vector<Cache*>& caches, const std::vector<Token>& tokens,
            int count, Precision precision = Precision::fast) {
  std::vector<CacheRow> rows;
  for (size_t b = 0; b < caches.size(); b++) {
    rows.push_back({caches[b], int(b) * count, count});
  }
  return test::to_floats(attend(flat(tokens, &Token::q, kShape.heads),
                                flat(tokens, &Token::k, kShape.kv_heads),
                                flat(tokens, &Token::v, kShape.kv_heads), rows,
                                {.scale = kScale, .precision = precision}));
}

Floats feed(MergedCache& cache, const std::vector<Token>& tokens, int count) {
  auto part = [&](Floats Token::* which, int heads) {  // [B, heads, N, D]
    const mx::array x = flat(tokens, which, heads);
    return mx::swapaxes(
        mx::reshape(x, {cache.batch_size(), count, heads, kShape.head_dim}), 1,
        2);
  };
  const mx::array out = cache.attend(
      part(&Token::q, kShape.heads), part(&Token::k, kShape.kv_heads),
      part(&Token::v, kShape.kv_heads), {.scale = kScale});
  cache.release_rope_offsets();
  return test::to_floats(mx::swapaxes(out, 1, 2));
}

// The root mean square of what is off, by that of what it should be.
class Deviation {
 public:
  void add(const Floats& got, const Floats& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
      error_ += std::pow(double(got[i]) - want[i], 2);
      length_ += double(want[i]) * want[i];
    }
  }
  double relative() const { return std::sqrt(error_ / length_); }

 private:
  double error_ = 0, length_ = 0;
};

class Forms : public testing::TestWithParam<Case> {
 protected:
  OneRow new_row(int tokens) {
    const Case& c = GetParam();
    OneRow row{next_id_++, nullptr,
               std::make_unique<Cache>(c.shape(), c.layout())};
    feed({row.solo.get()}, row.next(tokens), tokens);
    auto copy = row.solo->copy();
    row.batched.reset(static_cast<Cache*>(copy.release()));
    return row;
  }

  MergedCache moved(const Cache& cache) const {
    const int kept = cache.offset(), window = GetParam().window;
    return MergedCache::row(
        GetParam().form(), window,
        cache.last(window > 0 ? std::min(kept, window) : kept), cache.offset());
  }

  // All forms take `count` tokens a row.
  void step(MergedCache& merged, std::vector<OneRow>& rows, int count) {
    std::vector<Token> tokens;
    std::vector<Cache*> batched, copies;
    std::vector<std::unique_ptr<LayerState>> owners;
    Floats alone;
    for (OneRow& row : rows) {
      const auto next = row.next(count);
      tokens.insert(tokens.end(), next.begin(), next.end());
      batched.push_back(row.batched.get());
      owners.push_back(row.batched->copy());
      copies.push_back(static_cast<Cache*>(owners.back().get()));
      for (float x : feed({row.solo.get()}, next, count)) alone.push_back(x);
    }
    const Floats exact = feed(copies, tokens, count, Precision::exact);
    const Floats fast = feed(batched, tokens, count);
    const Floats got = feed(merged, tokens, count);
    EXPECT_EQ(fast, alone) << "a row's result depends on its company";
    exact_.add(exact, got);
    fast_.add(fast, got);
  }

  // Row for row they hold the same bytes.
  void expect_same(const MergedCache& merged, const std::vector<OneRow>& rows) {
    ASSERT_EQ(merged.batch_size(), int(rows.size()));
    for (size_t b = 0; b < rows.size(); b++) {
      SCOPED_TRACE(testing::Message() << "row " << b);
      const MergedCache row = merged.extract(int(b));
      EXPECT_EQ(row.offsets()[0], rows[b].length());
      const auto bytes = test::plane_bytes(row.planes());
      EXPECT_EQ(bytes, test::plane_bytes(moved(*rows[b].solo).planes()));
      EXPECT_EQ(bytes, test::plane_bytes(moved(*rows[b].batched).planes()));
    }
  }

  int next_id_ = 0;
  Deviation exact_, fast_;  // of all steps: a few numbers may be further off
};

TEST_P(Forms, RaggedRowsEqualMergedRowsEqualRowsAlone) {
  for (int B : {1, 2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << B << " rows");
    next_id_ = 0;
    exact_ = fast_ = {};
    std::vector<OneRow> rows;
    std::vector<MergedCache> parts;
    for (int b = 0; b < B; b++) {
      rows.push_back(new_row(1 + (b * 37 + 11) % 90));
      parts.push_back(moved(*rows.back().solo));
    }
    std::vector<const MergedCache*> all;
    for (const MergedCache& part : parts) all.push_back(&part);
    MergedCache merged = MergedCache::merge(all);
    for (int count : {1, 1, 7, 1, 40, 1}) step(merged, rows, count);
    expect_same(merged, rows);

    // One leaves, and comes back into the ragged form.
    const MergedCache left = merged.extract(B / 2);
    OneRow gone = std::move(rows[B / 2]);
    Cache back(GetParam().shape(), GetParam().layout(), left.planes(),
               left.offsets()[0]);
    for (int count : {1, 3}) {
      const auto next = gone.next(count);
      EXPECT_EQ(feed({&back}, next, count),
                feed({gone.solo.get()}, next, count));
    }
    std::vector<int> keep;
    for (int b = B - 1; b >= 0; b--) {
      if (b != B / 2) keep.push_back(b);
    }
    std::vector<OneRow> kept;
    for (int b : keep) kept.push_back(std::move(rows[b]));
    rows = std::move(kept);
    if (B > 1) {
      merged.filter(keep);
      for (int count : {1, 1, 1}) step(merged, rows, count);
      expect_same(merged, rows);
    }

    // Two join, one of them the row that left.
    rows.push_back(new_row(60));
    gone.batched.reset(static_cast<Cache*>(gone.solo->copy().release()));
    rows.push_back(std::move(gone));
    std::vector<MergedCache> joining{moved(*rows[rows.size() - 2].solo),
                                     moved(back)};
    std::vector<MergedCache::RowOf> together;
    for (int b = 0; b < B - 1; b++) together.push_back({&merged, b});
    for (const MergedCache& one : joining) together.push_back({&one, 0});
    merged = MergedCache::gather(together);
    const int steps = GetParam().window > 0 ? 24 : 1;  // three rounds of a ring
    for (int i = 0; i < steps; i++) {
      for (int count : {1, 40}) step(merged, rows, count);
    }
    for (int count : {1, 1}) step(merged, rows, count);
    expect_same(merged, rows);
    const bool raw = GetParam().codec.raw();
    EXPECT_LT(exact_.relative(), raw ? 1e-5 : 2e-3);
    EXPECT_LT(fast_.relative(), raw ? 1e-5 : 1.5e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, Forms, testing::ValuesIn(test::all_cases()),
                         test::case_name);

}  // namespace
}  // namespace quern
