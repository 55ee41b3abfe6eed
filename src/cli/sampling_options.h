// How the next token is drawn, as asked for on the command line.
#pragma once

#include <optional>

#include "cli/options.h"
#include "sample/params.h"
#include "text/tokenizer.h"

namespace quern {

// What was given; what was not comes from the model, else is off.
struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  SamplingParams others;  // the fields that a model says nothing about
};

void add_sampling_options(CLI::App& app, SamplingOptions& options);

// Given options, else those of `model`/generation_config.json, else greedy.
// Throws Error if that file cannot be read or a field of it is out of range,
// or if a bias is for a token outside the model's `vocabulary`.
SamplingParams sampling_params(const SamplingOptions& options,
                               const Path& model, const Tokenizer& tokenizer,
                               int vocabulary);

}  // namespace quern
