// GGUF files (versions 2 and 3, little-endian).
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "files/tensor.h"

namespace quern {

// The codes of the file.
enum class GgufType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};

// One metadata value: a checked slice of the file, decoded when asked for. It
// lives as long as the file's bytes. An accessor gives nothing where the value
// is of another kind or does not fit the type asked for.
class GgufValue {
 public:
  static GgufValue scalar(GgufType type, Bytes bytes) {
    return {type, type, 1, bytes};
  }
  static GgufValue array(GgufType element, size_t count, Bytes bytes) {
    return {GgufType::Array, element, count, bytes};
  }

  GgufType type() const { return type_; }
  GgufType element() const { return element_; }  // of an array, else type()
  size_t size() const { return count_; }         // of an array, else 1

  std::optional<std::string_view> str() const;
  std::optional<uint64_t> uint() const;  // any integer type, not negative
  std::optional<int64_t> integer() const;
  std::optional<double> real() const;  // any number
  std::optional<bool> flag() const;

  // Of an array that does not nest: the strings point into the file.
  std::optional<std::vector<std::string_view>> strings() const;
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<float>> floats() const;  // of F32 or F64
  std::optional<std::vector<bool>> flags() const;

 private:
  GgufValue(GgufType type, GgufType element, size_t count, Bytes bytes)
      : type_(type), element_(element), count_(count), bytes_(bytes) {}

  GgufType type_, element_;
  size_t count_;
  Bytes bytes_;  // of the value; of all elements of an array
};

// One file, mapped and checked in full: counts, lengths, types, names,
// alignment, shapes, ranges without overlap. A bad file is one reason with
// file, key or tensor, and fault. Big-endian and split files are refused.
class Gguf {
 public:
  using Metadata = std::map<std::string_view, GgufValue>;

  static Result<std::shared_ptr<const Gguf>> open(const Path& path);

  // The same from memory that the caller keeps; `where` names it in reasons.
  static Result<std::shared_ptr<const Gguf>> parse(Bytes bytes,
                                                   std::string_view where);

  uint32_t version() const { return version_; }
  const Metadata& metadata() const { return metadata_; }
  const TensorSet& tensors() const { return tensors_; }  // ggml dims reversed

  // The metadata of a key, null or nothing where there is none.
  const GgufValue* find(std::string_view key) const;
  std::optional<std::string_view> str(std::string_view key) const {
    return get(key, &GgufValue::str);
  }
  std::optional<uint64_t> uint(std::string_view key) const {
    return get(key, &GgufValue::uint);
  }
  std::optional<int64_t> integer(std::string_view key) const {
    return get(key, &GgufValue::integer);
  }
  std::optional<double> real(std::string_view key) const {
    return get(key, &GgufValue::real);
  }
  std::optional<bool> flag(std::string_view key) const {
    return get(key, &GgufValue::flag);
  }
  std::optional<std::vector<std::string_view>> strings(
      std::string_view key) const {
    return get(key, &GgufValue::strings);
  }
  std::optional<std::vector<int64_t>> integers(std::string_view key) const {
    return get(key, &GgufValue::integers);
  }
  std::optional<std::vector<float>> floats(std::string_view key) const {
    return get(key, &GgufValue::floats);
  }
  std::optional<std::vector<bool>> flags(std::string_view key) const {
    return get(key, &GgufValue::flags);
  }

 private:
  friend class GgufParser;

  template <class T>
  std::optional<T> get(std::string_view key,
                       std::optional<T> (GgufValue::*as)() const) const {
    const GgufValue* value = find(key);
    return value ? (value->*as)() : std::nullopt;
  }

  std::shared_ptr<const MappedFile> file_;  // what metadata_ points into
  uint32_t version_ = 0;
  Metadata metadata_;
  TensorSet tensors_;
};

}  // namespace quern
