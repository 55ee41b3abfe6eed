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
  const size_t at = text_.find(piece);
  const size_t end = at == text_.npos ? text_.size() : at + piece.size();
  std::vector<TokenScore> taken;
  while (!tokens_.empty() && tokens_.front().begin < end) {
    taken.push_back(
        {std::move(tokens_.front().sampled), tokens_.front().offset});
    tokens_.pop_front();
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
