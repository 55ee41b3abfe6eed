// One row of a batch as the sampler sees it: what its request asked for and
// what it has drawn. Rows share nothing, so each may run on a thread of its
// own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sample/candidates.h"
#include "sample/constraint.h"
#include "sample/params.h"
#include "sample/penalties.h"

namespace quern {

// Log-probabilities are those of the processed row (mask, bias and penalties),
// before temperature and truncation, and at least kLogprobFloor: finite.
inline constexpr float kLogprobFloor = -9999;

struct Sampled {
  int32_t token = 0;
  float logprob = 0;                           // 0 unless params.logprobs >= 0
  std::vector<std::pair<int32_t, float>> top;  // most likely first, then id
};

class SamplerRow {
 public:
  // The params must be valid for `vocab`, the size of each row of logits.
  // `prompt` is the past that the penalties see. Without a constraint every
  // token may follow.
  SamplerRow(SamplingParams params, int vocab,
             std::span<const int32_t> prompt = {},
             std::unique_ptr<Constraint> constraint = nullptr);

  // Draws the token at `position`, its index in the row's text. `logits` is
  // used as scratch. Order: constraint, logit_bias, repetition, presence and
  // frequency penalty, log-probabilities, top_p, min_p, XTC, top_k,
  // temperature. (A mask only sets -inf, which bias and penalties leave, so
  // its place among them does not matter.)
  // Fails, for this row only, if the constraint does, if a logit is NaN or
  // +inf, or if no token is left.
  Result<Sampled> sample(std::span<float> logits, uint64_t position);

  // What `token` would cost: of the logits as they are. Draws nothing. Fails if
  // a logit is NaN or +inf.
  Result<Sampled> score(std::span<float> logits, int32_t token);

  // The row goes on with `token`, which need not be the one drawn.
  Status accept(int32_t token);

  // The constraint allows no further token.
  bool done() const { return constraint_ && constraint_->done(); }

  uint64_t seed() const { return seed_; }
  const SamplingParams& params() const { return params_; }

 private:
  bool has_top_p() const { return params_.top_p > 0 && params_.top_p < 1; }
  Status process(std::span<float> logits);
  int32_t draw_token(std::span<const float> distances, double total,
                     uint64_t position);
  void truncate(std::span<const float> distances, double total, bool xtc);
  void add_logprobs(std::span<const float> distances, double total,
                    Sampled& sampled);

  SamplingParams params_;
  int vocab_;
  uint64_t seed_;
  float inverse_temperature_;
  Penalties penalties_;
  std::unique_ptr<Constraint> constraint_;

  // Scratch, kept between calls.
  std::vector<float> nearest_, order_;
  std::vector<double> block_masses_;
  Candidates candidates_;
};

}  // namespace quern
