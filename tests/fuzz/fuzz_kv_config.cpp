#include <cstdint>

#include "check.h"
#include "nn/kv_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  constexpr int kHeadDims[] = {64, 80, 96, 256};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scheme = parse_kv_config(text, "k", kHeadDims);
  if (!scheme) {
    fuzz::require_reason(scheme.reason());
    return 0;
  }
  fuzz::require(scheme->full.raw() && scheme->ring.raw());
  for (const auto& [layer, codec] : scheme->layers) {
    fuzz::require(layer >= 0 && layer < int(std::size(kHeadDims)));
    fuzz::require(codec.supports(kHeadDims[layer]));
    fuzz::require(codec.bytes_per_token(kHeadDims[layer]) > 0);
  }
  return 0;
}
