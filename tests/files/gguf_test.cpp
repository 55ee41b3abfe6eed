#include "files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/blob.h"

namespace quern {
namespace {

using test::as_bytes;
using test::Blob;
using testing::ElementsAre;
using testing::Optional;

constexpr uint64_t kHuge = uint64_t(1) << 63;
constexpr uint32_t kF32 = 0, kQ4_0 = 2, kIq4Xs = 23;

uint32_t code(GgufType type) { return uint32_t(type); }

Blob header(uint64_t tensors, uint64_t kvs, uint32_t version = 3) {
  return Blob().raw("GGUF").u32(version).u64(tensors).u64(kvs);
}

// What follows a tensor's name.
struct Tensor {
  std::vector<uint64_t> dims;  // innermost first
  uint32_t type = kF32;
  uint64_t offset = 0;
};

Blob& add(Blob& blob, std::string_view name, const Tensor& tensor) {
  blob.str(name).u32(uint32_t(tensor.dims.size()));
  for (uint64_t dim : tensor.dims) blob.u64(dim);
  return blob.u32(tensor.type).u64(tensor.offset);
}

// Pads to the start of the data, and appends it.
std::string with_data(Blob blob, size_t data, size_t alignment = 32) {
  const size_t past = blob.bytes().size() % alignment;
  return blob.zeros(past ? alignment - past : 0).zeros(data).bytes();
}

std::string one_tensor(const Tensor& tensor, size_t data) {
  Blob blob = header(1, 0);
  return with_data(add(blob, "t", tensor), data);
}

// Why the bytes are refused; empty if they are not.
std::string refusal(std::string_view bytes) {
  const auto file = Gguf::parse(as_bytes(bytes), "f");
  return file ? "" : file.reason();
}

std::shared_ptr<const Gguf> parsed(std::string_view bytes) {
  auto file = Gguf::parse(as_bytes(bytes), "f");
  EXPECT_TRUE(file) << file.reason();
  return file ? *file : std::make_shared<const Gguf>();
}

TEST(GgufCases, M10_TooManyDimensions) {
  EXPECT_EQ(refusal(one_tensor({std::vector<uint64_t>(9, 1)}, 32)),
            "f: tensor 't': 9 dimensions, the limit is 4");
  EXPECT_EQ(
      refusal(header(1, 0).str("t").u32(uint32_t(1) << 31).zeros(64).bytes()),
      "f: tensor 't': 2147483648 dimensions, the limit is 4");
}

std::string aligned_to(uint32_t alignment) {
  Blob blob = header(1, 1);
  blob.str("general.alignment").u32(code(GgufType::U32)).u32(alignment);
  return with_data(add(blob, "t", {{2}}), 8, std::max(alignment, 1u));
}

TEST(GgufCases, M11_Alignment) {
  EXPECT_EQ(refusal(aligned_to(0)),
            "f: general.alignment is 0, not a power of two");
  EXPECT_EQ(refusal(aligned_to(24)),
            "f: general.alignment is 24, not a power of two");
  EXPECT_EQ(refusal(aligned_to(64)), "");
  EXPECT_EQ(refusal(header(0, 1)
                        .str("general.alignment")
                        .u32(code(GgufType::String))
                        .str("32")
                        .bytes()),
            "f: general.alignment is no integer, not a power of two");
  EXPECT_EQ(refusal(header(0, 1)
                        .str("general.alignment")
                        .u32(code(GgufType::U64))
                        .u64(kHuge)
                        .bytes()),
            "");
}

TEST(GgufCases, M11_AlignmentBeyondTheFile) {
  Blob blob = header(1, 1);
  blob.str("general.alignment").u32(code(GgufType::U64)).u64(kHuge);
  const std::string bytes = with_data(add(blob, "t", {{2}}), 8);
  EXPECT_EQ(refusal(bytes),
            "f: the file ends within the padding before the tensor data, at "
            "byte 94");
}

TEST(GgufCases, M13_HugeCounts) {
  EXPECT_EQ(refusal(header(kHuge, 0).bytes()),
            "f: 9223372036854775808 tensors do not fit in a file of 24 bytes");
  EXPECT_EQ(refusal(header(0, kHuge).bytes()),
            "f: 9223372036854775808 metadata entries do not fit in a file of "
            "24 bytes");
  EXPECT_EQ(refusal(header(0, 1).u64(kHuge).raw("key").zeros(5).bytes()),
            "f: the file ends within the key of metadata 0, at byte 24");
  EXPECT_EQ(refusal(header(1, 0).u64(kHuge).raw("t").zeros(15).bytes()),
            "f: the file ends within the name of tensor 0, at byte 24");
}

TEST(GgufCases, M13_HugeArrays) {
  for (auto [element, size] :
       {std::pair(GgufType::U8, 49), std::pair(GgufType::String, 49),
        std::pair(GgufType::Array, 49), std::pair(GgufType::F64, 49)}) {
    const auto bytes = header(0, 1)
                           .str("k")
                           .u32(code(GgufType::Array))
                           .u32(code(element))
                           .u64(kHuge)
                           .bytes();
    EXPECT_EQ(bytes.size(), size_t(size));
    EXPECT_EQ(refusal(bytes),
              "f: key 'k': 9223372036854775808 elements do not fit in a file "
              "of 49 bytes");
  }
  EXPECT_EQ(
      refusal(
          header(0, 1).str("k").u32(code(GgufType::String)).u64(kHuge).bytes()),
      "f: the file ends within key 'k', at byte 37");
}

TEST(GgufCases, M14_ShapeProductWraps) {
  EXPECT_EQ(refusal(one_tensor({{4194305, 4194305, 211106198978564}}, 32)),
            "f: tensor 't': the shape [211106198978564, 4194305, 4194305] has "
            "more elements than 2^63 - 1");
  EXPECT_EQ(refusal(one_tensor({{4194304, 4194304, 524288, 0}}, 32)),
            "f: tensor 't': the shape [0, 524288, 4194304, 4194304] has more "
            "elements than 2^63 - 1");
  EXPECT_EQ(refusal(one_tensor({{uint64_t(1) << 62}}, 32)),
            "f: tensor 't': the shape [4611686018427387904] of F32 takes more "
            "bytes than 2^63 - 1");
  EXPECT_EQ(refusal(one_tensor({{kHuge}}, 32)),
            "f: tensor 't': the shape [-9223372036854775808] has a negative "
            "size");
}

TEST(GgufCases, M16_UnknownTypes) {
  EXPECT_EQ(refusal(header(0, 1).str("k").u32(77).u64(0).bytes()),
            "f: key 'k': unknown value type 77");
  EXPECT_EQ(refusal(header(0, 1)
                        .str("k")
                        .u32(code(GgufType::Array))
                        .u32(77)
                        .u64(0)
                        .bytes()),
            "f: key 'k': unknown element type 77");
  EXPECT_EQ(refusal(one_tensor({{2}, 99}, 32)),
            "f: tensor 't': unknown type 99");
  // Types that ggml has taken out of use.
  for (uint32_t gone : {4, 5, 31, 32, 33, 36, 37, 38}) {
    EXPECT_EQ(refusal(one_tensor({{2}, gone}, 32)),
              fmt::format("f: tensor 't': unknown type {}", gone));
  }
}

TEST(GgufCases, M16_KnownButNotSupportedIsRefusedByName) {
  const auto bytes = one_tensor({{256}, kIq4Xs}, 136);
  const auto file = parsed(bytes);
  const auto status = require_supported(file->tensors().at("t"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.reason(),
            "tensor 't' has the type IQ4_XS, supported are F64, F32, F16, "
            "BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, F8_E4M3, "
            "F8_E5M2, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, "
            "Q6_K");
}

TEST(Gguf, MagicAndVersion) {
  EXPECT_EQ(refusal(""), "f: not a GGUF file: it does not start with 'GGUF'");
  EXPECT_EQ(refusal("GGML    "),
            "f: not a GGUF file: it does not start with 'GGUF'");
  EXPECT_EQ(refusal("GGUF"), "f: the file ends within its header, at byte 4");
  EXPECT_EQ(refusal(header(0, 0, 1).bytes()),
            "f: GGUF version 1, supported are 2 and 3");
  EXPECT_EQ(refusal(header(0, 0, 4).bytes()),
            "f: GGUF version 4, supported are 2 and 3");
  EXPECT_EQ(parsed(header(0, 0, 2).bytes())->version(), 2u);
}

TEST(Gguf, BigEndianIsRefused) {
  EXPECT_EQ(refusal(header(0, 0, 0x03000000).bytes()),
            "f: a big-endian GGUF file, only little-endian is supported");
}

TEST(Gguf, SplitFilesAreRefused) {
  const auto parts = [](uint8_t count) {
    return header(0, 1)
        .str("split.count")
        .u32(code(GgufType::U16))
        .u8(count)
        .u8(0)
        .bytes();
  };
  EXPECT_EQ(refusal(parts(3)),
            "f: one of 3 parts of a split GGUF (split.count), which is not "
            "supported: merge the parts into one file");
  EXPECT_EQ(refusal(parts(1)), "");
}

TEST(Gguf, Names) {
  Blob key = header(0, 1);
  key.str("\xC0\x80").u32(code(GgufType::U8)).u8(0);
  EXPECT_EQ(refusal(key.bytes()), "f: key '\\xC0\\x80' is not UTF-8");

  Blob name = header(1, 0);
  EXPECT_EQ(refusal(with_data(add(name, "a\xFF", {{1}}), 4)),
            "f: tensor name 'a\\xFF' is not UTF-8");

  Blob keys = header(0, 2);
  keys.str("k").u32(code(GgufType::U8)).u8(0);
  keys.str("k").u32(code(GgufType::Bool)).u8(0);
  EXPECT_EQ(refusal(keys.bytes()), "f: key 'k' is given twice");

  Blob names = header(2, 0);
  add(names, "t", {{1}});
  EXPECT_EQ(refusal(with_data(add(names, "t", {{1}, kF32, 32}), 64)),
            "f: tensor 't' is given twice");
}

TEST(Gguf, Ranges) {
  EXPECT_EQ(refusal(one_tensor({{9}}, 32)),
            "f: tensor 't': F32 [9] needs 36 bytes at 0, the data has 32");
  EXPECT_EQ(refusal(one_tensor({{1}, kF32, 64}, 32)),
            "f: tensor 't': F32 [1] needs 4 bytes at 64, the data has 32");
  EXPECT_EQ(refusal(one_tensor({{1}, kF32, kHuge}, 32)),
            "f: tensor 't': F32 [1] needs 4 bytes at 9223372036854775808, the "
            "data has 32");
  EXPECT_EQ(refusal(one_tensor({{1}, kF32, 4}, 32)),
            "f: tensor 't': the offset 4 is no multiple of 32");

  Blob blob = header(2, 0);
  add(blob, "b", {{1}, kF32, 32});
  EXPECT_EQ(refusal(with_data(add(blob, "a", {{9}}), 64)),
            "f: tensor 'b': data [32, 36) overlaps another tensor");
}

TEST(Gguf, RowsAreWholeBlocks) {
  EXPECT_EQ(refusal(one_tensor({{48, 2}, kQ4_0}, 54)),
            "f: tensor 't': rows of 48 elements are not whole Q4_0 blocks of "
            "32");
  const auto bytes = one_tensor({{64, 3}, kQ4_0}, 108);
  const auto file = parsed(bytes);
  const TensorView& tensor = file->tensors().at("t");
  EXPECT_THAT(tensor.shape, ElementsAre(3, 64));
  EXPECT_EQ(tensor.elements(), 192u);
  EXPECT_EQ(tensor.bytes.size(), 108u);
}

TEST(Gguf, ScalarAndEmptyTensors) {
  Blob blob = header(3, 0);
  add(blob, "scalar", {{}});
  add(blob, "empty", {{4, 0}});
  const auto bytes = with_data(add(blob, "blocks", {{0, 2}, kQ4_0}), 4);
  const auto file = parsed(bytes);
  EXPECT_EQ(file->tensors().at("scalar").elements(), 1u);
  EXPECT_EQ(file->tensors().at("scalar").bytes.size(), 4u);
  EXPECT_THAT(file->tensors().at("empty").shape, ElementsAre(0, 4));
  EXPECT_EQ(file->tensors().at("empty").bytes.size(), 0u);
  EXPECT_EQ(file->tensors().at("blocks").bytes.size(), 0u);
}

TEST(Gguf, BooleansAreZeroOrOne) {
  EXPECT_EQ(
      refusal(header(0, 1).str("k").u32(code(GgufType::Bool)).u8(2).bytes()),
      "f: key 'k': the boolean is 2, not 0 or 1");
  EXPECT_EQ(refusal(header(0, 1)
                        .str("k")
                        .u32(code(GgufType::Array))
                        .u32(code(GgufType::Bool))
                        .u64(2)
                        .u8(1)
                        .u8(255)
                        .bytes()),
            "f: key 'k': the boolean is 255, not 0 or 1");
}

// An array of one array of ... of one byte.
std::string nested(int depth) {
  Blob blob = header(0, 1);
  blob.str("k").u32(code(GgufType::Array));
  for (int i = 1; i < depth; ++i) blob.u32(code(GgufType::Array)).u64(1);
  return blob.u32(code(GgufType::U8)).u64(1).u8(42).bytes();
}

TEST(Gguf, NestedArraysAreCheckedAndPassedOver) {
  const auto bytes = nested(4);
  const auto file = parsed(bytes);
  EXPECT_EQ(file->find("k")->element(), GgufType::Array);
  EXPECT_EQ(file->find("k")->integers(), std::nullopt);
  EXPECT_EQ(refusal(nested(5)), "f: key 'k': arrays nest deeper than 4");
  EXPECT_EQ(refusal(nested(100'000)), "f: key 'k': arrays nest deeper than 4");
}

TEST(Gguf, AccessorsGiveNothingForAnotherKind) {
  Blob blob = header(0, 3);
  blob.str("big").u32(code(GgufType::U64)).u64(kHuge);
  blob.str("minus").u32(code(GgufType::I8)).u8(0xFF);
  const auto bytes =
      blob.str("text").u32(code(GgufType::String)).str("x").bytes();
  const auto file = parsed(bytes);
  EXPECT_THAT(file->uint("big"), Optional(kHuge));
  EXPECT_EQ(file->integer("big"), std::nullopt);
  EXPECT_EQ(file->uint("minus"), std::nullopt);
  EXPECT_THAT(file->integer("minus"), Optional(-1));
  EXPECT_THAT(file->real("minus"), Optional(-1.0));
  EXPECT_EQ(file->flag("minus"), std::nullopt);
  EXPECT_EQ(file->uint("text"), std::nullopt);
  EXPECT_EQ(file->real("text"), std::nullopt);
  EXPECT_EQ(file->strings("text"), std::nullopt);
  EXPECT_EQ(file->integers("text"), std::nullopt);
  EXPECT_EQ(file->str("big"), std::nullopt);
  EXPECT_EQ(file->str("missing"), std::nullopt);
  EXPECT_EQ(file->find("missing"), nullptr);
}

}  // namespace
}  // namespace quern
