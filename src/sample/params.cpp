#include "sample/params.h"

#include <string_view>

namespace quern {
namespace {

// NaN is in no range.
template <class T>
Status in_range(std::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return {};
  return failure("{} must be in [{}, {}], got {}", field, low, high, value);
}

Status is_token(std::string_view field, int32_t id, int vocab) {
  if (id >= 0 && id < vocab) return {};
  return failure("{}: token id must be in [0, {}], got {}", field, vocab - 1,
                 id);
}

Status at_least(std::string_view field, int value, int low) {
  if (value >= low) return {};
  return failure("{} must be at least {}, got {}", field, low, value);
}

Status valid_bias(const std::map<int32_t, float>& bias, int vocab) {
  for (auto [id, value] : bias) {
    if (auto ok = is_token("logit_bias", id, vocab); !ok) return ok;
    auto field = fmt::format("logit_bias of token {}", id);
    if (auto ok = in_range(field, value, -1000.f, 1000.f); !ok) return ok;
  }
  return {};
}

}  // namespace

Status validate(const SamplingParams& p, int vocab) {
  for (const Status& status : {
           in_range("temperature", p.temperature, 0.f, 5.f),
           in_range("top_p", p.top_p, 0.f, 1.f),
           at_least("top_k", p.top_k, -1),
           in_range("min_p", p.min_p, 0.f, 1.f),
           in_range("xtc_probability", p.xtc_probability, 0.f, 1.f),
           in_range("xtc_threshold", p.xtc_threshold, 0.f, 0.5f),
           in_range("repetition_penalty", p.repetition_penalty, 0.01f, 100.f),
           at_least("repetition_context_size", p.repetition_context, 0),
           in_range("presence_penalty", p.presence_penalty, -100.f, 100.f),
           at_least("presence_context_size", p.presence_context, 0),
           in_range("frequency_penalty", p.frequency_penalty, -100.f, 100.f),
           at_least("frequency_context_size", p.frequency_context, 0),
           valid_bias(p.logit_bias, vocab),
           in_range("top_logprobs", p.logprobs, -1, kMaxTopLogprobs),
       }) {
    if (!status) return status;
  }
  for (int32_t id : p.xtc_exempt) {
    if (auto ok = is_token("xtc_exempt", id, vocab); !ok) return ok;
  }
  return {};
}

}  // namespace quern
