#include <set>

#include "base/str.h"
#include "files/json_events.h"
#include "files/safetensors.h"

namespace quern {
namespace {

// A name that stays inside the directory of the index.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name != "." &&
         name.find("..") == std::string_view::npos &&
         name.find_first_of(std::string_view("/\\\0", 3)) ==
             std::string_view::npos;
}

// Reads {"weight_map": {tensor: shard}, ...}; the rest is skipped.
class IndexReader final : public JsonEvents {
 public:
  ShardIndex shards;
  bool has_map = false;

 private:
  bool at_map_value() const { return depth_ == 1 && key_ == "weight_map"; }
  bool in_map() const { return depth_ == 2 && in_map_; }

  bool start_object(size_t) override {
    if (at_map_value()) {
      if (has_map) return refuse("weight_map is given twice");
      has_map = in_map_ = true;
    } else if (in_map()) {
      return other("an object");
    }
    ++depth_;
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ == 0 || at_map_value() || in_map()) return other("an array");
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(std::string& key) override {
    key_ = std::move(key);
    return true;
  }

  bool string(std::string& text) override {
    if (!in_map()) return other("a string");
    if (!plain_file_name(text)) {
      return refuse("weight_map: {} is in {}, not a plain file name",
                    in_quotes(key_), in_quotes(text));
    }
    if (shards.emplace(key_, std::move(text)).second) return true;
    return refuse("weight_map: {} is given twice", in_quotes(key_));
  }

  bool other(std::string_view kind) override {
    if (depth_ == 0) return refuse("the index is {}, not an object", kind);
    if (at_map_value()) {
      return refuse("weight_map is {}, not an object", kind);
    }
    if (in_map()) {
      return refuse("weight_map: {} is {}, not a file name", in_quotes(key_),
                    kind);
    }
    return true;
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string key_;
};

// Opens the named files of a directory as one set.
Result<TensorSet> open_all(const Path& dir,
                           const std::set<std::string>& names) {
  TensorSet all;
  for (const auto& name : names) {
    auto file = Safetensors::open(dir / name);
    if (!file) return file.failure();
    for (const auto& [key, tensor] : (*file)->tensors()) {
      auto [it, added] = all.emplace(key, tensor);
      if (!added) {
        return failure("{}: tensor {} is also in {}", (dir / name).string(),
                       in_quotes(key), it->second.file->path().string());
      }
    }
  }
  return all;
}

Result<TensorSet> open_indexed(const Path& dir, const Path& index) {
  auto text = read_text(index);
  if (!text) return text.failure();
  const auto shards = parse_shard_index(*text, index.string());
  if (!shards) return shards.failure();
  std::set<std::string> names;
  for (const auto& [tensor, shard] : *shards) names.insert(shard);
  for (const auto& name : names) {
    std::error_code error;
    if (!std::filesystem::exists(dir / name, error)) {
      return failure("{}: the shard {} is missing", index.string(),
                     in_quotes(name));
    }
  }
  auto tensors = open_all(dir, names);
  if (!tensors) return tensors;
  for (const auto& [name, shard] : *shards) {
    const auto it = tensors->find(name);
    if (it == tensors->end() || it->second.file->path() != dir / shard) {
      return failure("{}: tensor {} is not in {}", index.string(),
                     in_quotes(name), in_quotes(shard));
    }
  }
  return tensors;
}

// The *.safetensors of a directory whose names start with `prefix`.
std::set<std::string> weight_files(const Path& dir, std::string_view prefix) {
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".safetensors")) {
      names.insert(name);
    }
  }
  return names;
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text,
                                     std::string_view where) {
  IndexReader reader;
  if (auto read = reader.read(text, where); !read) return read.failure();
  if (!reader.has_map) return failure("{}: no weight_map", where);
  return std::move(reader.shards);
}

Result<TensorSet> open_safetensors_dir(const Path& dir) {
  const Path single = dir / "model.safetensors";
  const Path index = dir / "model.safetensors.index.json";
  std::error_code error;
  if (std::filesystem::exists(single, error)) {
    return open_all(dir, {"model.safetensors"});
  }
  if (std::filesystem::exists(index, error)) return open_indexed(dir, index);
  auto names = weight_files(dir, "model");
  if (names.empty()) names = weight_files(dir, "");
  if (names.empty()) {
    return failure("{}: no *.safetensors file in it", dir.string());
  }
  return open_all(dir, names);
}

}  // namespace quern
