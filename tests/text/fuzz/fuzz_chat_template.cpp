#include <cstdint>

#include "fuzz/check.h"
#include "text/chat_template.h"

// Input: the template, then, after a zero byte, the context as JSON.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  Json context = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
      {"add_generation_prompt", true},
  };
  if (cut != input.npos) {
    auto json = parse_json(input.substr(cut + 1), "context");
    if (json && json->is_object()) context = std::move(*json);
  }
  const auto t = ChatTemplate::compile(std::string(input.substr(0, cut)));
  if (!t) {
    fuzz::require_reason(t.reason());
    return 0;
  }
  const auto text = t->render(context, {.now = 0});
  if (!text) fuzz::require_reason(text.reason());
  return 0;
}
