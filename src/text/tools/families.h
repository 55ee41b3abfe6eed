// The rows of tool_syntaxes(): each family of forms is a file of its name.
#pragma once

#include "text/tools/tool_syntax.h"

namespace quern {

// <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5
// and 3, and models that learn the form from their prompt.
ToolSyntax hermes_syntax();

}  // namespace quern
