// What a model writes, taken apart while it comes: reasoning, content and tool
// calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tools/call_scan.h"
#include "text/tools/tool_syntax.h"

namespace quern {

struct ReplyPiece {
  enum class Kind { reasoning, content, tool_call };
  Kind kind;
  std::string text;  // of reasoning and content; valid UTF-8, never empty
  ToolCall call;     // of tool_call: complete

  bool operator==(const ReplyPiece&) const = default;
};

// How a model marks the parts of its replies. One a model; immutable.
struct ReplyFormat {
  // The tags around reasoning. A tag that is one token of the vocabulary is
  // told by its id, so that its spelling inside the text is text.
  struct Tag {
    std::string text;
    std::optional<int32_t> id;
  };
  std::optional<Tag> think_open, think_close;  // both or none
  const ToolSyntax* tools = nullptr;           // null: the model calls no tools
  // Tags of calls that are special tokens: decoding drops their text.
  std::vector<Tag> special_tags;

  // From what the template and the vocabulary mention.
  static ReplyFormat of(const Tokenizer& tokenizer,
                        const ChatTemplates& templates);
  // Whether a prompt leaves the model inside its reasoning: it ends with the
  // tag that opens it and white space.
  bool opens_reasoning(std::string_view prompt) const;
};

// Follows one reply. The pieces, adjacent ones of a kind joined, are the same
// however the text was cut into tokens.
//
// Reasoning stands between its tags; with no closing tag it goes to the end,
// with no opening one (and a prompt that opens none) the closing tag is text.
// Tags that are spelled, not tokens, open reasoning only at the start of the
// reply, after other reasoning or after a call. What reasoning says of calls is
// reasoning. A call that is not complete, not in the form, or not of a tool in
// the list is content, as it was written.
//
// Line breaks beside a tag or a call are dropped, on both sides: templates
// write them there. All other text is kept, byte by byte. Text is held back
// only while a tag may begin in it, or while it is line breaks before what may
// be a tag, or a call.
class ReplyParser {
 public:
  // `format` outlives the parser. `tools` is the request's list of tools, or
  // null: without it nothing is a call. `raw` leaves reasoning in the content,
  // with its tags and line breaks, and puts the tag in front that the prompt
  // opened it with.
  ReplyParser(const ReplyFormat& format, std::shared_ptr<const Json> tools,
              bool inside_reasoning, bool raw = false);

  // A token and the text that Detokenizer::push() gave for it, which may be
  // empty. Text without a token has the id -1.
  std::vector<ReplyPiece> push(int32_t id, std::string_view text);
  // The end, once. What was held back is text, or a call that lacks no more
  // than its closer.
  std::vector<ReplyPiece> finish();

  bool in_reasoning() const { return reasoning_; }

 private:
  using Pieces = std::vector<ReplyPiece>;
  enum class Mark { none, think_open, think_close, call };
  struct Found {
    size_t at;  // all before is text
    Mark mark;  // what begins there; none: the text ends there
    std::string_view tag;
    const ToolSyntax::Span* span = nullptr;  // of call
  };

  void advance(Pieces& out, bool last);
  bool advance_call(Pieces& out, bool last);
  Found find(std::string_view text, bool last) const;
  void think(Pieces& out, std::string_view tag, bool opens);
  void add_text(Pieces& out, std::string_view text);
  void emit(Pieces& out, std::string text);
  bool holds_breaks() const;
  const ReplyFormat::Tag* tag_of(int32_t id) const;

  const ReplyFormat* format_;
  std::shared_ptr<const Json> tools_;
  bool calls_;  // there may be some
  bool raw_;
  bool reasoning_;
  // Nothing but line breaks came since the start, a tag or a call.
  bool at_edge_ = true;
  bool skip_breaks_;   // line breaks are dropped until text comes
  size_t breaks_ = 0;  // line breaks held back, next after what was emitted
  std::string held_;   // the text that follows them
  size_t used_ = 0;    // bytes of held_ that are done with
  std::optional<CallScan> call_;  // an open call, which begins at used_
  // Bytes of held_ that a call which was none has looked at. No string hides
  // tags there, so that nothing is looked at more than twice.
  size_t seen_ = 0;
};

}  // namespace quern
