// The forms in which models write tool calls, as a table: one row a family.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quern {

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object
};

// One form. A call is a span of the text that begins with `opener` and ends
// with `closer` (empty: the end of the reply).
struct ToolSyntax {
  std::string_view name;
  std::string_view opener, closer;
  // What a template of a family that writes this form mentions, each of them.
  std::vector<std::string_view> template_marks;
  // The calls inside a span, tags not included. Nothing if it is not in the
  // form, or names a tool that is not in `tools` (OpenAI's list).
  std::optional<std::vector<ToolCall>> (*parse)(std::string_view body,
                                                const Json& tools);
};

// All forms; the first whose marks a template mentions is the model's.
std::span<const ToolSyntax> tool_syntaxes();

}  // namespace quern
