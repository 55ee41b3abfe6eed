#include "base/json.h"

namespace quern {

Result<Json> parse_json(std::string_view text, std::string_view where) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    // nlohmann's text starts with "[json.exception....] "; keep what follows.
    std::string_view what = e.what();
    if (auto end = what.find("] "); end != what.npos)
      what.remove_prefix(end + 2);
    return failure("{}: not valid JSON: {}", where, what);
  }
}

std::string brief(const Json& value) {
  constexpr size_t kMost = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text.replace(kMost, text.npos, "...");
  return text;
}

}  // namespace quern
