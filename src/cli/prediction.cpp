#include "cli/prediction.h"

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

// The mean of the logits that have a probability.
double expected(std::span<const float> probabilities,
                std::span<const float> logits) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); i++) {
    if (probabilities[i] > 0) sum += double(probabilities[i]) * logits[i];
  }
  return sum;
}

}  // namespace

Prediction::Prediction(std::span<const float> logits) : logits_(logits) {
  const auto most = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double(logit) - *most);
  log_sum_ = *most + std::log(sum);
  likeliest_ = int32_t(most - logits.begin());
}

KeptPrediction::KeptPrediction(const Prediction& prediction)
    : likeliest_(prediction.likeliest()) {
  probabilities_.reserve(prediction.logits_.size());
  for (float logit : prediction.logits_) {
    probabilities_.push_back(float(std::exp(logit - prediction.log_sum_)));
  }
  mean_ = expected(probabilities_, prediction.logits_) - prediction.log_sum_;
}

double KeptPrediction::divergence(const Prediction& other) const {
  return mean_ - (expected(probabilities_, other.logits_) - other.log_sum_);
}

}  // namespace quern
