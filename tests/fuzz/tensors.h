// What holds for the tensors of a file that was not refused.
#pragma once

#include "check.h"
#include "files/tensor.h"

namespace quern::fuzz {

inline void check_tensors(const TensorSet& tensors, Bytes file) {
  unsigned sum = 0;
  for (const auto& [name, tensor] : tensors) {
    require(name == tensor.name && valid_utf8(name));
    const auto bytes = tensor_bytes(tensor.type, tensor.shape);
    require(bytes && *bytes == tensor.bytes.size());
    if (tensor.bytes.empty()) continue;
    require(tensor.bytes.data() >= file.data());
    require(tensor.bytes.data() + tensor.bytes.size() <=
            file.data() + file.size());
    sum += unsigned(tensor.bytes.front()) + unsigned(tensor.bytes.back());
    if (auto status = require_supported(tensor); !status) {
      require_reason(status.reason());
    }
  }
  [[maybe_unused]] volatile unsigned used = sum;
}

}  // namespace quern::fuzz
