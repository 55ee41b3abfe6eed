// A request for plain completions: from JSON to what the engine needs.
#pragma once

#include "api/generation_fields.h"

namespace quern {

struct Prompt {
  std::string text;  // as echo shows it
  std::vector<int32_t> ids;
};

struct CompletionRequest {
  GenerationFields generation;
  std::vector<Prompt> prompts;
  int best_of = 1;    // choices made of each prompt, generation.choices kept
  int logprobs = -1;  // as SamplingParams::logprobs
  bool echo = false;  // the prompt is part of the text

  size_t choices() const { return prompts.size() * best_of; }
  // Whether each prompt is scored, which its first choice is asked for.
  bool scores_prompts() const { return echo && logprobs >= 0; }
};

// Throws ApiError.
CompletionRequest read_completion(const Json& body, const ServedModel& served);

}  // namespace quern
