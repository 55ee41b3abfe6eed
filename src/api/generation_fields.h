// What chat and completions ask of a generation, under the names that OpenAI,
// mlx_lm.server, vLLM and llama.cpp use.
#pragma once

#include <string>
#include <vector>

#include "api/fields.h"
#include "api/service.h"

namespace quern {

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 512;
inline constexpr int kMaxBiases = 1024;
inline constexpr size_t kMaxBiasBytes = 64;  // of a text in place of an id
// Of an answer in one piece of several choices: about 400 bytes each.
inline constexpr int64_t kMaxLogprobs = 1 << 21;

struct GenerationFields {
  std::string model;  // as the client named it
  SamplingParams sampling;
  int max_tokens = -1;  // as Request's
  int choices = 1;      // n
  std::vector<std::string> stops;
  bool ignore_end = false;  // end tokens do not end it
  bool stream = false;
  bool include_usage = false;  // in a last chunk of the stream
};

// All but logprobs, which the endpoints name differently. Throws ApiError.
GenerationFields read_generation(const Fields& fields,
                                 const ServedModel& served);

// Throws ApiError if a field asks for what is not to be had: nothing that was
// asked for is dropped silently.
void refuse_unsupported(const Fields& fields);

// Throws ApiError if an answer in one piece of so many choices, each with `top`
// (-1: no) log-probabilities a token, may have more of them than kMaxLogprobs.
// `echoed`: tokens of the prompts in it.
void refuse_many_logprobs(const GenerationFields& fields,
                          const ServedModel& served, size_t choices, int top,
                          size_t echoed = 0);

// The engine's request for the choice `index` of a prompt. Its listener is yet
// to be set.
Request make_request(const GenerationFields& fields, const ServedModel& served,
                     std::vector<int32_t> prompt, int index);

}  // namespace quern
