// Rows that move into merged buffers and out of them.
#include "kv/merged_rows.h"

#include "kv/naive_row.h"

namespace quern {
namespace {

constexpr int kWindow = 40;

// Three layers: all tokens in codes, a ring of numbers, a ring of codes.
Row row_of(int tokens) {
  std::vector<std::unique_ptr<LayerState>> layers;
  auto add = [&](const KvCodec& codec, Layout layout) {
    auto cache = std::make_unique<Cache>(KvShape{codec, 2, 64}, layout);
    cache->fill(tokens);
    layers.push_back(std::move(cache));
  };
  add(turbo_kv(), Layout::append());
  add(raw_kv(), Layout::ring(kWindow));
  add(affine_kv(4), Layout::ring(kWindow));
  return Row(std::move(layers));
}

// What is seen of the past of each layer.
std::vector<std::vector<test::Bytes>> bytes_of(const Row& row) {
  std::vector<std::vector<test::Bytes>> out;
  for (int i = 0; i < row.layers(); i++) {
    const auto& cache = dynamic_cast<const Cache&>(row.layer(i));
    const int most = i == 0 ? cache.offset() : kWindow;
    out.push_back(
        test::plane_bytes(cache.last(std::min(most, cache.offset()))));
  }
  return out;
}

TEST(MergedRows, MoveInAndOutAsTheyAre) {
  std::vector<Row> rows;
  std::vector<std::vector<std::vector<test::Bytes>>> want;
  const int lengths[] = {7, 300, 41, 1000};
  for (int length : lengths) {
    rows.push_back(row_of(length));
    want.push_back(bytes_of(rows.back()));
  }
  MergedRows merged;
  EXPECT_EQ(merged.size(), 0);
  std::vector<Row> first;
  for (int i : {0, 1, 3}) first.push_back(std::move(rows[i]));
  merged.arrange({}, std::move(first));
  std::vector<Row> second;
  second.push_back(std::move(rows[2]));
  const int keep[] = {0, 1};
  merged.arrange(keep, std::move(second));
  merged.make_room();
  ASSERT_EQ(merged.size(), 3);
  for (int i : {0, 1, 2}) {
    EXPECT_EQ(merged.length(i), lengths[i]);
    const Row row = merged.extract(i);
    EXPECT_EQ(bytes_of(row), want[i]);
    EXPECT_EQ(row.signatures(), row_of(1).signatures());
  }
}

TEST(MergedRows, HoldNoMoreThanTheirBill) {
  const Row empty = row_of(0);
  MergedRows merged;
  std::vector<Row> rows;
  for (int length : {1, 20, 600}) rows.push_back(row_of(length));
  merged.arrange({}, std::move(rows));
  merged.make_room();
  const KvCodec codecs[] = {turbo_kv(), raw_kv(), affine_kv(4)};
  const size_t columns[] = {600 + 256, kWindow, kWindow};
  size_t bytes = 0;
  for (int i = 0; i < 3; i++) {
    bytes += 3 * columns[i] * 2 * codecs[i].bytes_per_token(64);
  }
  EXPECT_EQ(merged.bytes(), bytes);
  EXPECT_LE(bytes, 3 * MergedRows::bytes_at(empty, 600));
  const int keep[] = {1};
  merged.arrange(keep, {});
  EXPECT_LT(merged.bytes(), MergedRows::bytes_at(empty, 20));
}

}  // namespace
}  // namespace quern
