#include "api/token_trail.h"

#include "api/writer.h"

namespace quern {
void TokenTrail::push(const Sampled& token, std::string_view text) {
  tokens_.push_back({token, text_.size(), characters_});
  push_text(text);
}

void TokenTrail::push_text(std::string_view text) {
  text_ += text;
  characters_ += count_characters(text);
}

std::vector<TokenScore> TokenTrail::take(std::string_view piece) {
  const size_t found = text_.find(piece);
  const size_t begin = found == text_.npos ? 0 : found;
  const size_t end = found == text_.npos ? text_.size() : found + piece.size();
  std::vector<TokenScore> taken;
  while (!tokens_.empty() && tokens_.front().begin < end) {
    Waiting token = std::move(tokens_.front());
    tokens_.pop_front();
    const size_t next = tokens_.empty() ? text_.size() : tokens_.front().begin;
    const bool left_out = token.begin < begin && next <= begin;
    if (!left_out) taken.push_back({std::move(token.sampled), token.offset});
  }
  text_.erase(0, end);
  for (Waiting& waiting : tokens_) waiting.begin -= end;
  return taken;
}

void TokenTrail::drop_call() {
  if (tokens_.empty()) return;
  const size_t begin = tokens_.back().begin;
  tokens_.erase(tokens_.begin(), tokens_.end() - 1);
  tokens_.back().begin = 0;
  text_.erase(0, begin);
}

}  // namespace quern
