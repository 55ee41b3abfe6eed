// Where an open call ends.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/tools/tool_syntax.h"

namespace quern {

// Follows one span of a form while its text grows; looks at each byte once.
class CallScan {
 public:
  // Bytes: a longer span ends there.
  static constexpr size_t kLongest = size_t{4} << 20;

  // `strings`: in a form that is JSON, tags inside strings are text.
  CallScan(const ToolSyntax& syntax, const ToolSyntax::Span& span,
           bool strings);

  // The span's size, its closer included, once the text shows it. `text` is the
  // span so far, more each time; `last`: no more will come.
  std::optional<size_t> end(std::string_view text, bool last);

  // The end of the first closer that stood inside a string. A span that turns
  // out to be no call had a broken string, and ended there.
  std::optional<size_t> closed_in_string() const { return closed_in_string_; }

 private:
  bool begins_opener(std::string_view rest) const;
  bool may_begin_tag(std::string_view rest) const;
  void follow_string(char c);

  const ToolSyntax* syntax_;
  std::string_view closer_;
  size_t at_;
  bool begun_ = false;  // more than white space came after the opener
  bool strings_;
  bool in_string_ = false, escaped_ = false;
  std::optional<size_t> closed_in_string_;
};

}  // namespace quern
