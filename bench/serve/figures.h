// What a load measured.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace quern {

// How a call ended, from the caller's side.
enum class Outcome {
  done,          // whole, with finish reason, usage and [DONE]
  refused,       // 429 or 503
  failed,        // anything else that is not as it should be
  stuck,         // no token for too long
  disconnected,  // as the caller meant to
  rejected       // a malformed one, with a 4xx
};
inline constexpr std::array kOutcomeNames = {
    "done", "refused", "failed", "stuck", "disconnected", "rejected"};

// Times are seconds on the load's clock. Only what happens in the window
// counts for speeds and latencies; outcomes count always.
class Figures {
 public:
  Figures(double from, double to) : from_(from), to_(to) {}
  void end_window(double at) { to_ = at; }

  // A delta with text came; of one token as a rule.
  void add_delta(double at) { deltas_ += in_window(at); }
  void add_first(double begun, double at);
  void add_gap(double before, double at);
  void add_outcome(Outcome outcome, const std::string& reason);
  // Of an answer that is done: its deltas, and what its usage says.
  void add_answer(int deltas, int prompt_tokens, int tokens);
  // Tokens a second between the first and the last of one answer.
  void add_pace(double first, double last, int tokens);

  double tokens_per_s() const;
  double pace() const;  // the median one
  // Milliseconds; `share` of the values are not above it.
  double first_ms(double share) const;
  double gap_ms(double share) const;
  int count(Outcome outcome) const { return outcomes_[int(outcome)]; }
  Json json() const;

 private:
  bool in_window(double at) const { return at >= from_ && at < to_; }

  double from_, to_;
  int64_t deltas_ = 0;  // in the window
  int64_t answer_deltas_ = 0, answer_tokens_ = 0, prompt_tokens_ = 0;
  std::vector<float> firsts_, gaps_, paces_;  // s, s, tokens/s
  std::array<int, kOutcomeNames.size()> outcomes_ = {};
  std::vector<std::string> reasons_;  // different ones, the first few
};

}  // namespace quern
