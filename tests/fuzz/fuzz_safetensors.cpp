#include <cstdint>

#include "files/safetensors.h"
#include "tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto file = Safetensors::parse(bytes, "f");
  if (file) {
    fuzz::check_tensors((*file)->tensors(), bytes);
  } else {
    fuzz::require_reason(file.reason());
  }
  return 0;
}
