#include "text/tools/tool_syntax.h"

#include <algorithm>

#include "text/tools/families.h"

namespace quern {

std::span<const ToolSyntax> tool_syntaxes() {
  static const std::vector<ToolSyntax> all = {
      hermes_syntax(),
  };
  return all;
}

bool declares(const Json& tools, std::string_view name) {
  return std::ranges::any_of(tools, [&](const Json& tool) {
    if (!tool.is_object()) return false;
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) return false;
    const auto declared = function->find("name");
    return declared != function->end() && *declared == name;
  });
}

}  // namespace quern
