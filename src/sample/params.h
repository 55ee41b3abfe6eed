// What a request asks of sampling, and the check of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"

namespace quern {

inline constexpr int kMaxTopLogprobs = 20;

// A bias of this or less bans its token outright: at no temperature and behind
// no lead of the other tokens can it be drawn.
inline constexpr float kBanBias = -100;

// The defaults sample greedily and change no logit.
struct SamplingParams {
  float temperature = 0;      // [0, 5]; 0 takes the most likely token
  float top_p = 1;            // [0, 1]; 0 and 1 are off
  int top_k = 0;              // -1, 0 and the vocabulary's size or more are off
  float min_p = 0;            // [0, 1]; 0 is off
  float xtc_probability = 0;  // [0, 1]; chance of XTC at each step
  float xtc_threshold = 0.1f;       // [0, 0.5]
  std::vector<int32_t> xtc_exempt;  // XTC never drops these: EOS and newline

  // Penalties look at the last *_context tokens of prompt and answer; 0 is all.
  float repetition_penalty = 1;  // [0.01, 100]; 1 is off
  int repetition_context = 20;
  float presence_penalty = 0;  // [-100, 100]
  int presence_context = 20;
  float frequency_penalty = 0;  // [-100, 100]
  int frequency_context = 20;

  std::map<int32_t, float> logit_bias;  // token -> [-1000, 1000], see kBanBias
  std::optional<uint64_t> seed;         // none: a fresh one
  int logprobs = -1;  // -1: none; 0: the token's own; else how many of the top
};

// Names the first field out of its range, with its value and the range.
// `vocab` is the number of logits in a row.
Status validate(const SamplingParams& params, int vocab);

}  // namespace quern
