#include "sample/penalties.h"

namespace quern {
namespace {

// logits[token] = change(logits[token], count) for each token of the window.
template <class Change>
void for_tokens(const TokenWindow& window, std::span<float> logits,
                Change change) {
  for (auto [token, count] : window.counts()) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    logits[token] = change(logits[token], count);
  }
}

}  // namespace

void TokenWindow::accept(std::span<const int32_t> history) {
  ++counts_[history.back()];
  auto size = static_cast<size_t>(size_);
  if (size == 0 || history.size() <= size) return;
  auto oldest = counts_.find(history[history.size() - 1 - size]);
  if (--oldest->second == 0) counts_.erase(oldest);
}

Penalties::Penalties(const SamplingParams& params)
    : repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty),
      active_(repetition_ != 1 || presence_ != 0 || frequency_ != 0),
      repetition_window_(params.repetition_context),
      presence_window_(params.presence_context),
      frequency_window_(params.frequency_context) {}

void Penalties::accept(int32_t token) {
  if (!active_) return;
  history_.push_back(token);
  repetition_window_.accept(history_);
  presence_window_.accept(history_);
  frequency_window_.accept(history_);
}

void Penalties::apply(std::span<float> logits) const {
  if (repetition_ != 1) {
    for_tokens(repetition_window_, logits, [&](float x, int) {
      return x < 0 ? x * repetition_ : x / repetition_;
    });
  }
  if (presence_ != 0) {
    for_tokens(presence_window_, logits,
               [&](float x, int) { return x - presence_; });
  }
  if (frequency_ != 0) {
    for_tokens(frequency_window_, logits,
               [&](float x, int count) { return x - frequency_ * count; });
  }
}

}  // namespace quern
