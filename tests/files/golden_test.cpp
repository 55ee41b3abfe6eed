// The small files of goldens/, written and read back by the reference
// libraries (make_goldens.py).
#include "files/golden.h"

#include <gtest/gtest.h>

#include "files/gguf.h"
#include "files/safetensors.h"

namespace quern {
namespace {

using test::expect_metadata;
using test::expect_tensors;
using test::golden_json;
using test::golden_path;

std::string text_of(const char* name) {
  return std::move(read_text(golden_path(name))).or_throw();
}

TEST(Golden, SafetensorsOfEveryType) {
  const auto file = Safetensors::open(golden_path("small.safetensors"));
  ASSERT_TRUE(file) << file.reason();
  const Json golden = golden_json("small.safetensors.json");
  EXPECT_EQ(golden["tensors"].size(), 18u);
  expect_tensors((*file)->tensors(), golden["tensors"]);
  EXPECT_EQ((*file)->metadata(),
            (Safetensors::Metadata{{"format", "mlx"}, {"note", "a \"b\"\n"}}));
}

TEST(Golden, GgufOfEveryType) {
  const auto file = Gguf::open(golden_path("small.gguf"));
  ASSERT_TRUE(file) << file.reason();
  const Json golden = golden_json("small.gguf.json");
  EXPECT_EQ(golden["tensors"].size(), 34u);
  expect_tensors((*file)->tensors(), golden["tensors"]);
  expect_metadata(**file, golden["metadata"]);
}

TEST(Golden, BlockSizesOfGgufPy) {
  const Json golden = golden_json("types.json")["gguf"];
  std::map<std::string_view, TypeInfo> ours;
  for (int i = 0; i <= int(TensorType::Q1_0); ++i) {
    const TypeInfo& info = type_info(TensorType(i));
    EXPECT_TRUE(ours.emplace(info.name, info).second) << info.name;
  }
  EXPECT_EQ(golden.size(), 34u);
  for (const auto& [name, row] : golden.items()) {
    const auto it = ours.find(name);
    ASSERT_NE(it, ours.end()) << name;
    EXPECT_EQ(it->second.block, row[1]) << name;
    EXPECT_EQ(it->second.bytes, row[2]) << name;
  }
}

TEST(Golden, NoCutFileIsRead) {
  const std::string safetensors = text_of("small.safetensors");
  for (size_t size = 0; size < safetensors.size(); ++size) {
    const Bytes cut = std::as_bytes(std::span(safetensors)).first(size);
    EXPECT_FALSE(Safetensors::parse(cut, "f")) << size;
  }
  // The last tensor and its padding end the file.
  const std::string gguf = text_of("small.gguf");
  const auto whole = Gguf::parse(std::as_bytes(std::span(gguf)), "f");
  ASSERT_TRUE(whole) << whole.reason();
  size_t end = 0;
  for (const auto& [name, tensor] : (*whole)->tensors()) {
    const auto* last = tensor.bytes.data() + tensor.bytes.size();
    end = std::max(end, size_t(last - std::as_bytes(std::span(gguf)).data()));
  }
  for (size_t size = 0; size < end; ++size) {
    const Bytes cut = std::as_bytes(std::span(gguf)).first(size);
    EXPECT_FALSE(Gguf::parse(cut, "f")) << size;
  }
}

// Every value stays readable, or the file is refused with one line.
TEST(Golden, FlippedBytesAreReadOrRefused) {
  std::string gguf = text_of("small.gguf");
  std::string safetensors = text_of("small.safetensors");
  const auto one_line = [](const std::string& reason) {
    return !reason.empty() && reason.find('\n') == std::string::npos;
  };
  for (int mask : {0x01, 0x80, 0xFF}) {
    for (char& byte : safetensors) {
      byte = char(byte ^ mask);
      const auto file =
          Safetensors::parse(std::as_bytes(std::span(safetensors)), "f");
      EXPECT_TRUE(file || one_line(file.reason()));
      byte = char(byte ^ mask);
    }
    for (size_t i = 0; i < 4096; ++i) {
      gguf[i] = char(gguf[i] ^ mask);
      const auto file = Gguf::parse(std::as_bytes(std::span(gguf)), "f");
      EXPECT_TRUE(file || one_line(file.reason()));
      gguf[i] = char(gguf[i] ^ mask);
    }
  }
}

}  // namespace
}  // namespace quern
