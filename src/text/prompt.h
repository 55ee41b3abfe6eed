// A prompt's token ids, from messages or from plain text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quern {

struct ChatInput {
  Json messages = Json::array();    // OpenAI's messages
  Json tools = nullptr;             // a list of tools, or null
  Json variables = Json::object();  // more names for the template
  bool add_generation_prompt = true;
  std::optional<int64_t> now = {};  // what strftime_now sees
};

// The template's text, as transformers' apply_chat_template(tokenize=False).
Result<std::string> chat_text(const Tokenizer& tokenizer,
                              const ChatTemplates& templates,
                              const ChatInput& input);

// A text whose special spellings are marked where they are text:
// Tokenizer::encode_marked() takes it.
struct MarkedText {
  std::string text;
  char32_t mark;
};

// The template's text as MarkedText. Only the template writes special tokens:
// what the messages, tools and variables say is text, whatever its spelling.
Result<MarkedText> marked_chat_text(const Tokenizer& tokenizer,
                                    const ChatTemplates& templates,
                                    const ChatInput& input);

// Its ids. Equal to transformers' apply_chat_template for input without special
// spellings.
Result<std::vector<int32_t>> chat_ids(const Tokenizer& tokenizer,
                                      const ChatTemplates& templates,
                                      const ChatInput& input);

// A prompt without template: the text with the ids that the tokenizer puts
// around it, except those that end a text.
Result<std::vector<int32_t>> raw_ids(const Tokenizer& tokenizer,
                                     std::string_view text);

}  // namespace quern
