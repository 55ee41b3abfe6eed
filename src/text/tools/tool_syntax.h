// The forms in which models write tool calls, as a table: one row a family.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quern {

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object, as the model wrote it

  bool operator==(const ToolCall&) const = default;
};

// One form. Calls stand in spans of the text. A span that is not in the form
// is text, and no calls.
struct ToolSyntax {
  // A span goes from an opener to its closer, to the next opener, or to the
  // end of the reply (the only end if there is no closer). Both are text; where
  // they are special tokens of the vocabulary they are told by id as well.
  struct Span {
    std::string_view opener, closer;
  };

  std::string_view name;
  std::vector<Span> spans;
  // Between its tags a span is JSON: it begins with { or [, and a tag inside
  // one of its strings is text.
  bool json = false;
  // What a template of a family that writes this form mentions, each of them.
  std::vector<std::string_view> template_marks;
  // The calls of a span, which is given with its tags (the closer may be
  // missing). Nothing if it is not in the form, or names a tool that `tools`
  // (OpenAI's list) does not declare.
  std::optional<std::vector<ToolCall>> (*parse)(std::string_view span,
                                                const Json& tools);
};

// All forms. The first whose marks a template mentions is the model's; the last
// has no marks and so is that of all other models.
std::span<const ToolSyntax> tool_syntaxes();

// Whether OpenAI's list of tools has a function of this name.
bool declares(const Json& tools, std::string_view name);

}  // namespace quern
