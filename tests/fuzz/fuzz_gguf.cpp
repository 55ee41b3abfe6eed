#include <cstdint>

#include "files/gguf.h"
#include "tensors.h"

namespace {

using namespace quern;

// Decodes a value in every way.
void check_value(const GgufValue& value) {
  value.str(), value.uint(), value.integer(), value.real(), value.flag();
  const size_t size = value.size();
  if (auto list = value.strings()) fuzz::require(list->size() == size);
  if (auto list = value.integers()) fuzz::require(list->size() == size);
  if (auto list = value.floats()) fuzz::require(list->size() == size);
  if (auto list = value.flags()) fuzz::require(list->size() == size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto file = Gguf::parse(bytes, "f");
  if (!file) {
    fuzz::require_reason(file.reason());
    return 0;
  }
  for (const auto& [key, value] : (*file)->metadata()) check_value(value);
  fuzz::check_tensors((*file)->tensors(), bytes);
  return 0;
}
