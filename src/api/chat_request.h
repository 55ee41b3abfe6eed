// A chat request: from JSON to what the engine needs.
#pragma once

#include "api/choice.h"
#include "api/generation_fields.h"

namespace quern {

struct ChatRequest {
  GenerationFields generation;
  std::vector<int32_t> prompt;
  std::shared_ptr<const Json> tools;  // as the client gave them, or null
  bool inside_reasoning = false;      // where the prompt leaves the model
  bool raw = false;                   // reasoning stays in the content
  bool one_call = false;              // parallel_tool_calls: false

  // A choice's way from tokens to events.
  ChoiceOptions choice(const ServedModel& served) const;
};

// Throws ApiError.
ChatRequest read_chat(const Json& body, const ServedModel& served);

}  // namespace quern
