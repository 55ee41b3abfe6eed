// Messages and tools as chat templates take them, from OpenAI's.
#pragma once

#include "api/fields.h"
#include "api/service.h"
#include "text/prompt.h"

namespace quern {

// The request's list of tools as the client gave it; null for none, or if
// tool_choice forbids them.
// Throws ApiError.
Json read_tools(const Fields& fields);

// messages, chat_template_kwargs and reasoning_effort, beside what read_tools()
// gave. Throws ApiError.
ChatInput read_chat_input(const Fields& fields, Json tools,
                          const ServedModel& served);

}  // namespace quern
