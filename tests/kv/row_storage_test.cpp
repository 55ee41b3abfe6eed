// Row storage against plain lists, and that copies own their memory.
#include "kv/row_storage.h"

#include "kv/merged.h"
#include "kv/naive_row.h"
#include "kv/recurrent.h"

namespace quern {
namespace {

using test::Floats;

// A number that says where it stands.
float mark(int plane, int b, int h, int t, int d) {
  return float(plane * 10000 + b * 1000 + h * 100 + t * 10 + d);
}

constexpr int kLast[] = {4, 1, 2};

// Three planes [B, 2, T, own last dimension] of three types.
Planes planes(int B, int T, int first_row = 0) {
  Planes out;
  for (int p = 0; p < 3; p++) {
    Floats x;
    for (int b = 0; b < B; b++)
      for (int h = 0; h < 2; h++)
        for (int t = 0; t < T; t++)
          for (int d = 0; d < kLast[p]; d++)
            x.push_back(mark(p, b + first_row, h, t, d));
    const mx::Dtype dtypes[] = {mx::uint32, mx::float32, mx::int32};
    out.push_back(
        mx::astype(test::to_array(x, {B, 2, T, kLast[p]}), dtypes[p]));
  }
  return out;
}

// The planes whose place (b, t) holds what planes() has at at(b, t), or 0.
struct Place {
  int row, token;
};
template <class At>
void expect(const Planes& got, int B, int T, At at) {
  const Planes types = planes(1, 1);
  for (int p = 0; p < 3; p++) {
    ASSERT_EQ(got[p].shape(), (mx::Shape{B, 2, T, kLast[p]}));
    EXPECT_EQ(got[p].dtype(), types[p].dtype());
    Floats x;
    for (int b = 0; b < B; b++)
      for (int h = 0; h < 2; h++)
        for (int t = 0; t < T; t++)
          for (int d = 0; d < kLast[p]; d++) {
            const Place from = at(b, t);
            x.push_back(from.row < 0 ? 0 : mark(p, from.row, h, from.token, d));
          }
    EXPECT_EQ(test::to_floats(got[p]), x);
  }
}

TEST(RowStorage, ShapeAndBytes) {
  EXPECT_EQ(storage::shape(planes(3, 5)), (mx::Shape{3, 2, 5, 4}));
  EXPECT_EQ(storage::bytes(planes(3, 5)), 3u * 2 * 5 * (4 + 1 + 2) * 4);
}

TEST(RowStorage, Slices) {
  expect(storage::slice(planes(3, 5), {1, 3}, {2, 4}), 2, 2,
         [](int b, int t) { return Place{b + 1, t + 2}; });
  expect(storage::slice_tokens(planes(2, 5), {4, 5}), 2, 1,
         [](int b, int) { return Place{b, 4}; });
}

TEST(RowStorage, Concatenates) {
  const Planes tokens[] = {planes(2, 3), planes(2, 1), planes(2, 2)};
  expect(storage::concat_tokens(tokens), 2, 6, [](int b, int t) {
    return Place{b, t < 3 ? t : t < 4 ? 0 : t - 4};
  });
  const Planes rows[] = {planes(1, 3, 4), planes(2, 3, 1)};
  expect(storage::concat_rows(rows), 3, 3,
         [](int b, int t) { return Place{b == 0 ? 4 : b, t}; });
  EXPECT_EQ(test::error_of([] { storage::concat_rows({}); }),
            "[kv.storage] nothing to put together");
}

TEST(RowStorage, PadsWithZerosOfEachType) {
  expect(storage::pad_left(planes(2, 3), 2), 2, 5,
         [](int b, int t) { return t < 2 ? Place{-1, 0} : Place{b, t - 2}; });
  expect(storage::pad_right(planes(2, 3), 2), 2, 5,
         [](int b, int t) { return t < 3 ? Place{b, t} : Place{-1, 0}; });
  const Planes all = planes(2, 3);
  EXPECT_EQ(storage::pad_left(all, 0)[1].id(), all[1].id());
}

TEST(RowStorage, TakesRowsInOrder) {
  const int keep[] = {2, 0, 2};
  expect(storage::take_rows(planes(3, 2), keep), 3, 2,
         [&](int b, int t) { return Place{keep[b], t}; });
}

TEST(RowStorage, WritesTokens) {
  expect(storage::write(planes(2, 5), planes(2, 2, 7), 1), 2, 5,
         [](int b, int t) {
           return t == 1 || t == 2 ? Place{b + 7, t - 1} : Place{b, t};
         });
}

TEST(RowStorage, MergesRowsThatEndTogether) {
  const Planes rows[] = {planes(1, 1, 3), planes(2, 3), planes(1, 0)};
  const int pads[] = {2, 0, 3};
  expect(storage::merge_rows(rows, pads), 4, 3, [](int b, int t) {
    if (b == 0) return t < 2 ? Place{-1, 0} : Place{3, 0};
    return b == 3 ? Place{-1, 0} : Place{b - 1, t};
  });
}

TEST(RowStorage, TemporalViewsOfARing) {
  BatchedRotatingState state(5, {0, 0});
  for (int i = 0; i < 7; i++) {
    state.begin_write(1);
    state.commit_write(1);
  }
  const Planes ring = planes(2, 5);  // the oldest token is in column 2
  expect(storage::temporal_view(ring, state, {}), 2, 5,
         [](int b, int t) { return Place{b, (t + 2) % 5}; });
  expect(storage::temporal_view(ring, state, {.row = 1, .from = 2}), 1, 3,
         [](int, int t) { return Place{1, (t + 4) % 5}; });
  expect(storage::temporal_view(ring, state, {.from = 1, .to = 2}), 2, 1,
         [](int b, int) { return Place{b, 3}; });
}

const void* memory(const mx::array& a) {
  return const_cast<mx::array&>(a).buffer().ptr();
}

// Also of what is contiguous already, where MLX's own copies share.
TEST(RowStorage, CopiesHaveBuffersOfTheirOwn) {
  Planes all = planes(2, 3);
  mx::eval(all);
  Planes copies = storage::copy(all);
  const int keep[] = {0, 1};
  const int none[] = {0};
  Planes taken = storage::take_rows(all, keep);
  Planes merged = storage::merge_rows({&all, 1}, none);
  for (Planes* own : {&copies, &taken, &merged}) {
    mx::eval(*own);
    for (int p = 0; p < 3; p++) EXPECT_NE(memory((*own)[p]), memory(all[p]));
    expect(*own, 2, 3, [](int b, int t) { return Place{b, t}; });
  }
  mx::array shared = mx::contiguous(all[0]);
  mx::eval(shared);
  EXPECT_EQ(memory(shared), memory(all[0]));
}

TEST(RowStorage, WritesInPlaceWhereNothingElseHoldsThem) {
  Planes all = planes(2, 300);
  mx::eval(all);
  const void* before = memory(all[0]);
  all = storage::write(all, planes(2, 1), 7);
  mx::eval(all);
  EXPECT_EQ(memory(all[0]), before);
}

class Memory : public testing::TestWithParam<KvCodec> {};

MergedCache filled(const KvForm& form, int window, int rows, int tokens) {
  MergedCache cache(form, window, rows);
  const mx::array kv = mx::random::normal({rows, 2, tokens, 64});
  cache.append(kv, kv);
  mx::eval(cache.planes());
  return cache;
}

// A row, cut out, keeps its own bytes and nothing of the batch.
TEST_P(Memory, FallsWhenTheBatchOfAnExtractedRowIsGone) {
  constexpr size_t kSlack = 64 * 1024;
  for (int B : {1, 8}) {
    const size_t before = mx::get_active_memory();
    auto batch =
        std::make_unique<MergedCache>(filled({GetParam(), 2, 64}, 0, B, 2048));
    const size_t batch_bytes = batch->bytes();
    EXPECT_GE(mx::get_active_memory(), before + batch_bytes);
    const MergedCache row = batch->extract(B - 1);
    EXPECT_EQ(row.bytes() * B, batch_bytes);
    const size_t with_both = mx::get_active_memory();
    EXPECT_GE(with_both, before + batch_bytes + row.bytes());
    for (size_t p = 0; p < row.planes().size(); p++) {
      EXPECT_NE(memory(row.planes()[p]), memory(batch->planes()[p]));
    }
    batch.reset();
    const size_t left = mx::get_active_memory();
    EXPECT_LE(left, before + row.bytes() + kSlack);
    EXPECT_GE(with_both - left, batch_bytes);
  }
}

TEST_P(Memory, FallsWhenRowsLeave) {
  constexpr size_t kSlack = 64 * 1024;
  const size_t before = mx::get_active_memory();
  MergedCache batch = filled({GetParam(), 2, 64}, 1000, 8, 1000);
  const size_t all = batch.bytes();
  const int keep[] = {5, 2};
  batch.filter(keep);
  EXPECT_EQ(batch.bytes(), all / 4);
  EXPECT_LE(mx::get_active_memory(), before + all / 4 + kSlack);
  batch.extend(batch.extract(0));
  batch.align();
  EXPECT_EQ(batch.bytes(), all / 8 * 3);
  EXPECT_LE(mx::get_active_memory(), before + all / 8 * 3 + kSlack);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Memory,
                         testing::Values(raw_kv(), affine_kv(4), turbo_kv()));

// States that say which row they are.
RecurrentRows recurrent(std::vector<int> rows) {
  Floats a, b;
  for (int row : rows) {
    for (int i = 0; i < 6; i++) a.push_back(float(row * 10 + i));
    b.push_back(float(row));
  }
  const int B = int(rows.size());
  return RecurrentRows({test::to_array(a, {B, 3, 2}),
                        mx::astype(test::to_array(b, {B, 1}), mx::bfloat16)});
}
void expect_rows(const RecurrentRows& got, std::vector<int> rows) {
  const RecurrentRows want = recurrent(rows);
  ASSERT_EQ(got.batch_size(), int(rows.size()));
  EXPECT_EQ(got.signature(), want.signature());
  EXPECT_EQ(test::plane_bytes(got.states()), test::plane_bytes(want.states()));
}

TEST(RecurrentRows, MergeAndTake) {
  const RecurrentRows a = recurrent({1}), b = recurrent({7, 4});
  EXPECT_EQ(a.signature(), "recurrent/float32:3x2/bfloat16:1");
  const RecurrentRows* rows[] = {&a, &b};
  const RecurrentRows all = RecurrentRows::merge(rows);
  expect_rows(all, {1, 7, 4});
  const int keep[] = {2, 0};
  expect_rows(all.take(keep), {4, 1});
}

TEST(RecurrentRows, CopiesHaveBuffersOfTheirOwn) {
  const RecurrentRows a = recurrent({3, 5});
  const RecurrentRows* one[] = {&a};
  const int keep[] = {0, 1};
  const RecurrentRows merged = RecurrentRows::merge(one), taken = a.take(keep);
  for (int i : {0, 1}) {
    mx::array state = a.states()[i];
    mx::eval(state);
    EXPECT_NE(memory(merged.states()[i]), memory(state));
    EXPECT_NE(memory(taken.states()[i]), memory(state));
  }
}

TEST(RecurrentRows, RefuseWhatDoesNotFit) {
  const RecurrentRows a = recurrent({1});
  const RecurrentRows b({mx::zeros({1, 3, 2})});
  const RecurrentRows* rows[] = {&a, &b};
  EXPECT_EQ(test::error_of([&] { RecurrentRows::merge(rows); }),
            "[kv.merge] rows must share a signature: got "
            "recurrent/float32:3x2/bfloat16:1 and recurrent/float32:3x2");
  EXPECT_EQ(test::error_of(
                [] { RecurrentRows({mx::zeros({1, 2}), mx::zeros({2, 2})}); }),
            "[kv.recurrent] states of other rows");
  const int keep[] = {1};
  EXPECT_EQ(test::error_of([&] { a.take(keep); }), "[kv.filter] no row 1 of 1");
}

}  // namespace
}  // namespace quern
