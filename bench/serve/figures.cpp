#include "serve/figures.h"

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

constexpr size_t kMostReasons = 8;

double quantile(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  const auto rank = size_t(std::ceil(share * double(values.size())));
  const auto at = values.begin() + std::max<size_t>(rank, 1) - 1;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double rounded(double value) { return std::round(value * 100) / 100; }

Json quantiles_ms(const std::vector<float>& values) {
  Json json = {{"count", values.size()}};
  for (const auto& [name, share] :
       {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}}) {
    json[name] = rounded(1e3 * quantile(values, share));
  }
  return json;
}

}  // namespace

void Figures::add_first(double begun, double at) {
  if (in_window(begun)) firsts_.push_back(float(at - begun));
}

void Figures::add_gap(double before, double at) {
  if (in_window(at)) gaps_.push_back(float(at - before));
}

void Figures::add_outcome(Outcome outcome, const std::string& reason) {
  ++outcomes_[int(outcome)];
  const auto known = std::find(reasons_.begin(), reasons_.end(), reason);
  if (!reason.empty() && known == reasons_.end() &&
      reasons_.size() < kMostReasons) {
    reasons_.push_back(reason);
  }
}

void Figures::add_answer(int deltas, int prompt_tokens, int tokens) {
  answer_deltas_ += deltas;
  answer_tokens_ += tokens;
  prompt_tokens_ += prompt_tokens;
}

void Figures::add_pace(double first, double last, int tokens) {
  if (in_window(first) && last > first) {
    paces_.push_back(float((tokens - 1) / (last - first)));
  }
}

double Figures::tokens_per_s() const {
  if (answer_deltas_ == 0 || to_ <= from_) return 0;
  const double per_delta = double(answer_tokens_) / double(answer_deltas_);
  return double(deltas_) * per_delta / (to_ - from_);
}

double Figures::pace() const { return quantile(paces_, 0.5); }

double Figures::first_ms(double share) const {
  return 1e3 * quantile(firsts_, share);
}

double Figures::gap_ms(double share) const {
  return 1e3 * quantile(gaps_, share);
}

Json Figures::json() const {
  Json outcomes;
  for (size_t i = 0; i < kOutcomeNames.size(); ++i) {
    outcomes[kOutcomeNames[i]] = outcomes_[i];
  }
  return {{"window_s", rounded(to_ - from_)},
          {"requests", outcomes},
          {"faults", reasons_},
          {"tokens_per_s", rounded(tokens_per_s())},
          {"stream_tokens_per_s", rounded(pace())},
          {"answer_tokens", answer_tokens_},
          {"answer_deltas", answer_deltas_},
          {"prompt_tokens", prompt_tokens_},
          {"first_token_ms", quantiles_ms(firsts_)},
          {"between_tokens_ms", quantiles_ms(gaps_)}};
}

}  // namespace quern
