// Packed weights against gguf-py's values (make_goldens.py).
#include <cmath>

#include "base/files.h"
#include "ops/support.h"
#include "quant/gguf_blocks.h"
#include "quant/pack.h"

namespace quern {
namespace {

constexpr int kRows = 17;

struct Golden {
  TensorView tensor;
  std::vector<float> values;  // [kRows, k]
};

Golden read_golden(TensorType type) {
  const TypeInfo& info = type_info(type);
  const Path path = Path(QUERN_TEST_DIR) / "quant/goldens" /
                    (std::string(info.name) + ".bin");
  auto file = MappedFile::open(path).or_throw();
  const int64_t k = info.block == 1 ? 45 : 512;
  const std::vector<int64_t> shape{kRows, k};
  const size_t bytes = tensor_bytes(type, shape).or_throw();
  Golden golden{{"w", type, shape, file->bytes().first(bytes), file}, {}};
  golden.values.resize(kRows * k);
  EXPECT_EQ(file->bytes().size(), bytes + golden.values.size() * 4) << path;
  std::memcpy(golden.values.data(), file->bytes().data() + bytes,
              golden.values.size() * 4);
  return golden;
}

class GgufTypes : public testing::TestWithParam<TensorType> {};

// Each value is s * q + m or s * (q - zero), a product and a sum rounded to
// f32 as in gguf-py; all but Q6_K's products with the code are exact. There
// the reference rounds s * q and adds s * zero: half an ulp of at most 63 s.
TEST_P(GgufTypes, MeansWhatGgufSays) {
  const Golden golden = read_golden(GetParam());
  const Weight w = pack_weight(golden.tensor).or_throw();
  EXPECT_EQ(w.n, kRows);
  EXPECT_EQ(w.k, golden.tensor.shape[1]);
  const auto values = test::to_floats(dequantize(w));
  ASSERT_EQ(values.size(), golden.values.size());
  for (int n = 0; n < kRows; n++) {
    float most = 0;
    for (int k = 0; k < w.k; k++) {
      most = std::max(most, std::fabs(golden.values[n * w.k + k]));
    }
    const float tolerance =
        GetParam() == TensorType::Q6_K ? std::ldexp(2 * most, -24) : 0;
    for (int k = 0; k < w.k; k++) {
      ASSERT_NEAR(values[n * w.k + k], golden.values[n * w.k + k], tolerance)
          << "row " << n << ", column " << k;
    }
  }
}

// The kernels round as gguf-py does.
TEST_P(GgufTypes, RowsOfEachIsaAreExact) {
  const Golden golden = read_golden(GetParam());
  const Weight w = pack_weight(golden.tensor).or_throw();
  const Tiles tiles{w.format, w.tiles.data<uint8_t>(), w.n, w.k};
  std::vector<float> row(w.k);
  for (Isa isa : test::available_isas()) {
    use_isa(isa);
    for (int n = 0; n < kRows; n++) {
      kernels().dequantize_row(tiles, n, row.data());
      for (int k = 0; k < w.k; k++) {
        ASSERT_EQ(row[k], golden.values[n * w.k + k])
            << kernels().name << " row " << n << ", column " << k;
      }
    }
  }
}

TEST_P(GgufTypes, PackingIsTheSameOnAnyThreads) {
  const Golden golden = read_golden(GetParam());
  auto packed = [&](int threads) {
    set_threads(threads);
    return pack_weight(golden.tensor).or_throw().tiles;
  };
  const mx::array one = packed(1), three = packed(3);
  set_threads(0);
  EXPECT_TRUE(mx::array_equal(one, three).item<bool>());
}

INSTANTIATE_TEST_SUITE_P(
    Type, GgufTypes,
    testing::Values(TensorType::F32, TensorType::F16, TensorType::BF16,
                    TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0,
                    TensorType::Q5_1, TensorType::Q8_0, TensorType::Q2_K,
                    TensorType::Q3_K, TensorType::Q4_K, TensorType::Q5_K,
                    TensorType::Q6_K),
    [](const auto& info) { return std::string(type_info(info.param).name); });

// Three blocks of zero bytes end in the middle of a 64-byte line of scales.
TEST(PackWeight, PaddingIsZero) {
  const std::vector<std::byte> zeros(16 * 3 * 210);
  for (TensorType type : {TensorType::Q8_0, TensorType::Q6_K}) {
    const int k = 3 * type_info(type).block;
    const size_t bytes = tensor_bytes(type, {16, k}).or_throw();
    const auto format = format_of(type);
    {  // memory that was in use before
      mx::array dirty = mx::full({int(format.bytes(16, k))}, 255, mx::uint8);
      mx::eval(dirty);
    }
    const Weight w =
        pack_weight({"w", type, {16, k}, {zeros.data(), bytes}, nullptr})
            .or_throw();
    const auto* tile = w.tiles.data<uint8_t>();
    EXPECT_EQ(std::vector<uint8_t>(tile, tile + format.scale_bytes(k)),
              std::vector<uint8_t>(format.scale_bytes(k)));
  }
}

TEST(ToF32, PlainTypes) {
  for (TensorType type : {TensorType::F32, TensorType::F16, TensorType::BF16}) {
    const Golden golden = read_golden(type);
    const mx::array a = to_f32(golden.tensor).or_throw();
    EXPECT_EQ(a.shape(), (mx::Shape{kRows, 45}));
    EXPECT_TRUE(test::same_bits(test::to_floats(a), golden.values));
  }
}

}  // namespace
}  // namespace quern
