// A model that can be asked for everything but answers.
#pragma once

#include <memory>

#include "api/service.h"

namespace quern::test {

// Width of the logits: the tokenizer has 259 ids (text/synthetic.h).
inline constexpr int kVocabulary = 320;

// Messages as "role: text\n", tools as JSON, then "assistant: " and a script
// for thinking: <think> if enable_thinking, a closed block if it is false.
std::shared_ptr<ServedModel> served_without_engine();

// The same with this template; empty: none.
std::shared_ptr<ServedModel> served_with_template(std::string source);

}  // namespace quern::test
