#include <cstdint>

#include "check.h"
#include "files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = parse_shard_index(text, "i");
  if (!index) {
    fuzz::require_reason(index.reason());
    return 0;
  }
  for (const auto& [tensor, shard] : *index) {
    fuzz::require(Path(shard).filename() == shard && shard != "..");
  }
  return 0;
}
