#include "text/tools/call_scan.h"

#include <algorithm>

namespace quern {
namespace {

// Control characters: JSON has none inside strings.
bool breaks_string(char c) { return static_cast<unsigned char>(c) < 0x20; }

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// At most `at`, where a character begins.
size_t whole_characters(std::string_view text, size_t at) {
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

CallScan::CallScan(const ToolSyntax& syntax, const ToolSyntax::Span& span,
                   bool strings)
    : syntax_(&syntax),
      closer_(span.closer),
      at_(span.opener.size()),
      strings_(strings && syntax.json) {}

std::optional<size_t> CallScan::end(std::string_view text, bool last) {
  for (; at_ < text.size(); ++at_) {
    if (at_ == kLongest) return whole_characters(text, at_);
    const std::string_view rest = text.substr(at_);
    const char c = rest[0];
    if (!last && may_begin_tag(rest)) return std::nullopt;
    if (!closer_.empty() && rest.starts_with(closer_)) {
      const size_t closed = at_ + closer_.size();
      if (!in_string_) return closed;
      if (!closed_in_string_) closed_in_string_ = closed;
    } else if (!in_string_ && begins_opener(rest)) {
      return at_;
    }
    if (syntax_->json && !begun_ && !is_space(c)) {
      if (c != '{' && c != '[') return at_;
      begun_ = true;
    }
    if (strings_) follow_string(c);
    if (in_string_ && breaks_string(c)) {
      if (closed_in_string_) return at_;
      strings_ = in_string_ = false;
    }
  }
  return last ? std::optional(text.size()) : std::nullopt;
}

bool CallScan::begins_opener(std::string_view rest) const {
  return std::ranges::any_of(syntax_->spans, [&](const auto& span) {
    return rest.starts_with(span.opener);
  });
}

bool CallScan::may_begin_tag(std::string_view rest) const {
  const auto begins = [&](std::string_view tag) {
    return rest.size() < tag.size() && tag.starts_with(rest);
  };
  return begins(closer_) ||
         std::ranges::any_of(syntax_->spans, [&](const auto& span) {
           return begins(span.opener);
         });
}

void CallScan::follow_string(char c) {
  if (escaped_) {
    escaped_ = false;
  } else if (c == '"') {
    in_string_ = !in_string_;
  } else {
    escaped_ = in_string_ && c == '\\';
  }
}

}  // namespace quern
