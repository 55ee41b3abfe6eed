// Token ids to text, one at a time, in whole characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace quern {

// Turns bytes that come in pieces into UTF-8. Each maximal part that can begin
// no character becomes one U+FFFD (Unicode 3.9, "maximal subpart").
class Utf8Stream {
 public:
  // The characters that are complete by now; an unfinished tail is held back.
  std::string push(std::string_view bytes);
  // The end of the stream: an unfinished tail becomes one U+FFFD.
  std::string finish();

 private:
  std::string tail_;  // at most 3 bytes
};

// One stream of tokens. The concatenated deltas and finish() are the text of
// the tokens, whatever their split.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text that this token completes; valid UTF-8, often empty.
  std::string push(int32_t id);
  std::string finish() { return utf8_.finish(); }

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  bool at_start_ = true;  // the next space may be one that encoding prepended
  Utf8Stream utf8_;
};

}  // namespace quern
