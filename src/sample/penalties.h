// What the tokens of the past do to the logits of the next one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sample/params.h"

namespace quern {

// How often each token occurs among the last `size` of a growing history.
class TokenWindow {
 public:
  explicit TokenWindow(int size) : size_(size) {}  // 0: the whole history

  // `history` has grown by its last token.
  void accept(std::span<const int32_t> history);

  const std::unordered_map<int32_t, int>& counts() const { return counts_; }

 private:
  int size_;
  std::unordered_map<int32_t, int> counts_;
};

// Repetition, presence and frequency penalties of one row, in this order.
// Tokens of the history that have no logit (placeholders of media) are passed
// over.
class Penalties {
 public:
  explicit Penalties(const SamplingParams& params);

  void accept(int32_t token);
  void apply(std::span<float> logits) const;

 private:
  float repetition_, presence_, frequency_;
  bool active_;
  TokenWindow repetition_window_, presence_window_, frequency_window_;
  std::vector<int32_t> history_;
};

}  // namespace quern
