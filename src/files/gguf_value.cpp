#include <utility>

#include "files/gguf_cursor.h"

namespace quern {
namespace {

template <class T>
T load(Bytes bytes, size_t index) {
  T out;
  std::memcpy(&out, bytes.data() + index * sizeof(T), sizeof(T));
  return out;
}

// Calls visit(T{}) with the integer type T of the code; false if it has none.
template <class Visit>
bool with_integer_type(GgufType type, Visit&& visit) {
  switch (type) {
    case GgufType::U8: visit(uint8_t{}); return true;
    case GgufType::I8: visit(int8_t{}); return true;
    case GgufType::U16: visit(uint16_t{}); return true;
    case GgufType::I16: visit(int16_t{}); return true;
    case GgufType::U32: visit(uint32_t{}); return true;
    case GgufType::I32: visit(int32_t{}); return true;
    case GgufType::U64: visit(uint64_t{}); return true;
    case GgufType::I64: visit(int64_t{}); return true;
    default: return false;
  }
}

}  // namespace

size_t gguf_least_bytes(GgufType type) {
  switch (type) {
    case GgufType::U8:
    case GgufType::I8:
    case GgufType::Bool: return 1;
    case GgufType::U16:
    case GgufType::I16: return 2;
    case GgufType::U32:
    case GgufType::I32:
    case GgufType::F32: return 4;
    case GgufType::U64:
    case GgufType::I64:
    case GgufType::F64: return 8;
    case GgufType::String: return 8;  // its length
    case GgufType::Array: return 12;  // its element type and count
  }
  fail("[files.gguf] no value type {}", uint32_t(type));
}

std::optional<std::string_view> GgufValue::str() const {
  if (type_ != GgufType::String) return {};
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()),
                          bytes_.size());
}

std::optional<uint64_t> GgufValue::uint() const {
  std::optional<uint64_t> out;
  with_integer_type(type_, [&](auto zero) {
    const auto number = load<decltype(zero)>(bytes_, 0);
    if (std::in_range<uint64_t>(number)) out = uint64_t(number);
  });
  return out;
}

std::optional<int64_t> GgufValue::integer() const {
  std::optional<int64_t> out;
  with_integer_type(type_, [&](auto zero) {
    const auto number = load<decltype(zero)>(bytes_, 0);
    if (std::in_range<int64_t>(number)) out = int64_t(number);
  });
  return out;
}

std::optional<double> GgufValue::real() const {
  if (type_ == GgufType::F32) return load<float>(bytes_, 0);
  if (type_ == GgufType::F64) return load<double>(bytes_, 0);
  std::optional<double> out;
  with_integer_type(
      type_, [&](auto zero) { out = double(load<decltype(zero)>(bytes_, 0)); });
  return out;
}

std::optional<bool> GgufValue::flag() const {
  if (type_ != GgufType::Bool) return {};
  return load<uint8_t>(bytes_, 0) != 0;
}

std::optional<std::vector<std::string_view>> GgufValue::strings() const {
  if (type_ != GgufType::Array || element_ != GgufType::String) return {};
  std::vector<std::string_view> out;
  out.reserve(count_);
  GgufCursor cursor(bytes_);
  for (size_t i = 0; i < count_; ++i) out.push_back(*cursor.string());
  return out;
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  if (type_ != GgufType::Array) return {};
  std::vector<int64_t> out;
  bool fits = true;
  const bool known = with_integer_type(element_, [&](auto zero) {
    out.reserve(count_);
    for (size_t i = 0; i < count_; ++i) {
      const auto number = load<decltype(zero)>(bytes_, i);
      fits = fits && std::in_range<int64_t>(number);
      out.push_back(int64_t(number));
    }
  });
  if (!known || !fits) return {};
  return out;
}

std::optional<std::vector<float>> GgufValue::floats() const {
  if (type_ != GgufType::Array) return {};
  std::vector<float> out(count_);
  if (element_ == GgufType::F32) {
    if (count_ > 0) std::memcpy(out.data(), bytes_.data(), bytes_.size());
  } else if (element_ == GgufType::F64) {
    for (size_t i = 0; i < count_; ++i) out[i] = float(load<double>(bytes_, i));
  } else {
    return {};
  }
  return out;
}

std::optional<std::vector<bool>> GgufValue::flags() const {
  if (type_ != GgufType::Array || element_ != GgufType::Bool) return {};
  std::vector<bool> out(count_);
  for (size_t i = 0; i < count_; ++i) out[i] = load<uint8_t>(bytes_, i) != 0;
  return out;
}

}  // namespace quern
