#include "api/completion_request.h"

#include <algorithm>

#include "api/prompt_limit.h"
#include "text/prompt.h"

namespace quern {
namespace {

constexpr const char* kForms =
    "a string, a list of strings, a list of token ids, or a list of such lists";

class PromptReader {
 public:
  explicit PromptReader(const ServedModel& served) : served_(served) {}

  std::vector<Prompt> read(const Json* value) {
    if (!value) refuse("prompt", "prompt is required: {}", kForms);
    if (value->is_string() || is_ids(*value)) return {read_one(*value)};
    if (!value->is_array() || value->empty()) refuse_form(*value);
    std::vector<Prompt> prompts;
    for (const Json& one : *value) {
      if (one.type() != value->front().type()) refuse_form(*value);
      prompts.push_back(read_one(one));
    }
    return prompts;
  }

 private:
  [[noreturn]] static void refuse_form(const Json& value) {
    refuse("prompt", "prompt must be {}, got {}", kForms, brief(value));
  }

  static bool is_ids(const Json& value) {
    return value.is_array() && !value.empty() && value[0].is_number();
  }

  Prompt read_one(const Json& value) const {
    Prompt prompt;
    if (value.is_string()) {
      prompt.text = value.get<std::string>();
      refuse_endless(prompt.text, served_);
      auto ids = raw_ids(served_.tokenizer, prompt.text);
      if (!ids) refuse("prompt", "prompt: {}", ids.reason());
      if (ids->empty()) refuse("prompt", "prompt: the text has no tokens");
      prompt.ids = std::move(*ids);
    } else if (is_ids(value)) {
      for (const Json& id : value) prompt.ids.push_back(read_id(id));
      prompt.text = text_of(prompt.ids);
    } else {
      refuse_form(value);
    }
    return prompt;
  }

  int32_t read_id(const Json& value) const {
    const int vocabulary = served_.model->facts().vocabulary;
    if (is_whole(value)) {
      const double id = value.get<double>();
      if (id >= 0 && id < vocabulary) return int32_t(id);
    }
    refuse("prompt", "prompt: a token id is a whole number in [0, {}], got {}",
           vocabulary - 1, brief(value));
  }

  // Special tokens are shown, but for those that begin every text.
  std::string text_of(std::span<const int32_t> ids) const {
    const auto prefix = served_.tokenizer.prefix_ids();
    const auto [end, rest] =
        std::mismatch(prefix.begin(), prefix.end(), ids.begin(), ids.end());
    if (end == prefix.end()) ids = ids.subspan(prefix.size());
    return served_.tokenizer.decode(ids, false);
  }

  const ServedModel& served_;
};

// A number of tokens, or as mlx_lm.server has it: a bool, with top_logprobs.
int read_logprobs(const Fields& fields) {
  const Json* value = fields.find("logprobs");
  if (value && !value->is_boolean()) {
    return *fields.integer("logprobs", 0, kMaxTopLogprobs);
  }
  const int top =
      fields.integer("top_logprobs", -1, kMaxTopLogprobs).value_or(-1);
  return top > 0 || (value && *value == true) ? std::max(top, 0) : -1;
}

void check_combinations(const CompletionRequest& request) {
  const GenerationFields& g = request.generation;
  if (request.best_of < g.choices) {
    refuse("best_of", "best_of must be at least n: got {} and {}",
           request.best_of, g.choices);
  }
  if (request.best_of > g.choices && g.stream) {
    refuse("best_of", "best_of: what is best is not known while streaming");
  }
  const size_t choices = request.choices();
  if (choices > size_t(kMaxChoices)) {
    refuse("prompt", "prompt: at most {} choices in all, got {}", kMaxChoices,
           choices);
  }
}

// Of all choices.
size_t echoed_tokens(const CompletionRequest& request) {
  if (!request.echo) return 0;
  size_t tokens = 0;
  for (const Prompt& prompt : request.prompts) tokens += prompt.ids.size();
  return tokens * request.best_of;
}

}  // namespace

CompletionRequest read_completion(const Json& body, const ServedModel& served) {
  const Fields fields(body);
  refuse_unsupported(fields);
  if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty()) {
    refuse("suffix", "suffix is not supported");
  }
  CompletionRequest request;
  request.generation = read_generation(fields, served);
  request.best_of = fields.integer("best_of", 1, kMaxChoices)
                        .value_or(request.generation.choices);
  request.logprobs = read_logprobs(fields);
  request.echo = fields.boolean("echo").value_or(false);
  request.prompts = PromptReader(served).read(fields.find("prompt"));
  check_combinations(request);
  refuse_many_logprobs(request.generation, served, request.choices(),
                       request.logprobs, echoed_tokens(request));
  // The best is the one of the highest log-probability.
  const bool compare = request.best_of > request.generation.choices;
  request.generation.sampling.logprobs =
      std::max(request.logprobs, compare ? 0 : -1);
  return request;
}

}  // namespace quern
