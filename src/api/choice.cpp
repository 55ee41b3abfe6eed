#include "api/choice.h"

#include <iterator>
#include <limits>
#include <utility>

namespace quern {
namespace {

constexpr int32_t kNoToken = -1;

}  // namespace

Choice::Choice(const Tokenizer& tokenizer, ChoiceOptions options,
               std::shared_ptr<Mailbox> mailbox, int index)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      mailbox_(std::move(mailbox)),
      index_(index),
      detokenizer_(tokenizer),
      stops_(options_.stops) {
  if (options_.prompt_scores) prompt_scores_.emplace();
}

void Choice::on_progress(int fed, int total) {
  mailbox_->set_progress(index_, {fed, total});
}

void Choice::on_prompt_logprobs(std::vector<PromptLogprobs> scores) {
  if (!prompt_scores_) return;
  auto& all = prompt_scores_->scores;
  std::move(scores.begin(), scores.end(), std::back_inserter(all));
}

bool Choice::on_token(const Sampled& token) {
  tell_prompt_scores();
  const std::string text = detokenizer_.push(token.token);
  ++tokens_;
  logprob_ += token.logprob;
  if (options_.scores && !tokenizer_.is_special(token.token)) {
    trail_.push(token, text);
  }
  if (options_.parser) {
    take(options_.parser->push(token.token, text));
    reasoning_tokens_ += options_.parser->in_reasoning();
  } else {
    add_content(text);
  }
  send();
  return !over_;
}

// The end comes in any case: somebody waits for it.
void Choice::on_end(const Ending& ending) {
  Ended ended{.ending = ending};
  try {
    tell_prompt_scores();
    finish_text();
  } catch (const std::exception& e) {
    if (ended.ending.finish != Finish::failed) ended.ending.reason = e.what();
    ended.ending.finish = Finish::failed;
  }
  if (stops_.stopped()) {
    ended.stop = stops_.matched();
    if (ending.finish == Finish::length) ended.ending.finish = Finish::stop;
  }
  ended.reasoning_tokens = reasoning_tokens_;
  ended.mean_logprob = tokens_ > 0 ? logprob_ / tokens_
                                   : -std::numeric_limits<double>::infinity();
  events_.push_back(std::move(ended));
  send();
}

void Choice::tell_prompt_scores() {
  if (!prompt_scores_) return;
  events_.push_back(*std::exchange(prompt_scores_, std::nullopt));
}

void Choice::finish_text() {
  const std::string tail = detokenizer_.finish();
  trail_.push_text(tail);
  if (options_.parser) {
    take(options_.parser->push(kNoToken, tail));
    take(options_.parser->finish());
  } else {
    add_content(tail);
  }
  add_held_text();
}

void Choice::take(std::vector<ReplyPiece> pieces) {
  for (ReplyPiece& piece : pieces) {
    if (over_) return;
    switch (piece.kind) {
      case ReplyPiece::Kind::reasoning:
        add_held_text();
        if (!over_) add_text(true, std::move(piece.text));
        break;
      case ReplyPiece::Kind::content: add_content(std::move(piece.text)); break;
      case ReplyPiece::Kind::tool_call:
        add_held_text();
        if (over_) return;
        trail_.drop_call();
        events_.push_back(std::move(piece.call));
        over_ = options_.one_call;
        break;
    }
  }
}

void Choice::add_content(std::string text) {
  if (over_) return;
  add_text(false, stops_.push(text));
  over_ = stops_.stopped();
}

// What may have become a stop does not, where the text is interrupted.
void Choice::add_held_text() {
  if (over_) return;
  add_text(false, stops_.finish());
  over_ = stops_.stopped();
}

void Choice::add_text(bool reasoning, std::string text) {
  if (text.empty()) return;
  TextDelta delta{.reasoning = reasoning, .text = std::move(text)};
  if (options_.scores) delta.tokens = trail_.take(delta.text);
  if (reasoning) delta.tokens.clear();
  events_.push_back(std::move(delta));
}

void Choice::send() { mailbox_->put(index_, std::exchange(events_, {})); }

}  // namespace quern
