#include "files/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/str.h"
#include "files/json_events.h"

namespace quern {
namespace {

constexpr uint64_t kHeaderLimit = 100'000'000;  // as the reference reader
constexpr size_t kRankLimit = 32;

std::optional<TensorType> type_by_name(std::string_view name) {
  for (int i = 0; i <= int(TensorType::F8_E5M2); ++i) {
    if (type_info(TensorType(i)).name == name) return TensorType(i);
  }
  return {};
}

// Reads {"__metadata__": {key: text}, name: {dtype, shape, data_offsets}}
// and checks each tensor alone.
class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(Bytes data, std::shared_ptr<const MappedFile> file)
      : data_(data), file_(std::move(file)) {}

  Safetensors::Metadata metadata;
  TensorSet tensors;

 private:
  enum Field { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  bool start_object(size_t) override {
    if (level_ > 1) return other("an object");
    if (++level_ == 1) return true;
    in_metadata_ = name_ == "__metadata__";
    seen_ = field_ = kNone;
    shape_.clear();
    offsets_.clear();
    return true;
  }

  bool key(std::string& key) override {
    if (level_ == 1) {
      name_ = std::move(key);
      if (name_ != "__metadata__") return true;
      if (has_metadata_) return refuse("__metadata__ is given twice");
      has_metadata_ = true;
      return true;
    }
    if (in_metadata_) {
      key_ = std::move(key);
      return true;
    }
    field_ = key == "dtype"          ? kDtype
             : key == "shape"        ? kShape
             : key == "data_offsets" ? kOffsets
                                     : kNone;
    if (field_ == kNone) {
      return refuse("tensor {}: unknown field {}", in_quotes(name_),
                    in_quotes(key));
    }
    if (seen_ & field_) {
      return refuse("tensor {}: {} is given twice", in_quotes(name_), key);
    }
    seen_ |= field_;
    return true;
  }

  bool string(std::string& text) override {
    if (level_ == 2 && in_metadata_) {
      if (metadata.emplace(key_, std::move(text)).second) return true;
      return refuse("__metadata__: {} is given twice", in_quotes(key_));
    }
    if (level_ != 2 || field_ != kDtype) return other("a string");
    const auto type = type_by_name(text);
    if (!type) {
      return refuse("tensor {}: unknown dtype {}", in_quotes(name_),
                    in_quotes(text));
    }
    type_ = *type;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != 2 || in_metadata_ || field_ == kDtype) {
      return other("an array");
    }
    level_ = 3;
    return true;
  }

  bool number_unsigned(uint64_t number) override {
    if (level_ != 3) return other("a number");
    if (number > uint64_t(INT64_MAX)) {
      return refuse("tensor {}: {} is above 2^63 - 1", in_quotes(name_),
                    number);
    }
    auto& list = field_ == kShape ? shape_ : offsets_;
    if (list.size() == kRankLimit) {
      return refuse("tensor {}: a list of more than {} numbers",
                    in_quotes(name_), kRankLimit);
    }
    list.push_back(int64_t(number));
    return true;
  }

  bool end_array() override {
    level_ = 2;
    return true;
  }

  bool end_object() override {
    --level_;
    if (level_ == 0 || in_metadata_) return true;
    return add_tensor();
  }

  bool add_tensor() {
    if (seen_ != kAll) {
      return refuse("tensor {}: needs dtype, shape and data_offsets",
                    in_quotes(name_));
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1] ||
        uint64_t(offsets_[1]) > data_.size()) {
      return refuse(
          "tensor {}: data_offsets {} are not a range of the {} data bytes",
          in_quotes(name_), offsets_, data_.size());
    }
    const auto need = tensor_bytes(type_, shape_);
    if (!need) return refuse("tensor {}: {}", in_quotes(name_), need.reason());
    const auto size = size_t(offsets_[1] - offsets_[0]);
    if (size != *need) {
      return refuse("tensor {}: {} {} needs {} bytes, data_offsets {} hold {}",
                    in_quotes(name_), type_info(type_).name, shape_, *need,
                    offsets_, size);
    }
    const Bytes bytes = data_.subspan(size_t(offsets_[0]), size);
    TensorView view{name_, type_, shape_, bytes, file_};
    if (tensors.emplace(name_, std::move(view)).second) return true;
    return refuse("tensor {} is given twice", in_quotes(name_));
  }

  bool other(std::string_view kind) override {
    if (level_ == 0) return refuse("the header is {}, not an object", kind);
    if (level_ == 1 || !in_metadata_) {
      return refuse("tensor {}: {} where none belongs", in_quotes(name_), kind);
    }
    return refuse("__metadata__: {} is {}, not a string", in_quotes(key_),
                  kind);
  }

  Bytes data_;
  std::shared_ptr<const MappedFile> file_;
  int level_ = 0;  // 1 among names, 2 inside an entry, 3 inside its list
  bool has_metadata_ = false;
  bool in_metadata_ = false;
  std::string name_, key_;
  int seen_ = kNone, field_ = kNone;
  TensorType type_{};
  std::vector<int64_t> shape_, offsets_;
};

// The tensors must cover the data from its first to its last byte.
Status check_cover(const TensorSet& tensors, Bytes data,
                   std::string_view where) {
  std::vector<const TensorView*> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  const auto range = [&](const TensorView* tensor) {
    const auto begin = size_t(tensor->bytes.data() - data.data());
    return std::pair(begin, begin + tensor->bytes.size());
  };
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return range(a) < range(b); });
  size_t covered = 0;
  for (const TensorView* tensor : order) {
    const auto [begin, end] = range(tensor);
    if (begin < covered) {
      return failure("{}: tensor {}: data [{}, {}) overlaps another tensor",
                     where, in_quotes(tensor->name), begin, end);
    }
    if (begin > covered) {
      return failure("{}: tensor {}: unused data before it, [{}, {})", where,
                     in_quotes(tensor->name), covered, begin);
    }
    covered = end;
  }
  if (covered != data.size()) {
    return failure("{}: unused data at its end, [{}, {})", where, covered,
                   data.size());
  }
  return {};
}

// The length field at the front, little-endian whatever the machine.
uint64_t header_length(Bytes bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | uint64_t(bytes[i]);
  return length;
}

}  // namespace

Result<std::shared_ptr<const Safetensors>> Safetensors::read(
    Bytes bytes, std::string_view where,
    std::shared_ptr<const MappedFile> mapped) {
  if (bytes.size() < 8) {
    return failure("{}: {} bytes are too few for a safetensors header", where,
                   bytes.size());
  }
  const uint64_t length = header_length(bytes);
  if (length > kHeaderLimit) {
    return failure("{}: a header of {} bytes, the limit is {}", where, length,
                   kHeaderLimit);
  }
  if (length > bytes.size() - 8) {
    return failure("{}: a header of {} bytes in a file of {}", where, length,
                   bytes.size());
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8,
                                length);
  if (!header.starts_with('{')) {
    return failure("{}: the header does not start with {{", where);
  }
  const Bytes data = bytes.subspan(8 + length);
  HeaderReader reader(data, std::move(mapped));
  if (auto read = reader.read(header, where); !read) return read.failure();
  if (auto cover = check_cover(reader.tensors, data, where); !cover) {
    return cover.failure();
  }
  auto file = std::make_shared<Safetensors>();
  file->metadata_ = std::move(reader.metadata);
  file->tensors_ = std::move(reader.tensors);
  return std::shared_ptr<const Safetensors>(std::move(file));
}

Result<std::shared_ptr<const Safetensors>> Safetensors::parse(
    Bytes bytes, std::string_view where) {
  return read(bytes, where, nullptr);
}

Result<std::shared_ptr<const Safetensors>> Safetensors::open(const Path& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  return read((*mapped)->bytes(), path.string(), *mapped);
}

}  // namespace quern
