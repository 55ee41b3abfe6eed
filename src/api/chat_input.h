// Messages and tools as chat templates take them, from OpenAI's.
#pragma once

#include "api/fields.h"
#include "api/service.h"
#include "text/prompt.h"

namespace quern {

// messages, tools, tool_choice, chat_template_kwargs and reasoning_effort.
// Throws ApiError.
ChatInput read_chat_input(const Fields& fields, const ServedModel& served);

// The request's list of tools as the client gave it; null for none, or if
// tool_choice forbids them.
Json read_tools(const Fields& fields);

}  // namespace quern
