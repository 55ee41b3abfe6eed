// Which tokens a piece of the answer is made of.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "api/event.h"

namespace quern {

// Tokens wait here until their text comes out of the parsers, which hold text
// back and leave out tags and calls.
class TokenTrail {
 public:
  // A token and the text that it completed.
  void push(const Sampled& token, std::string_view text);
  // Text that came without a token: the end of a character cut off.
  void push_text(std::string_view text);

  // The tokens of `piece`, the next text that came out: those that have a part
  // of it, or none but stand before it. Those of text left out before it are
  // dropped.
  std::vector<TokenScore> take(std::string_view piece);
  // Forgets what came before the last token: it was a tool call.
  void drop_call();

 private:
  struct Waiting {
    Sampled sampled;
    size_t begin;  // of its text, in text_
    int offset;
  };

  std::deque<Waiting> tokens_;
  std::string text_;    // of what did not come out yet
  int characters_ = 0;  // of all text so far
};

}  // namespace quern
