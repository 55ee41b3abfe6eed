#include "ops/huge_pages.h"

#include <gmock/gmock.h>

#include <cstdint>

#include "ops/support.h"

namespace quern {
namespace {

mx::array piece(int bytes) {
  return mx::array(weight_memory(bytes), {bytes}, mx::uint8);
}

TEST(WeightMemory, PiecesAreApartAndOnTheirOwnLines) {
  std::vector<mx::array> pieces;
  for (int i = 0; i < 200; i++) {
    pieces.push_back(piece(i == 100 ? 65 << 20 : 1 + 1000 * i));
    auto* p = pieces.back().data<uint8_t>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    std::fill_n(p, pieces.back().size(), uint8_t(i));
  }
  for (int i = 0; i < 200; i += 2) pieces[i] = mx::array(0);
  for (int i = 1; i < 200; i += 2) {
    const auto* p = pieces[i].data<uint8_t>();
    EXPECT_EQ(std::count(p, p + pieces[i].size(), uint8_t(i)),
              std::ptrdiff_t(pieces[i].size()));
  }
}

TEST(WeightMemory, AnArrayOnItIsLikeAnyOther) {
  mx::array a = piece(300);
  // As MLX's own: this is what it keeps in front of the data.
  EXPECT_EQ(a.buffer_size(), 300u);
  for (int i = 0; i < 300; i++) a.data<uint8_t>()[i] = uint8_t(i);
  const mx::array sum = mx::sum(mx::astype(a, mx::int32));
  const mx::array copy = mx::contiguous(mx::reshape(a, {3, 100}), false);
  a = mx::array(0);
  EXPECT_EQ(mx::array(sum).item<int>(), 255 * 256 / 2 + 43 * 44 / 2);
  EXPECT_THAT(test::to_floats(mx::take(copy, 2, 0)), testing::Contains(43));
}

}  // namespace
}  // namespace quern
