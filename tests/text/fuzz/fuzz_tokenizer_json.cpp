#include <cstdint>

#include "fuzz/check.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto t = Tokenizer::from_json(json, Json::object());
  if (!t) {
    fuzz::require_reason(t.reason());
    return 0;
  }
  for (bool parse_special : {false, true}) {
    const auto ids = t->encode("<s>Hello, \u4e16\u754c 12 </s> [CLS]\n",
                               {.parse_special = parse_special});
    if (!ids) continue;
    for (int32_t id : *ids) fuzz::require(id >= 0);
    t->decode(*ids);
  }
  return 0;
}
