#include "api/chat_request.h"

#include <algorithm>

#include "api/chat_input.h"
#include "api/prompt_limit.h"
#include "base/str.h"

namespace quern {
namespace {

// Tokens that a template may put behind an opened tag, and the tag's own.
constexpr size_t kTailTokens = 32;

// logprobs is a bool, top_logprobs how many; the latter asks for both.
int read_logprobs(const Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const int top =
      fields.integer("top_logprobs", -1, kMaxTopLogprobs).value_or(-1);
  return top > 0 || wanted ? std::max(top, 0) : -1;
}

bool read_raw(const Fields& fields) {
  const auto format = fields.string("reasoning_format");
  if (!format || format == "auto") return false;
  if (format == "none") return true;
  refuse("reasoning_format", "reasoning_format must be none or auto, got {}",
         in_quotes(*format));
}

std::vector<int32_t> prompt_of(const ChatInput& input,
                               const ServedModel& served) {
  const auto marked =
      marked_chat_text(served.tokenizer, served.templates, input);
  if (!marked) refuse("messages", "{}", marked.reason());
  refuse_endless(marked->text, served);
  auto ids = served.tokenizer.encode_marked(marked->text, marked->mark);
  if (!ids) refuse("messages", "{}", ids.reason());
  if (ids->empty()) refuse("messages", "the chat template gave no prompt");
  return std::move(ids).value();
}

bool opens_reasoning(const std::vector<int32_t>& prompt,
                     const ServedModel& served) {
  const size_t tail = std::min(prompt.size(), kTailTokens);
  return served.format.opens_reasoning(
      served.tokenizer.decode(std::span(prompt).last(tail), false));
}

}  // namespace

ChatRequest read_chat(const Json& body, const ServedModel& served) {
  const Fields fields(body);
  refuse_unsupported(fields);
  ChatRequest request;
  request.generation = read_generation(fields, served);
  request.generation.sampling.logprobs = read_logprobs(fields);
  refuse_many_logprobs(request.generation, served, request.generation.choices,
                       request.generation.sampling.logprobs);
  request.raw = read_raw(fields);
  request.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  Json tools = read_tools(fields);
  request.prompt = prompt_of(read_chat_input(fields, tools, served), served);
  if (tools.is_array()) {
    request.tools = std::make_shared<const Json>(std::move(tools));
  }
  request.inside_reasoning = opens_reasoning(request.prompt, served);
  return request;
}

ChoiceOptions ChatRequest::choice(const ServedModel& served) const {
  return {.parser = ReplyParser(served.format, tools, inside_reasoning, raw),
          .stops = generation.stops,
          .scores = generation.sampling.logprobs >= 0,
          .one_call = one_call};
}

}  // namespace quern
