// What a model writes, taken apart while it comes: reasoning, content and tool
// calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tools/tool_syntax.h"

namespace quern {

struct ReplyPiece {
  enum class Kind { reasoning, content, tool_call };
  Kind kind;
  std::string text;  // of reasoning and content; valid UTF-8, never empty
  ToolCall call;     // of tool_call: complete
};

// How a model marks the parts of its replies. One a model; immutable.
struct ReplyFormat {
  // The tags around reasoning. A tag that is one token of the vocabulary is
  // told by its id, so that its spelling inside the text is text.
  struct Tag {
    std::string text;
    std::optional<int32_t> id;
  };
  std::optional<Tag> think_open, think_close;
  const ToolSyntax* tools = nullptr;  // null: the model calls no tools

  // From what the template and the vocabulary mention.
  static ReplyFormat of(const Tokenizer& tokenizer,
                        const ChatTemplates& templates);
  // Whether a prompt leaves the model inside its reasoning: its last tag opens
  // and nothing but white space follows.
  bool opens_reasoning(std::string_view prompt) const;
};

// Follows one reply. Concatenated, the pieces of a kind are the same however
// the text was cut into tokens.
class ReplyParser {
 public:
  // `tools` is the request's list of tools, or null: without it nothing is a
  // call. `raw` passes everything on as content, tags included.
  ReplyParser(const ReplyFormat& format, const Json& tools,
              bool inside_reasoning, bool raw = false);

  // A token and the text that it completed (which may be empty; tags that are
  // special tokens have none).
  std::vector<ReplyPiece> push(int32_t id, std::string_view text);
  // The end: what was held back is content, also a call that is not complete.
  std::vector<ReplyPiece> finish();

  bool in_reasoning() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace quern
