// Safetensors files and directories of them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "files/tensor.h"

namespace quern {

// One file, mapped and checked in full: header, names, types, shapes, ranges
// that cover the data without overlap or hole. A bad file is one reason with
// file, tensor and fault.
class Safetensors {
 public:
  using Metadata = std::map<std::string, std::string, std::less<>>;

  static Result<std::shared_ptr<const Safetensors>> open(const Path& path);

  // The same from memory that the caller keeps; `where` names it in reasons.
  static Result<std::shared_ptr<const Safetensors>> parse(
      Bytes bytes, std::string_view where);

  const Metadata& metadata() const { return metadata_; }
  const TensorSet& tensors() const { return tensors_; }

 private:
  static Result<std::shared_ptr<const Safetensors>> read(
      Bytes bytes, std::string_view where,
      std::shared_ptr<const MappedFile> mapped);

  Metadata metadata_;
  TensorSet tensors_;
};

// The weight_map of a model.safetensors.index.json: tensor name -> shard, a
// plain file name.
using ShardIndex = std::map<std::string, std::string, std::less<>>;
Result<ShardIndex> parse_shard_index(std::string_view text,
                                     std::string_view where);

// All tensors of a model directory: model.safetensors, else the shards of
// model.safetensors.index.json (each entry must be in its shard), else the
// model*.safetensors of the directory, else all of its *.safetensors.
Result<TensorSet> open_safetensors_dir(const Path& dir);

}  // namespace quern
