#include "text/reply_parser.h"

#include <algorithm>
#include <utility>

namespace quern {

ReplyParser::ReplyParser(const ReplyFormat& format,
                         std::shared_ptr<const Json> tools,
                         bool inside_reasoning, bool raw)
    : format_(&format),
      tools_(std::move(tools)),
      calls_(format.tools && tools_ && !tools_->empty()),
      raw_(raw),
      reasoning_(inside_reasoning && format.think_open),
      skip_breaks_(reasoning_ && !raw) {
  if (raw_ && reasoning_) held_ = format.think_open->text;
}

ReplyParser::Pieces ReplyParser::push(int32_t id, std::string_view text) {
  Pieces out;
  const ReplyFormat::Tag* tag = tag_of(id);
  if (tag && text.ends_with(tag->text)) text.remove_suffix(tag->text.size());
  held_ += text;
  advance(out, false);
  if (!tag) return out;
  const bool opens = format_->think_open && tag == &*format_->think_open;
  const bool closes = format_->think_close && tag == &*format_->think_close;
  if (!call_ && (opens ? !reasoning_ || at_edge_ : closes && reasoning_)) {
    advance(out, true);
    think(out, tag->text, opens);
  } else {
    held_ += tag->text;
    advance(out, false);
  }
  return out;
}

ReplyParser::Pieces ReplyParser::finish() {
  Pieces out;
  advance(out, true);
  if (!reasoning_ || raw_) emit(out, std::string(breaks_, '\n'));
  return out;
}

void ReplyParser::advance(Pieces& out, bool last) {
  while (used_ < held_.size()) {
    if (call_) {
      if (!advance_call(out, last)) break;
      continue;
    }
    const auto text = std::string_view(held_).substr(used_);
    const Found found = find(text, last);
    add_text(out, text.substr(0, found.at));
    used_ += found.at;
    if (found.mark == Mark::none) break;
    if (found.mark == Mark::call) {
      call_.emplace(*format_->tools, *found.span, used_ >= seen_);
    } else {
      used_ += found.tag.size();
      think(out, found.tag, found.mark == Mark::think_open);
    }
  }
  held_.erase(0, used_);
  seen_ -= std::min(seen_, used_);
  used_ = 0;
}

bool ReplyParser::advance_call(Pieces& out, bool last) {
  const auto text = std::string_view(held_).substr(used_);
  auto size = call_->end(text, last);
  if (!size) return false;
  const auto calls = format_->tools->parse(text.substr(0, *size), *tools_);
  if (calls) {
    for (const ToolCall& call : *calls) {
      out.push_back({.kind = ReplyPiece::Kind::tool_call, .call = call});
    }
    breaks_ = 0;
    skip_breaks_ = at_edge_ = true;
  } else {
    if (const auto closed = call_->closed_in_string()) {
      seen_ = used_ + *size;
      size = closed;
    }
    add_text(out, text.substr(0, *size));
  }
  call_.reset();
  used_ += *size;
  return true;
}

ReplyParser::Found ReplyParser::find(std::string_view text, bool last) const {
  const size_t edge = at_edge_
                          ? std::min(text.find_first_not_of('\n'), text.size())
                          : text.npos;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    Found found = {.at = at, .mark = Mark::none};
    // Whether the tag is at `at`, or may be.
    const auto match = [&](std::string_view tag, Mark mark) {
      if (rest.starts_with(tag)) {
        found.mark = mark;
        found.tag = tag;
        return true;
      }
      return !last && tag.starts_with(rest);
    };
    const auto spelled = [&](const std::optional<ReplyFormat::Tag>& tag,
                             Mark mark) {
      return tag && !tag->id && match(tag->text, mark);
    };
    if (at == edge && spelled(format_->think_open, Mark::think_open)) {
      return found;
    }
    if (reasoning_) {
      if (spelled(format_->think_close, Mark::think_close)) return found;
    } else if (calls_) {
      for (const auto& span : format_->tools->spans) {
        found.span = &span;
        if (match(span.opener, Mark::call)) return found;
      }
    }
  }
  return {.at = text.size(), .mark = Mark::none};
}

void ReplyParser::think(Pieces& out, std::string_view tag, bool opens) {
  reasoning_ = opens;
  if (raw_) {
    add_text(out, tag);
  } else {
    breaks_ = 0;
    skip_breaks_ = true;
  }
  at_edge_ = true;
}

void ReplyParser::add_text(Pieces& out, std::string_view text) {
  if (skip_breaks_) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  const size_t end = text.find_last_not_of('\n') + 1;
  std::string ready;
  if (end > 0) {
    ready = std::string(std::exchange(breaks_, 0), '\n');
    ready += text.substr(0, end);
    at_edge_ = skip_breaks_ = false;
  }
  breaks_ += text.size() - end;
  if (!holds_breaks()) ready.append(std::exchange(breaks_, 0), '\n');
  emit(out, std::move(ready));
}

void ReplyParser::emit(Pieces& out, std::string text) {
  if (text.empty()) return;
  const auto kind = reasoning_ && !raw_ ? ReplyPiece::Kind::reasoning
                                        : ReplyPiece::Kind::content;
  if (!out.empty() && out.back().kind == kind) {
    out.back().text += text;
  } else {
    out.push_back({.kind = kind, .text = std::move(text)});
  }
}

bool ReplyParser::holds_breaks() const {
  const auto& open = format_->think_open;
  return calls_ || (!raw_ && (reasoning_ || (open && (at_edge_ || open->id))));
}

const ReplyFormat::Tag* ReplyParser::tag_of(int32_t id) const {
  for (const auto* tag : {&format_->think_open, &format_->think_close}) {
    if (*tag && (*tag)->id == id) return &**tag;
  }
  for (const auto& tag : format_->special_tags) {
    if (tag.id == id) return &tag;
  }
  return nullptr;
}

}  // namespace quern
