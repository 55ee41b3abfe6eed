// What a model's logits at one position say of the token that follows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

// Of logits that stay where they are.
class Prediction {
 public:
  explicit Prediction(std::span<const float> logits);

  // -log of the token's probability
  double surprise(int32_t token) const { return log_sum_ - logits_[token]; }
  int32_t likeliest() const { return likeliest_; }

 private:
  friend class KeptPrediction;
  std::span<const float> logits_;
  double log_sum_;  // of the exponentials
  int32_t likeliest_;
};

// A prediction that others are compared with, once its logits are gone.
class KeptPrediction {
 public:
  explicit KeptPrediction(const Prediction& prediction);

  // KL divergence: what the other one loses by not being this, in nats.
  double divergence(const Prediction& other) const;
  int32_t likeliest() const { return likeliest_; }

 private:
  std::vector<float> probabilities_;
  double mean_;  // log of a probability, expected
  int32_t likeliest_;
};

}  // namespace quern
