// What happens to one choice of an answer, in this order:
//   PromptScores?  (TextDelta | ToolCall)*  Ended
// Every dialect is written from these. PromptScores is there if it was asked
// for.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "text/tools/tool_syntax.h"

namespace quern {

struct PromptScores {
  std::vector<PromptLogprobs> scores;  // of all tokens but the first
};

// A token of the answer whose text is out.
struct TokenScore {
  Sampled sampled;
  int offset = 0;  // characters of the answer before it, as the model wrote it
};

struct TextDelta {
  bool reasoning = false;
  std::string text;                // valid UTF-8, never empty
  std::vector<TokenScore> tokens;  // that begin in this text, if asked for; of
                                   // content only
};

struct Ended {
  Ending ending;
  std::optional<std::string> stop;  // the stop string that ended it
  int reasoning_tokens = 0;
  // Of the answer's tokens, if they were scored; -infinity for none.
  double mean_logprob = 0;
};

using Event = std::variant<PromptScores, TextDelta, ToolCall, Ended>;

}  // namespace quern
