#include "cli/escapes.h"

#include "base/str.h"

namespace quern {

Result<std::string> unescape(std::string_view text) {
  constexpr std::string_view kLetters = "ntr\\'\"", kMeanings = "\n\t\r\\'\"";
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const std::string_view escape = text.substr(i, 2);
    const size_t which =
        escape.size() == 2 ? kLetters.find(escape[1]) : kLetters.npos;
    if (which == kLetters.npos) {
      return failure(
          "{} is no escape: expected \\n, \\t, \\r, \\\\, \\' or "
          "\\\"",
          in_quotes(escape));
    }
    out += kMeanings[which];
    i++;
  }
  return out;
}

}  // namespace quern
