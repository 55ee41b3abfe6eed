#include <cstdint>

#include "fuzz/check.h"
#include "text/reply_cases.h"
#include "text/tools/json_slices.h"

// Input: a span's body, as UTF-8. Its calls are declared and their arguments
// are objects; a value as it was written is the value that the JSON has.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const std::string body(reinterpret_cast<const char*>(data), size);
  if (!valid_utf8(body)) return 0;
  const Json tools = *reply::tools();
  for (const ToolSyntax& syntax : tool_syntaxes()) {
    for (const auto& [opener, closer] : syntax.spans) {
      std::string span(opener);
      span += body;
      span += closer;
      const auto calls = syntax.parse(span, tools);
      if (!calls) continue;
      fuzz::require(!calls->empty());
      for (const ToolCall& call : *calls) {
        fuzz::require(declares(tools, call.name));
        const auto arguments = parse_json(call.arguments, "arguments");
        fuzz::require(arguments && arguments->is_object());
      }
    }
  }
  const auto json = parse_json(body, "body");
  if (json && json->is_array()) {
    const auto elements = json_elements(body);
    fuzz::require(elements.size() == json->size());
    for (size_t i = 0; i < elements.size(); ++i) {
      fuzz::require(Json::parse(elements[i]) == (*json)[i]);
    }
  }
  if (json && json->is_object()) {
    Json members = Json::object();
    for (const auto& [key, value] : json_members(body)) {
      members[key] = Json::parse(value);
    }
    fuzz::require(members == *json);
  }
  return 0;
}
