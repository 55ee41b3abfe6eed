// A tensor as it lies in a model file: what both file formats give.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace quern {

enum class TensorType : uint8_t {
  // Plain types, one element a block.
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL,
  F8_E4M3,
  F8_E5M2,
  // GGUF block types that quern computes with.
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  // GGUF block types known by name and size only: see require_supported.
  Q8_1,
  Q8_K,
  IQ1_S,
  IQ1_M,
  IQ2_XXS,
  IQ2_XS,
  IQ2_S,
  IQ3_XXS,
  IQ3_S,
  IQ4_NL,
  IQ4_XS,
  TQ1_0,
  TQ2_0,
  MXFP4,
  NVFP4,
  Q1_0
};

struct TypeInfo {
  std::string_view name;
  int block;  // elements in a block
  int bytes;  // bytes in a block
  bool supported;
};

const TypeInfo& type_info(TensorType type);

// The bytes of a tensor. The reason names the shape and the fault: a negative
// size, more than 2^63 - 1 elements or bytes, a row that is not whole blocks.
Result<size_t> tensor_bytes(TensorType type, const std::vector<int64_t>& shape);

struct TensorView {
  std::string name;
  TensorType type;
  std::vector<int64_t> shape;  // row-major, outermost first; empty: a scalar
  Bytes bytes;                 // exactly the tensor; any alignment
  std::shared_ptr<const MappedFile> file;  // keeps bytes alive

  size_t elements() const;
};

// Refuses a tensor whose type is only known by name, with those that are
// supported.
Status require_supported(const TensorView& tensor);

// The tensors of a model by name; each one keeps its file mapped.
using TensorSet = std::map<std::string, TensorView, std::less<>>;

}  // namespace quern
