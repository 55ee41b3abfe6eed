#include <algorithm>
#include <array>

#include "text/reply_parser.h"

namespace quern {
namespace {

struct TagPair {
  std::string_view open, close;
};

constexpr TagPair kThinkTags[] = {
    {"<think>", "</think>"},  // DeepSeek R1, Qwen 3 and most others
    {"[THINK]", "[/THINK]"},  // Magistral
    {"<seed:think>", "</seed:think>"},
};

bool mention(const ChatTemplates& templates, std::string_view word) {
  return std::ranges::any_of(std::array{false, true}, [&](bool with_tools) {
    const auto found = templates.select(with_tools);
    return found && found->mentions(word);
  });
}

// The id that stands for a tag wherever a text spells it.
std::optional<int32_t> id_of_tag(const Tokenizer& tokenizer,
                                 std::string_view tag) {
  const auto id = tokenizer.id_of(tag);
  if (!id) return std::nullopt;
  const auto ids = tokenizer.encode(
      fmt::format("a{}b", tag), {.add_special = false, .parse_special = true});
  if (!ids || std::ranges::count(*ids, *id) == 0) return std::nullopt;
  return id;
}

const ToolSyntax* syntax_of(const ChatTemplates& templates) {
  for (const ToolSyntax& syntax : tool_syntaxes()) {
    const bool all = std::ranges::all_of(
        syntax.template_marks,
        [&](std::string_view mark) { return mention(templates, mark); });
    if (all) return &syntax;
  }
  return nullptr;
}

}  // namespace

ReplyFormat ReplyFormat::of(const Tokenizer& tokenizer,
                            const ChatTemplates& templates) {
  ReplyFormat format;
  for (const auto& [open, close] : kThinkTags) {
    const auto open_id = id_of_tag(tokenizer, open);
    const auto close_id = id_of_tag(tokenizer, close);
    if ((open_id && close_id) || mention(templates, open) ||
        mention(templates, close)) {
      format.think_open = Tag{std::string(open), open_id};
      format.think_close = Tag{std::string(close), close_id};
      break;
    }
  }
  format.tools = syntax_of(templates);
  if (!format.tools) return format;
  for (const auto& span : format.tools->spans) {
    for (const std::string_view tag : {span.opener, span.closer}) {
      const auto id = tokenizer.id_of(tag);
      if (id && tokenizer.is_special(*id)) {
        format.special_tags.push_back({std::string(tag), id});
      }
    }
  }
  return format;
}

bool ReplyFormat::opens_reasoning(std::string_view prompt) const {
  if (!think_open) return false;
  const size_t end = prompt.find_last_not_of(" \t\r\n") + 1;
  return prompt.substr(0, end).ends_with(think_open->text);
}

}  // namespace quern
