#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temp_dir.h"
#include "files/blob.h"
#include "files/safetensors.h"

namespace quern {
namespace {

using test::Blob;
using test::TempDir;
using testing::ElementsAre;
using testing::Pair;

// A file with one U8 tensor of one byte.
std::string file_with(std::string_view name, uint8_t value) {
  return Blob()
      .str(fmt::format(
          R"({{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})",
          name))
      .u8(value)
      .bytes();
}

// The one byte of each tensor.
std::map<std::string, int> values(const TensorSet& tensors) {
  std::map<std::string, int> out;
  for (const auto& [name, tensor] : tensors) {
    out[name] = int(tensor.bytes[0]);
  }
  return out;
}

std::string refusal(const Path& dir) {
  const auto tensors = open_safetensors_dir(dir);
  return tensors ? "" : tensors.reason();
}

TEST(SafetensorsDir, SingleFile) {
  TempDir dir;
  dir.write("model.safetensors", file_with("a", 7));
  dir.write("other.safetensors", file_with("b", 8));
  const auto tensors = open_safetensors_dir(dir.path());
  ASSERT_TRUE(tensors) << tensors.reason();
  EXPECT_THAT(values(*tensors), ElementsAre(Pair("a", 7)));
}

TEST(SafetensorsDir, TensorsKeepTheirFileMapped) {
  TempDir dir;
  dir.write("model.safetensors", file_with("a", 7));
  auto tensors = open_safetensors_dir(dir.path());
  ASSERT_TRUE(tensors) << tensors.reason();
  const TensorView kept = tensors->at("a");
  tensors->clear();
  EXPECT_EQ(int(kept.bytes[0]), 7);
  EXPECT_EQ(kept.file->path(), dir.path() / "model.safetensors");
}

TEST(SafetensorsDir, ShardsOfTheIndex) {
  TempDir dir;
  dir.write("m-1.safetensors", file_with("a", 1));
  dir.write("m-2.safetensors", file_with("b", 2));
  dir.write("left-over.safetensors", file_with("c", 3));
  dir.write("model.safetensors.index.json",
            R"({"metadata":{"total_size":2,"deep":[{"weight_map":1}]},)"
            R"("weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  const auto tensors = open_safetensors_dir(dir.path());
  ASSERT_TRUE(tensors) << tensors.reason();
  EXPECT_THAT(values(*tensors), ElementsAre(Pair("a", 1), Pair("b", 2)));
}

TEST(SafetensorsDir, MissingShardIsNamed) {
  TempDir dir;
  const Path index = dir.write("model.safetensors.index.json",
                               R"({"weight_map":{"a":"m-1.safetensors"}})");
  EXPECT_EQ(refusal(dir.path()),
            index.string() + ": the shard 'm-1.safetensors' is missing");
}

TEST(SafetensorsDir, EntryMustBeInItsShard) {
  TempDir dir;
  dir.write("m-1.safetensors", file_with("a", 1));
  dir.write("m-2.safetensors", file_with("b", 2));
  const Path index =
      dir.write("model.safetensors.index.json",
                R"({"weight_map":{"a":"m-2.safetensors","b":"m-2.safetensors",)"
                R"("c":"m-1.safetensors"}})");
  EXPECT_EQ(refusal(dir.path()),
            index.string() + ": tensor 'a' is not in 'm-2.safetensors'");
}

TEST(SafetensorsDir, TensorInTwoShards) {
  TempDir dir;
  dir.write("model-1.safetensors", file_with("a", 1));
  dir.write("model-2.safetensors", file_with("a", 2));
  EXPECT_EQ(refusal(dir.path()),
            (dir.path() / "model-2.safetensors").string() +
                ": tensor 'a' is also in " +
                (dir.path() / "model-1.safetensors").string());
}

TEST(SafetensorsDir, WithoutIndex) {
  TempDir dir;
  dir.write("model-1.safetensors", file_with("a", 1));
  dir.write("model-2.safetensors", file_with("b", 2));
  dir.write("adapter.safetensors", file_with("c", 3));
  const auto both = open_safetensors_dir(dir.path());
  ASSERT_TRUE(both) << both.reason();
  EXPECT_THAT(values(*both), ElementsAre(Pair("a", 1), Pair("b", 2)));

  TempDir other;
  other.write("weights.safetensors", file_with("c", 3));
  const auto one = open_safetensors_dir(other.path());
  ASSERT_TRUE(one) << one.reason();
  EXPECT_THAT(values(*one), ElementsAre(Pair("c", 3)));
}

TEST(SafetensorsDir, NoFile) {
  TempDir dir;
  EXPECT_EQ(refusal(dir.path()),
            dir.path().string() + ": no *.safetensors file in it");
}

struct IndexFault {
  const char* name;
  std::string text;
  const char* reason;
};

class ShardIndexFault : public testing::TestWithParam<IndexFault> {};

TEST_P(ShardIndexFault, IsRefused) {
  const auto index = parse_shard_index(GetParam().text, "i");
  ASSERT_FALSE(index);
  EXPECT_EQ(index.reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ShardIndexFault,
    testing::Values(
        IndexFault{"NotJson", "{", "i: not valid JSON at byte 2"},
        IndexFault{"List", "[]", "i: the index is an array, not an object"},
        IndexFault{"Number", "1", "i: the index is a number, not an object"},
        IndexFault{"NoMap", "{}", "i: no weight_map"},
        IndexFault{"MapInside", R"({"metadata":{"weight_map":{}}})",
                   "i: no weight_map"},
        IndexFault{"MapIsList", R"({"weight_map":[]})",
                   "i: weight_map is an array, not an object"},
        IndexFault{"MapIsText", R"({"weight_map":"a"})",
                   "i: weight_map is a string, not an object"},
        IndexFault{"MapTwice", R"({"weight_map":{},"weight_map":{}})",
                   "i: weight_map is given twice"},
        IndexFault{"ShardIsNumber", R"({"weight_map":{"a":1}})",
                   "i: weight_map: 'a' is a number, not a file name"},
        IndexFault{"ShardIsObject", R"({"weight_map":{"a":{}}})",
                   "i: weight_map: 'a' is an object, not a file name"},
        IndexFault{"NameTwice", R"({"weight_map":{"a":"s","a":"t"}})",
                   "i: weight_map: 'a' is given twice"},
        IndexFault{"Parent", R"({"weight_map":{"a":"../s"}})",
                   "i: weight_map: 'a' is in '../s', not a plain file name"},
        IndexFault{"Absolute", R"({"weight_map":{"a":"/etc/s"}})",
                   "i: weight_map: 'a' is in '/etc/s', not a plain file name"},
        IndexFault{"Backslash", R"({"weight_map":{"a":"b\\s"}})",
                   "i: weight_map: 'a' is in 'b\\s', not a plain file name"},
        IndexFault{"Nul", R"({"weight_map":{"a":"s\u0000"}})",
                   "i: weight_map: 'a' is in 's\\x00', not a plain file name"},
        IndexFault{"Deep", "{\"a\":" + std::string(1'000'000, '['),
                   "i: not valid JSON at byte 1000006"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quern
