#include "sample/row.h"

#include <algorithm>
#include <limits>

#include "sample/distances.h"
#include "sample/elementary.h"
#include "sample/random.h"

namespace quern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Draws of one position.
enum : uint32_t { kTokenDraw, kXtcDraw };

SamplingParams checked(SamplingParams params, int vocab) {
  if (auto ok = validate(params, vocab); !ok) {
    fail("[sample.row] {}", ok.reason());
  }
  return params;
}

// Off is 0; so that callers need one test only.
int effective_top_k(int top_k, int vocab) {
  return top_k > 0 && top_k < vocab ? top_k : 0;
}

void apply_mask(std::span<const uint32_t> mask, std::span<float> logits) {
  if (mask.empty()) return;
  size_t covered = std::min(logits.size(), mask.size() * 32);
  for (size_t begin = 0; begin < covered; begin += 32) {
    uint32_t word = mask[begin / 32];
    size_t end = std::min(begin + 32, covered);
    for (size_t i = begin; i < end; ++i) {
      logits[i] = word >> (i - begin) & 1 ? logits[i] : -kInfinity;
    }
  }
  std::fill(logits.begin() + covered, logits.end(), -kInfinity);
}

void apply_bias(const std::map<int32_t, float>& bias, std::span<float> logits) {
  for (auto [token, value] : bias) {
    logits[token] = value <= kBanBias ? -kInfinity : logits[token] + value;
  }
}

Failure unusable() {
  return failure("a logit is NaN or +inf, or no token is left to draw");
}

}  // namespace

SamplerRow::SamplerRow(SamplingParams params, int vocab,
                       std::span<const int32_t> prompt,
                       std::unique_ptr<Constraint> constraint)
    : params_(checked(std::move(params), vocab)),
      vocab_(vocab),
      seed_(params_.seed ? *params_.seed : fresh_seed()),
      inverse_temperature_(
          std::min(1 / params_.temperature, std::numeric_limits<float>::max())),
      penalties_(params_),
      constraint_(std::move(constraint)) {
  params_.top_k = effective_top_k(params_.top_k, vocab);
  for (int32_t token : prompt) penalties_.accept(token);
}

Result<Sampled> SamplerRow::sample(std::span<float> logits, uint64_t position) {
  if (logits.size() != static_cast<size_t>(vocab_)) {
    fail("[sample.row] expected {} logits, got {}", vocab_, logits.size());
  }
  if (auto ok = process(logits); !ok) return ok.failure();
  Sampled sampled;
  if (params_.temperature == 0) {
    sampled.token = arg_max(logits);
    if (sampled.token < 0) return unusable();
    if (params_.logprobs < 0) return sampled;
  }
  if (!to_distances(logits, nearest_)) return unusable();
  bool needs_total = params_.logprobs >= 0 || has_top_p();
  double total = needs_total ? mass(logits, 1) : 0;
  if (params_.temperature > 0) {
    sampled.token = draw_token(logits, total, position);
  }
  if (params_.logprobs >= 0) add_logprobs(logits, total, sampled);
  return sampled;
}

Result<Sampled> SamplerRow::score(std::span<float> logits, int32_t token) {
  if (!to_distances(logits, nearest_)) return unusable();
  Sampled scored{.token = token};
  add_logprobs(logits, mass(logits, 1), scored);
  return scored;
}

Status SamplerRow::accept(int32_t token) {
  penalties_.accept(token);
  return constraint_ ? constraint_->accept(token) : Status();
}

Status SamplerRow::process(std::span<float> logits) {
  if (constraint_) {
    auto mask = constraint_->mask();
    if (!mask) return mask.failure();
    apply_mask(*mask, logits);
  }
  apply_bias(params_.logit_bias, logits);
  penalties_.apply(logits);
  return {};
}

int32_t SamplerRow::draw_token(std::span<const float> distances, double total,
                               uint64_t position) {
  const auto& p = params_;
  double u = uniform(seed_, position, kTokenDraw);
  bool xtc = p.xtc_probability > 0 &&
             uniform(seed_, position, kXtcDraw) < p.xtc_probability;
  if (!has_top_p() && p.min_p == 0 && !xtc && p.top_k == 0) {
    return draw(distances, inverse_temperature_, u, block_masses_);
  }
  truncate(distances, total, xtc);
  size_t at =
      draw(candidates_.distances(), inverse_temperature_, u, block_masses_);
  return candidates_.ids()[at];
}

// Collects only what can survive: top_p, min_p and (without XTC, which takes
// tokens from the front) top_k each keep the nearest tokens.
void SamplerRow::truncate(std::span<const float> distances, double total,
                          bool xtc) {
  const auto& p = params_;
  float reach = kInfinity;
  if (has_top_p()) reach = top_p_reach(p.top_p, total, distances.size());
  if (p.min_p > 0) reach = std::min(reach, min_p_reach(p.min_p));
  if (p.top_k > 0 && !xtc) {
    reach = std::min(reach, top_k_reach(nearest_, p.top_k, order_));
  }
  candidates_.collect(distances, nearest_, reach);
  if (has_top_p()) candidates_.keep_top_p(p.top_p, total);
  if (p.min_p > 0) candidates_.keep_min_p(p.min_p);
  if (xtc) candidates_.drop_top_choices(p.xtc_threshold, p.xtc_exempt);
  if (p.top_k > 0) candidates_.keep_top_k(p.top_k);
  if (xtc) candidates_.rebase();
}

void SamplerRow::add_logprobs(std::span<const float> distances, double total,
                              Sampled& sampled) {
  double log_total = log_of(total);
  auto logprob = [&](float distance) {
    return std::max(static_cast<float>(-distance - log_total), kLogprobFloor);
  };
  sampled.logprob = logprob(distances[sampled.token]);
  int count = std::min(params_.logprobs, vocab_);
  if (count == 0) return;
  candidates_.collect(distances, nearest_,
                      top_k_reach(nearest_, count, order_));
  candidates_.keep_top_k(count);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    sampled.top.emplace_back(candidates_.ids()[i],
                             logprob(candidates_.distances()[i]));
  }
  std::sort(
      sampled.top.begin(), sampled.top.end(), [](const auto& a, const auto& b) {
        return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
      });
}

}  // namespace quern
