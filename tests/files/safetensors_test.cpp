#include "files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temp_dir.h"
#include "files/blob.h"

namespace quern {
namespace {

using test::as_bytes;
using test::Blob;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string file_of(std::string_view header, size_t data) {
  return Blob().str(header).zeros(data).bytes();
}

// Why the bytes are refused; empty if they are not.
std::string refusal(std::string_view bytes) {
  const auto file = Safetensors::parse(as_bytes(bytes), "f");
  return file ? "" : file.reason();
}

std::string refusal(std::string_view header, size_t data) {
  return refusal(file_of(header, data));
}

TEST(SafetensorsCases, M01_ShapeLargerThanItsRange) {
  EXPECT_EQ(
      refusal(
          R"({"t":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})",
          4),
      "f: tensor 't': F32 [1000, 1000] needs 4000000 bytes, data_offsets "
      "[0, 4] hold 4");
}

TEST(SafetensorsCases, M02_RangeLargerThanTheFile) {
  EXPECT_EQ(
      refusal(
          R"({"t":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4000000]}})",
          4),
      "f: tensor 't': data_offsets [0, 4000000] are not a range of the 4 "
      "data bytes");
}

TEST(SafetensorsCases, M04_MetadataOnly) {
  const auto bytes = file_of(R"({"__metadata__":{"k":"v"}})", 0);
  const auto file = Safetensors::parse(as_bytes(bytes), "f");
  ASSERT_TRUE(file) << file.reason();
  EXPECT_TRUE((*file)->tensors().empty());
  EXPECT_THAT((*file)->metadata(), ElementsAre(Pair("k", "v")));
  EXPECT_EQ(refusal(R"({},"__metadata__":{"k":"v"}})", 0),
            "f: not valid JSON at byte 3");
}

TEST(SafetensorsCases, M05_HeaderAboveTheLimit) {
  const auto huge =
      Blob().u64(132095296).raw("{").raw(std::string(132095295, ' ')).bytes();
  EXPECT_EQ(refusal(huge),
            "f: a header of 132095296 bytes, the limit is 100000000");
  EXPECT_EQ(refusal(Blob().u64(uint64_t(1) << 63).raw("{}").bytes()),
            "f: a header of 9223372036854775808 bytes, the limit is 100000000");
  EXPECT_EQ(refusal(Blob().u64(3).raw("{}").bytes()),
            "f: a header of 3 bytes in a file of 10");
}

TEST(SafetensorsCases, M05_ManyTensorsBelowTheLimit) {
  constexpr int count = 300'000;
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    header += fmt::format(
        R"({}"model.layers.0.experts.{}.weight":{{"dtype":"U8","shape":[1],)"
        R"("data_offsets":[{},{}]}})",
        i ? "," : "", i, i, i + 1);
  }
  header += "}";
  const auto bytes = file_of(header, count);
  const auto file = Safetensors::parse(as_bytes(bytes), "f");
  ASSERT_TRUE(file) << file.reason();
  EXPECT_EQ((*file)->tensors().size(), size_t(count));
}

TEST(SafetensorsCases, M07_UnknownDtype) {
  EXPECT_EQ(
      refusal(R"({"t":{"dtype":"F4","shape":[8],"data_offsets":[99,9999999]}})",
              4),
      "f: tensor 't': unknown dtype 'F4'");
}

TEST(SafetensorsCases, M08_RangeSmallerThanTheShape) {
  EXPECT_EQ(
      refusal(R"({"t":{"dtype":"F64","shape":[4],"data_offsets":[0,16]}})", 16),
      "f: tensor 't': F64 [4] needs 32 bytes, data_offsets [0, 16] hold 16");
}

TEST(SafetensorsCases, R23_ShapeProductOverflows) {
  EXPECT_EQ(
      refusal(
          R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
          0),
      "f: tensor 't': the shape [4294967296, 4294967296] has more elements "
      "than 2^63 - 1");
  EXPECT_EQ(
      refusal(
          R"({"t":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})",
          0),
      "f: tensor 't': the shape [2305843009213693952] of F64 takes more bytes "
      "than 2^63 - 1");
}

TEST(SafetensorsCases, R23_SizeAbove32Bits) {
  EXPECT_EQ(
      refusal(
          R"({"t":{"dtype":"U8","shape":[4294967300],"data_offsets":[0,4]}})",
          4),
      "f: tensor 't': U8 [4294967300] needs 4294967300 bytes, data_offsets "
      "[0, 4] hold 4");
}

TEST(SafetensorsCases, R23_OverlappingRanges) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                    6),
            "f: tensor 'b': data [2, 6) overlaps another tensor");
}

TEST(SafetensorsCases, R23_Holes) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                    6),
            "f: tensor 'b': unused data before it, [2, 4)");
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3),
      "f: unused data at its end, [2, 3)");
}

TEST(SafetensorsCases, R23_Float8KeepsItsType) {
  const auto bytes = file_of(
      R"({"t":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2);
  const auto file = Safetensors::parse(as_bytes(bytes), "f");
  ASSERT_TRUE(file) << file.reason();
  EXPECT_EQ((*file)->tensors().at("t").type, TensorType::F8_E4M3);
}

struct Fault {
  const char* name;
  const char* header;
  const char* reason;
};

class SafetensorsHeader : public testing::TestWithParam<Fault> {};

TEST_P(SafetensorsHeader, IsRefused) {
  EXPECT_EQ(refusal(GetParam().header, 4), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SafetensorsHeader,
    testing::Values(
        Fault{"LeadingSpace", " {}", "f: the header does not start with {"},
        Fault{"Empty", "", "f: the header does not start with {"},
        Fault{"Cut", R"({"t":)", "f: not valid JSON at byte 6"},
        Fault{"NotUtf8", "{\"\xFF\":1}", "f: not valid JSON at byte 3"},
        Fault{"LoneSurrogate", R"({"\ud800":1})",
              "f: not valid JSON at byte 9"},
        Fault{"EntryIsNumber", R"({"t":1})",
              "f: tensor 't': a number where none belongs"},
        Fault{"EntryIsList", R"({"t":[]})",
              "f: tensor 't': an array where none belongs"},
        Fault{"NoFields", R"({"t":{}})",
              "f: tensor 't': needs dtype, shape and data_offsets"},
        Fault{"UnknownField", R"({"t":{"extra":1}})",
              "f: tensor 't': unknown field 'extra'"},
        Fault{"FieldTwice", R"({"t":{"dtype":"F32","dtype":"F32"}})",
              "f: tensor 't': dtype is given twice"},
        Fault{"DtypeIsNumber", R"({"t":{"dtype":7}})",
              "f: tensor 't': a number where none belongs"},
        Fault{"ShapeIsNumber", R"({"t":{"shape":7}})",
              "f: tensor 't': a number where none belongs"},
        Fault{"ShapeNests", R"({"t":{"shape":[[1]]}})",
              "f: tensor 't': an array where none belongs"},
        Fault{"NegativeSize", R"({"t":{"shape":[-1]}})",
              "f: tensor 't': a negative number where none belongs"},
        Fault{"FractionalSize", R"({"t":{"shape":[1.5]}})",
              "f: tensor 't': a fractional number where none belongs"},
        Fault{"SizeAboveSigned", R"({"t":{"shape":[9223372036854775808]}})",
              "f: tensor 't': 9223372036854775808 is above 2^63 - 1"},
        Fault{"ThreeOffsets",
              R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})",
              "f: tensor 't': data_offsets [0, 4, 4] are not a range of the 4 "
              "data bytes"},
        Fault{"OffsetsFallBack",
              R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})",
              "f: tensor 't': data_offsets [4, 0] are not a range of the 4 "
              "data bytes"},
        Fault{"NameTwice",
              R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
              R"("t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
              "f: tensor 't' is given twice"},
        Fault{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})",
              "f: __metadata__ is given twice"},
        Fault{"MetadataKeyTwice", R"({"__metadata__":{"k":"1","k":"2"}})",
              "f: __metadata__: 'k' is given twice"},
        Fault{"MetadataNumber", R"({"__metadata__":{"k":1}})",
              "f: __metadata__: 'k' is a number, not a string"},
        Fault{"LineBreakInName", R"({"a\nb":1})",
              "f: tensor 'a\\x0Ab': a number where none belongs"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, RefusesDeepNestingAndLongLists) {
  EXPECT_EQ(refusal("{\"t\":" + std::string(1'000'000, '['), 0),
            "f: tensor 't': an array where none belongs");
  std::string ones = "1";
  for (int i = 0; i < 32; ++i) ones += ",1";
  EXPECT_EQ(refusal("{\"t\":{\"shape\":[" + ones + "]}}", 0),
            "f: tensor 't': a list of more than 32 numbers");
}

TEST(Safetensors, ShortFiles) {
  EXPECT_EQ(refusal(""), "f: 0 bytes are too few for a safetensors header");
  EXPECT_EQ(refusal("1234567"),
            "f: 7 bytes are too few for a safetensors header");
}

TEST(Safetensors, ZeroSizedTensorsHaveNoBytes) {
  const auto bytes =
      file_of(R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
              R"("b":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
              R"("c":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
              1);
  const auto file = Safetensors::parse(as_bytes(bytes), "f");
  ASSERT_TRUE(file) << file.reason();
  const auto& tensors = (*file)->tensors();
  EXPECT_EQ(tensors.at("a").elements(), 0u);
  EXPECT_EQ(tensors.at("b").elements(), 1u);
  EXPECT_EQ(tensors.at("c").bytes.size(), 0u);
}

TEST(Safetensors, TrailingSpacesPadTheHeader) {
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   )", 1),
      "");
}

TEST(Safetensors, OpenNamesTheFile) {
  test::TempDir dir;
  const Path path = dir.write("bad.safetensors", "junk");
  const auto bad = Safetensors::open(path);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.reason(),
            path.string() + ": 4 bytes are too few for a safetensors header");
  const auto none = Safetensors::open(dir.path() / "none.safetensors");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.reason(), HasSubstr("none.safetensors"));
}

}  // namespace
}  // namespace quern
