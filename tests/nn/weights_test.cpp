#include "nn/weights.h"

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include "base/error_of.h"

namespace quern {
namespace {

using test::error_of;

// Bytes that a TensorView may point at.
std::vector<std::byte> zeros(size_t count) {
  return std::vector<std::byte>(count);
}

class WeightsTest : public testing::Test {
 protected:
  void add(const std::string& name, TensorType type, std::vector<int64_t> shape,
           size_t bytes) {
    memory_.push_back(zeros(bytes));
    set_[name] = {name, type, std::move(shape), memory_.back(), nullptr};
  }
  Weights weights(const char* config = "{}") {
    return Weights(set_, Config(parse_json(config, "m").or_throw(), "m"));
  }

  std::vector<std::vector<std::byte>> memory_;
  TensorSet set_;
};

TEST_F(WeightsTest, DenseMatricesAndVectors) {
  add("a.weight", TensorType::F32, {3, 8}, 96);
  add("a.bias", TensorType::BF16, {3}, 6);
  Weights w = weights();
  const Weight a = w.matrix("a", 3, 8);
  EXPECT_EQ(a.n, 3);
  EXPECT_EQ(a.k, 8);
  EXPECT_TRUE(a.format.dense());
  EXPECT_TRUE(w.vector_if("a.bias", 3));
  EXPECT_FALSE(w.vector_if("b.bias", 3));
  // a tile of 16 rows and K padded to 32, in f32; 3 numbers in f32
  EXPECT_EQ(w.bytes(), 16u * 32 * 4 + 12);
}

TEST_F(WeightsTest, QuantisedByModulePath) {
  for (const char* name : {"a", "b"}) {
    const std::string path = name;
    const int bits = path == "a" ? 4 : 8;
    add(path + ".weight", TensorType::U32, {16, 64 * bits / 32},
        size_t(16 * 64 * bits / 8));
    add(path + ".scales", TensorType::F16, {16, 1}, 32);
    add(path + ".biases", TensorType::F16, {16, 1}, 32);
  }
  Weights w = weights(
      R"({"quantization": {"group_size": 64, "bits": 4, "b": {"bits": 8}}})");
  EXPECT_EQ(w.matrix("a", 16, 64).format.bits, 4);
  EXPECT_EQ(w.matrix("b", 16, 64).format.bits, 8);
}

TEST_F(WeightsTest, TheLanguageModelOfAMultimodalCheckpoint) {
  add("language_model.b.weight", TensorType::U32, {16, 16}, 1024);
  add("language_model.b.scales", TensorType::F16, {16, 1}, 32);
  add("language_model.b.biases", TensorType::F16, {16, 1}, 32);
  Weights w = weights(R"({"quantization": {"group_size": 64, "bits": 4,
                          "language_model.b": {"bits": 8}}})");
  EXPECT_TRUE(w.has("b"));
  EXPECT_EQ(w.matrix("b", 16, 64).format.bits, 8);
}

TEST_F(WeightsTest, NamesALayersTensorThatNothingAskedFor) {
  add("model.layers.0.a.weight", TensorType::F32, {3, 8}, 96);
  add("model.layers.1.a.weight", TensorType::F32, {3, 8}, 96);
  add("model.layers.0.self_attn.rotary_emb.inv_freq", TensorType::F32, {4}, 16);
  add("vision.patch", TensorType::F32, {4}, 16);
  Weights w = weights();
  w.matrix("model.layers.0.a", 3, 8);
  EXPECT_EQ(w.unused_layer_tensor(), "model.layers.1.a.weight");
  w.matrix("model.layers.1.a", 3, 8);
  EXPECT_EQ(w.unused_layer_tensor(), "");
}

TEST_F(WeightsTest, RefusalsNameTheTensor) {
  add("a.weight", TensorType::F32, {3, 8}, 96);
  add("q.weight", TensorType::U32, {16, 8}, 512);
  add("q.scales", TensorType::F16, {16, 1}, 32);
  Weights w = weights();
  EXPECT_EQ(error_of([&] { w.matrix("gone", 1, 1); }),
            "m: tensor gone.weight is missing");
  EXPECT_EQ(error_of([&] { w.matrix("a", 3, 9); }),
            "m: a must be [3, 9], got [3, 8]");
  EXPECT_EQ(error_of([&] { w.vector("a.weight", 24); }),
            "m: a.weight must be [24], got [3, 8]");
  EXPECT_EQ(error_of([&] { w.matrix("q", 16, 64); }),
            "m: q is quantised, but the configuration has no quantization");
  EXPECT_EQ(error_of([&] {
              weights(R"({"quantization": {"bits": 4}})").matrix("q", 16, 64);
            }),
            "m: quantization needs bits and group_size");
  EXPECT_EQ(error_of([&] {
              weights(R"({"quantization": {"bits": 4, "group_size": 64}})")
                  .matrix("q", 16, 64);
            }),
            "m: tensor q.biases is missing");
  EXPECT_EQ(error_of([&] {
              weights(R"({"quantization_config": {"quant_method": "awq"}})");
            }),
            "m: quantization method \"awq\" is not supported (MLX affine)");
  EXPECT_EQ(
      error_of([&] { weights(R"({"quantization": {"mode": "mxfp4"}})"); }),
      "m: quantization mode \"mxfp4\" is not supported (affine)");
}

}  // namespace
}  // namespace quern
