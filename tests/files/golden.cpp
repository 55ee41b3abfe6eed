#include "files/golden.h"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

std::string hex(Bytes bytes) {
  std::string out;
  for (std::byte b : bytes) out += fmt::format("{:02x}", uint8_t(b));
  return out;
}

// The names of gguf-py.
std::string type_name(GgufType type) {
  constexpr const char* names[] = {
      "UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",  "FLOAT32",
      "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64"};
  return names[size_t(type)];
}

Json scalar_json(const GgufValue& value) {
  if (auto text = value.str()) return std::string(*text);
  if (auto flag = value.flag()) return *flag;
  if (auto number = value.uint()) return *number;
  if (auto number = value.integer()) return *number;
  return value.real().value();
}

Json items_json(const GgufValue& value) {
  if (auto list = value.strings()) {
    Json out = Json::array();
    for (auto text : *list) out.push_back(std::string(text));
    return out;
  }
  if (auto list = value.integers()) return *list;
  if (auto list = value.flags()) return *list;
  return value.floats().value();
}

Json array_json(const GgufValue& value) {
  const Json items = items_json(value);
  Json first = Json::array();
  for (size_t i = 0; i < std::min<size_t>(3, items.size()); ++i) {
    first.push_back(items[i]);
  }
  return {"ARRAY", type_name(value.element()), items.size(), first,
          items.back()};
}

}  // namespace

Path golden_path(const std::string& name) {
  return Path(QUERN_TEST_DIR) / "files" / "goldens" / name;
}

Json golden_json(const std::string& name) {
  const auto text = read_text(golden_path(name));
  if (!text) fail("[tests.golden] {}", text.reason());
  return parse_json(*text, name).or_throw();
}

void expect_tensors(const TensorSet& tensors, const Json& golden) {
  EXPECT_EQ(tensors.size(), golden.size());
  for (const Json& row : golden) {
    const std::string name = row["name"];
    const auto it = tensors.find(name);
    ASSERT_NE(it, tensors.end()) << name;
    const TensorView& tensor = it->second;
    const size_t ends = std::min<size_t>(8, tensor.bytes.size());
    EXPECT_EQ(tensor.name, name);
    EXPECT_EQ(type_info(tensor.type).name, row["type"].get<std::string>());
    EXPECT_EQ(tensor.shape, row["shape"].get<std::vector<int64_t>>()) << name;
    EXPECT_EQ(tensor.bytes.size(), row["bytes"].get<size_t>()) << name;
    EXPECT_EQ(hex(tensor.bytes.first(ends)), row["head"].get<std::string>());
    EXPECT_EQ(hex(tensor.bytes.last(ends)), row["tail"].get<std::string>());
  }
}

void expect_metadata(const Gguf& file, const Json& golden) {
  EXPECT_EQ(file.metadata().size(), golden.size());
  for (const auto& [key, row] : golden.items()) {
    const GgufValue* value = file.find(key);
    ASSERT_TRUE(value) << key;
    const Json ours = value->type() == GgufType::Array
                          ? array_json(*value)
                          : Json{type_name(value->type()), scalar_json(*value)};
    EXPECT_EQ(ours, row) << key;
  }
}

}  // namespace quern::test
