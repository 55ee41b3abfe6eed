#include "files/tensor.h"

#include <fmt/ranges.h>

#include <array>
#include <limits>

#include "base/str.h"

namespace quern {
namespace {

constexpr auto kLast = size_t(TensorType::Q1_0);

// In the order of TensorType. Block and byte sizes: GGML_QUANT_SIZES of
// gguf-py, checked by tests/files/goldens/types.json.
constexpr std::array<TypeInfo, kLast + 1> kTypes = {{
    {"F64", 1, 8, true},         {"F32", 1, 4, true},
    {"F16", 1, 2, true},         {"BF16", 1, 2, true},
    {"I64", 1, 8, true},         {"I32", 1, 4, true},
    {"I16", 1, 2, true},         {"I8", 1, 1, true},
    {"U64", 1, 8, true},         {"U32", 1, 4, true},
    {"U16", 1, 2, true},         {"U8", 1, 1, true},
    {"BOOL", 1, 1, true},        {"F8_E4M3", 1, 1, true},
    {"F8_E5M2", 1, 1, true},     {"Q4_0", 32, 18, true},
    {"Q4_1", 32, 20, true},      {"Q5_0", 32, 22, true},
    {"Q5_1", 32, 24, true},      {"Q8_0", 32, 34, true},
    {"Q2_K", 256, 84, true},     {"Q3_K", 256, 110, true},
    {"Q4_K", 256, 144, true},    {"Q5_K", 256, 176, true},
    {"Q6_K", 256, 210, true},    {"Q8_1", 32, 40, false},
    {"Q8_K", 256, 292, false},   {"IQ1_S", 256, 50, false},
    {"IQ1_M", 256, 56, false},   {"IQ2_XXS", 256, 66, false},
    {"IQ2_XS", 256, 74, false},  {"IQ2_S", 256, 82, false},
    {"IQ3_XXS", 256, 98, false}, {"IQ3_S", 256, 110, false},
    {"IQ4_NL", 32, 18, false},   {"IQ4_XS", 256, 136, false},
    {"TQ1_0", 256, 54, false},   {"TQ2_0", 256, 66, false},
    {"MXFP4", 32, 17, false},    {"NVFP4", 64, 36, false},
    {"Q1_0", 128, 18, false},
}};

constexpr auto kMax = uint64_t(std::numeric_limits<int64_t>::max());

}  // namespace

const TypeInfo& type_info(TensorType type) { return kTypes[size_t(type)]; }

Result<size_t> tensor_bytes(TensorType type,
                            const std::vector<int64_t>& shape) {
  const TypeInfo& info = type_info(type);
  // Zeros are left out of the product, so that strides of an empty tensor
  // fit too.
  uint64_t elements = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) return failure("the shape {} has a negative size", shape);
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(elements, uint64_t(size), &elements) ||
               elements > kMax) {
      return failure("the shape {} has more elements than 2^63 - 1", shape);
    }
  }
  const int64_t row = shape.empty() ? 1 : shape.back();
  if (row % info.block != 0) {
    return failure("rows of {} elements are not whole {} blocks of {}", row,
                   info.name, info.block);
  }
  uint64_t bytes;
  if (__builtin_mul_overflow(elements / info.block, uint64_t(info.bytes),
                             &bytes) ||
      bytes > kMax) {
    return failure("the shape {} of {} takes more bytes than 2^63 - 1", shape,
                   info.name);
  }
  return empty ? 0 : size_t(bytes);
}

size_t TensorView::elements() const {
  size_t count = 1;
  for (int64_t size : shape) count *= size_t(size);
  return count;
}

Status require_supported(const TensorView& tensor) {
  const TypeInfo& info = type_info(tensor.type);
  if (info.supported) return {};
  std::vector<std::string_view> names;
  for (const TypeInfo& type : kTypes) {
    if (type.supported) names.push_back(type.name);
  }
  return failure("tensor {} has the type {}, supported are {}",
                 in_quotes(tensor.name), info.name, fmt::join(names, ", "));
}

}  // namespace quern
