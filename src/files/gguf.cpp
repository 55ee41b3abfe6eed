#include "files/gguf.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/str.h"
#include "files/gguf_cursor.h"

namespace quern {
namespace {

constexpr uint32_t kRankLimit = 4;
constexpr int kNestLimit = 4;
constexpr size_t kKvBytes = 8 + 4 + 1;          // key length, type, value
constexpr size_t kTensorBytes = 8 + 4 + 4 + 8;  // name length, rank, type, at
constexpr uint64_t kDefaultAlignment = 32;

struct TypeCode {
  uint32_t code;
  TensorType type;
};

// ggml_type; codes not here are unknown or no longer in use.
constexpr std::array kTypeCodes = {
    TypeCode{0, TensorType::F32},      TypeCode{1, TensorType::F16},
    TypeCode{2, TensorType::Q4_0},     TypeCode{3, TensorType::Q4_1},
    TypeCode{6, TensorType::Q5_0},     TypeCode{7, TensorType::Q5_1},
    TypeCode{8, TensorType::Q8_0},     TypeCode{9, TensorType::Q8_1},
    TypeCode{10, TensorType::Q2_K},    TypeCode{11, TensorType::Q3_K},
    TypeCode{12, TensorType::Q4_K},    TypeCode{13, TensorType::Q5_K},
    TypeCode{14, TensorType::Q6_K},    TypeCode{15, TensorType::Q8_K},
    TypeCode{16, TensorType::IQ2_XXS}, TypeCode{17, TensorType::IQ2_XS},
    TypeCode{18, TensorType::IQ3_XXS}, TypeCode{19, TensorType::IQ1_S},
    TypeCode{20, TensorType::IQ4_NL},  TypeCode{21, TensorType::IQ3_S},
    TypeCode{22, TensorType::IQ2_S},   TypeCode{23, TensorType::IQ4_XS},
    TypeCode{24, TensorType::I8},      TypeCode{25, TensorType::I16},
    TypeCode{26, TensorType::I32},     TypeCode{27, TensorType::I64},
    TypeCode{28, TensorType::F64},     TypeCode{29, TensorType::IQ1_M},
    TypeCode{30, TensorType::BF16},    TypeCode{34, TensorType::TQ1_0},
    TypeCode{35, TensorType::TQ2_0},   TypeCode{39, TensorType::MXFP4},
    TypeCode{40, TensorType::NVFP4},   TypeCode{41, TensorType::Q1_0},
};

std::optional<TensorType> type_by_code(uint32_t code) {
  for (const TypeCode& row : kTypeCodes) {
    if (row.code == code) return row.type;
  }
  return {};
}

}  // namespace

// Reads the file front to back; each step checks what it reads.
class GgufParser {
 public:
  GgufParser(Bytes bytes, std::string_view where, Gguf& out)
      : bytes_(bytes), where_(where), out_(out), cursor_(bytes) {}

  Status run() {
    if (auto s = read_header(); !s) return s;
    for (uint64_t i = 0; i < kv_count_; ++i) {
      if (auto s = read_kv(i); !s) return s;
    }
    if (auto s = check_metadata(); !s) return s;
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      if (auto s = read_tensor(i); !s) return s;
    }
    if (auto s = place_tensors(); !s) return s;
    return check_overlap();
  }

 private:
  // A tensor whose data is not placed yet.
  struct Pending {
    uint64_t offset;  // from the start of the data
    size_t bytes;
    TensorView* view;
  };

  template <class... Args>
  Failure bad(fmt::format_string<Args...> text, Args&&... args) const {
    return failure("{}: {}", where_,
                   fmt::format(text, std::forward<Args>(args)...));
  }

  Failure ends_in(std::string_view what) const {
    return bad("the file ends within {}, at byte {}", what, cursor_.at());
  }

  Status read_header() {
    const auto magic = cursor_.take(4);
    if (!magic || std::memcmp(magic->data(), "GGUF", 4) != 0) {
      return bad("not a GGUF file: it does not start with 'GGUF'");
    }
    const auto version = cursor_.number<uint32_t>();
    if (!version) return ends_in("its header");
    if (*version != 0 && (*version & 0xFFFF) == 0) {
      return bad("a big-endian GGUF file, only little-endian is supported");
    }
    if (*version != 2 && *version != 3) {
      return bad("GGUF version {}, supported are 2 and 3", *version);
    }
    const auto tensors = cursor_.number<uint64_t>();
    const auto kvs = cursor_.number<uint64_t>();
    if (!tensors || !kvs) return ends_in("its header");
    if (*tensors > cursor_.left() / kTensorBytes) {
      return bad("{} tensors do not fit in a file of {} bytes", *tensors,
                 bytes_.size());
    }
    if (*kvs > cursor_.left() / kKvBytes) {
      return bad("{} metadata entries do not fit in a file of {} bytes", *kvs,
                 bytes_.size());
    }
    out_.version_ = *version;
    tensor_count_ = *tensors;
    kv_count_ = *kvs;
    return {};
  }

  Status read_kv(uint64_t index) {
    const auto key = cursor_.string();
    if (!key) return ends_in(fmt::format("the key of metadata {}", index));
    if (!valid_utf8(*key)) return bad("key {} is not UTF-8", in_quotes(*key));
    const auto type = cursor_.number<uint32_t>();
    if (!type) return ends_in(fmt::format("key {}", in_quotes(*key)));
    auto value = read_value(*key, *type, 0);
    if (!value) return value.failure();
    if (!out_.metadata_.emplace(*key, *value).second) {
      return bad("key {} is given twice", in_quotes(*key));
    }
    return {};
  }

  Result<GgufValue> read_value(std::string_view key, uint32_t code, int nest) {
    if (code > uint32_t(GgufType::F64)) {
      return bad("key {}: unknown value type {}", in_quotes(key), code);
    }
    const auto type = GgufType(code);
    if (type == GgufType::Array) return read_array(key, nest);
    if (type == GgufType::String) {
      const auto text = cursor_.string();
      if (!text) return ends_in(fmt::format("key {}", in_quotes(key)));
      return GgufValue::scalar(type, std::as_bytes(std::span(*text)));
    }
    const auto bytes = cursor_.take(gguf_least_bytes(type));
    if (!bytes) return ends_in(fmt::format("key {}", in_quotes(key)));
    if (auto s = check_bools(key, type, *bytes); !s) return s.failure();
    return GgufValue::scalar(type, *bytes);
  }

  Result<GgufValue> read_array(std::string_view key, int nest) {
    if (nest == kNestLimit) {
      return bad("key {}: arrays nest deeper than {}", in_quotes(key),
                 kNestLimit);
    }
    const auto code = cursor_.number<uint32_t>();
    const auto count = cursor_.number<uint64_t>();
    if (!code || !count) return ends_in(fmt::format("key {}", in_quotes(key)));
    if (*code > uint32_t(GgufType::F64)) {
      return bad("key {}: unknown element type {}", in_quotes(key), *code);
    }
    const auto type = GgufType(*code);
    if (*count > cursor_.left() / gguf_least_bytes(type)) {
      return bad("key {}: {} elements do not fit in a file of {} bytes",
                 in_quotes(key), *count, bytes_.size());
    }
    const size_t start = cursor_.at();
    if (type == GgufType::String || type == GgufType::Array) {
      for (uint64_t i = 0; i < *count; ++i) {
        auto value = read_value(key, *code, nest + 1);
        if (!value) return value.failure();
      }
    } else {
      cursor_.take(*count * gguf_least_bytes(type));
    }
    const Bytes bytes = bytes_.subspan(start, cursor_.at() - start);
    if (auto s = check_bools(key, type, bytes); !s) return s.failure();
    return GgufValue::array(type, size_t(*count), bytes);
  }

  Status check_bools(std::string_view key, GgufType type, Bytes bytes) const {
    if (type != GgufType::Bool) return {};
    for (std::byte value : bytes) {
      if (uint8_t(value) > 1) {
        return bad("key {}: the boolean is {}, not 0 or 1", in_quotes(key),
                   uint8_t(value));
      }
    }
    return {};
  }

  Status check_metadata() {
    if (const GgufValue* value = out_.find("general.alignment")) {
      const auto alignment = value->uint();
      if (!alignment || !std::has_single_bit(*alignment)) {
        return bad("general.alignment is {}, not a power of two",
                   alignment ? fmt::to_string(*alignment) : "no integer");
      }
      alignment_ = *alignment;
    }
    const uint64_t parts = out_.uint("split.count").value_or(1);
    if (parts > 1) {
      return bad(
          "one of {} parts of a split GGUF (split.count), which is not "
          "supported: merge the parts into one file",
          parts);
    }
    return {};
  }

  Status read_tensor(uint64_t index) {
    const auto name = cursor_.string();
    if (!name) return ends_in(fmt::format("the name of tensor {}", index));
    if (!valid_utf8(*name)) {
      return bad("tensor name {} is not UTF-8", in_quotes(*name));
    }
    const auto tensor = fmt::format("tensor {}", in_quotes(*name));
    const auto rank = cursor_.number<uint32_t>();
    if (!rank) return ends_in(tensor);
    if (*rank > kRankLimit) {
      return bad("{}: {} dimensions, the limit is {}", tensor, *rank,
                 kRankLimit);
    }
    std::vector<int64_t> shape;
    for (uint32_t i = 0; i < *rank; ++i) {
      const auto size = cursor_.number<int64_t>();
      if (!size) return ends_in(tensor);
      shape.push_back(*size);
    }
    std::reverse(shape.begin(), shape.end());
    const auto code = cursor_.number<uint32_t>();
    const auto offset = cursor_.number<uint64_t>();
    if (!code || !offset) return ends_in(tensor);
    const auto type = type_by_code(*code);
    if (!type) return bad("{}: unknown type {}", tensor, *code);
    const auto bytes = tensor_bytes(*type, shape);
    if (!bytes) return bad("{}: {}", tensor, bytes.reason());
    auto [it, added] = out_.tensors_.emplace(
        *name,
        TensorView{
            std::string(*name), *type, std::move(shape), {}, out_.file_});
    if (!added) return bad("{} is given twice", tensor);
    pending_.push_back({*offset, *bytes, &it->second});
    return {};
  }

  Status place_tensors() {
    if (pending_.empty()) return {};
    const uint64_t past = cursor_.at() % alignment_;
    const auto padding = cursor_.take(past == 0 ? 0 : alignment_ - past);
    if (!padding) return ends_in("the padding before the tensor data");
    const Bytes data = bytes_.subspan(cursor_.at());
    for (const Pending& p : pending_) {
      if (p.offset % alignment_ != 0) {
        return bad("tensor {}: the offset {} is no multiple of {}",
                   in_quotes(p.view->name), p.offset, alignment_);
      }
      if (p.offset > data.size() || p.bytes > data.size() - p.offset) {
        return bad("tensor {}: {} {} needs {} bytes at {}, the data has {}",
                   in_quotes(p.view->name), type_info(p.view->type).name,
                   p.view->shape, p.bytes, p.offset, data.size());
      }
      p.view->bytes = data.subspan(size_t(p.offset), p.bytes);
    }
    return {};
  }

  Status check_overlap() {
    std::sort(pending_.begin(), pending_.end(), [](auto& a, auto& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    uint64_t covered = 0;
    for (const Pending& p : pending_) {
      if (p.bytes == 0) continue;
      if (p.offset < covered) {
        return bad("tensor {}: data [{}, {}) overlaps another tensor",
                   in_quotes(p.view->name), p.offset, p.offset + p.bytes);
      }
      covered = p.offset + p.bytes;
    }
    return {};
  }

  Bytes bytes_;
  std::string_view where_;
  Gguf& out_;
  GgufCursor cursor_;
  uint64_t tensor_count_ = 0, kv_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<Pending> pending_;
};

Result<std::shared_ptr<const Gguf>> Gguf::parse(Bytes bytes,
                                                std::string_view where) {
  auto out = std::make_shared<Gguf>();
  if (auto s = GgufParser(bytes, where, *out).run(); !s) return s.failure();
  return std::shared_ptr<const Gguf>(std::move(out));
}

Result<std::shared_ptr<const Gguf>> Gguf::open(const Path& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  auto out = std::make_shared<Gguf>();
  out->file_ = *mapped;
  const std::string where = path.string();
  if (auto s = GgufParser((*mapped)->bytes(), where, *out).run(); !s) {
    return s.failure();
  }
  return std::shared_ptr<const Gguf>(std::move(out));
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

}  // namespace quern
