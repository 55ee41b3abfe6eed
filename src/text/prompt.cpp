#include "text/prompt.h"

#include <algorithm>

namespace quern {
namespace {

// Noncharacters: code points that Unicode keeps free for such private use.
constexpr char32_t kFirstMark = 0xFDD0, kLastMark = 0xFDEF;

// The UTF-8 of a code point of three bytes.
std::string utf8(char32_t code) {
  return {static_cast<char>(0xE0 | code >> 12),
          static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// The tree with every special spelling in its texts and keys marked.
Result<Json> mark_all(const Tokenizer& tokenizer, const Json& json,
                      char32_t mark) {
  if (json.is_string()) {
    auto text =
        tokenizer.mark_special(json.get_ref<const std::string&>(), mark);
    if (!text) return text.failure();
    return Json(std::move(*text));
  }
  if (!json.is_structured()) return json;
  Json out = json.is_array() ? Json::array() : Json::object();
  for (const auto& [name, item] : json.items()) {
    auto marked = mark_all(tokenizer, item, mark);
    if (!marked) return marked.failure();
    if (json.is_array()) {
      out.push_back(std::move(*marked));
      continue;
    }
    auto key = tokenizer.mark_special(name, mark);
    if (!key) return key.failure();
    append_name(out, std::move(*key), std::move(*marked));
  }
  return out;
}

Result<char32_t> unused_mark(const Json& context) {
  const std::string text =
      context.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (char32_t mark = kFirstMark; mark <= kLastMark; ++mark) {
    if (text.find(utf8(mark)) == std::string::npos) return mark;
  }
  return failure("messages: they hold every noncharacter U+FDD0 to U+FDEF");
}

// Arguments of calls come as JSON text; templates iterate over them or print
// them as JSON, unless they parse the text themselves.
void parse_arguments(Json& message) {
  if (!message.contains("tool_calls")) return;
  for (Json& call : message["tool_calls"]) {
    Json& holder =
        call.is_object() && call.contains("function") ? call["function"] : call;
    if (!holder.is_object() || !holder.contains("arguments")) continue;
    Json& arguments = holder["arguments"];
    if (!arguments.is_string()) continue;
    auto parsed =
        parse_json(arguments.get_ref<const std::string&>(), "arguments");
    if (parsed && parsed->is_object()) arguments = std::move(*parsed);
  }
}

// A message as templates expect it: no nulls (a template would print them),
// reasoning under each name that templates read. Templates of the gpt-oss kind
// refuse content beside reasoning in a message with calls, which is what such a
// model itself wrote: the reasoning is kept.
void adapt_message(Json& message, const ChatTemplate& chat_template) {
  if (!message.is_object()) return;
  for (auto it = message.begin(); it != message.end();) {
    it = it->is_null() ? message.erase(it) : std::next(it);
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name)) continue;
    const Json reasoning = message[name];
    message["reasoning_content"] = reasoning;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    break;
  }
  if (!chat_template.mentions("fromjson")) parse_arguments(message);
  const bool calls =
      message.contains("tool_calls") && !message["tool_calls"].empty();
  if (calls && message.contains("thinking") &&
      chat_template.mentions("Cannot pass both content and thinking")) {
    message.erase("content");
  }
}

Result<Json> context_of(const ChatTemplate& chat_template,
                        const ChatInput& input) {
  if (!input.messages.is_array()) return failure("messages: expected a list");
  Json context = input.variables;
  context["messages"] = input.messages;
  for (Json& message : context["messages"]) {
    if (!message.is_object()) return failure("messages: expected objects");
    adapt_message(message, chat_template);
  }
  context["tools"] = input.tools;
  context["add_generation_prompt"] = input.add_generation_prompt;
  return context;
}

// A template and what it is rendered with, bos and eos apart.
struct Rendering {
  ChatTemplate chat_template;
  Json context;
};

Result<Rendering> rendering_of(const ChatTemplates& templates,
                               const ChatInput& input) {
  const bool has_tools = input.tools.is_array() && !input.tools.empty();
  auto chat_template = templates.select(has_tools);
  if (!chat_template) return chat_template.failure();
  auto context = context_of(*chat_template, input);
  if (!context) return context.failure();
  return Rendering{std::move(*chat_template), std::move(*context)};
}

// bos and eos, as the template itself may write them.
void add_special_names(const Tokenizer& tokenizer, Json& context) {
  if (tokenizer.bos_id()) context["bos_token"] = tokenizer.bos_token();
  if (tokenizer.eos_id()) context["eos_token"] = tokenizer.eos_token();
}

}  // namespace

Result<std::string> chat_text(const Tokenizer& tokenizer,
                              const ChatTemplates& templates,
                              const ChatInput& input) {
  auto rendering = rendering_of(templates, input);
  if (!rendering) return rendering.failure();
  auto& [chat_template, context] = *rendering;
  add_special_names(tokenizer, context);
  return chat_template.render(context, {.now = input.now});
}

Result<MarkedText> marked_chat_text(const Tokenizer& tokenizer,
                                    const ChatTemplates& templates,
                                    const ChatInput& input) {
  const auto rendering = rendering_of(templates, input);
  if (!rendering) return rendering.failure();
  const auto& [chat_template, context] = *rendering;
  auto mark = unused_mark(context);
  if (!mark) return mark.failure();
  auto marked = mark_all(tokenizer, context, *mark);
  if (!marked) return marked.failure();
  add_special_names(tokenizer, *marked);
  auto text = chat_template.render(*marked, {.now = input.now, .mark = *mark});
  if (!text) return text.failure();
  return MarkedText{std::move(*text), *mark};
}

Result<std::vector<int32_t>> chat_ids(const Tokenizer& tokenizer,
                                      const ChatTemplates& templates,
                                      const ChatInput& input) {
  const auto marked = marked_chat_text(tokenizer, templates, input);
  if (!marked) return marked.failure();
  return tokenizer.encode_marked(marked->text, marked->mark);
}

Result<std::vector<int32_t>> raw_ids(const Tokenizer& tokenizer,
                                     std::string_view text) {
  auto ids =
      tokenizer.encode(text, {.add_special = false, .parse_special = true});
  if (!ids) return ids.failure();
  const auto prefix = tokenizer.prefix_ids();
  const bool there = ids->size() >= prefix.size() &&
                     std::equal(prefix.begin(), prefix.end(), ids->begin());
  if (!there) ids->insert(ids->begin(), prefix.begin(), prefix.end());
  return ids;
}

}  // namespace quern
