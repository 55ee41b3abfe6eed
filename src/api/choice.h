// One choice of an answer: its tokens become events, on the engine's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/mailbox.h"
#include "api/token_trail.h"
#include "text/detokenizer.h"
#include "text/reply_parser.h"
#include "text/stops.h"

namespace quern {

struct ChoiceOptions {
  std::optional<ReplyParser> parser = {};  // none: all is content
  std::vector<std::string> stops = {};     // of the content
  bool scores = false;                     // deltas carry their tokens
  bool prompt_scores = false;              // the prompt's come first
  bool one_call = false;                   // ends after the first tool call
};

class Choice final : public Listener {
 public:
  Choice(const Tokenizer& tokenizer, ChoiceOptions options,
         std::shared_ptr<Mailbox> mailbox, int index);

  void on_progress(int fed, int total) override;
  void on_prompt_logprobs(std::vector<PromptLogprobs> scores) override;
  bool on_token(const Sampled& token) override;
  void on_end(const Ending& ending) override;

 private:
  void tell_prompt_scores();
  void finish_text();
  void take(std::vector<ReplyPiece> pieces);
  void add_content(std::string text);
  void add_text(bool reasoning, std::string text);
  void add_held_text();
  void send();

  const Tokenizer tokenizer_;
  ChoiceOptions options_;
  const std::shared_ptr<Mailbox> mailbox_;
  const int index_;

  Detokenizer detokenizer_;
  StopMatcher stops_;
  TokenTrail trail_;
  std::optional<PromptScores> prompt_scores_;  // not yet told
  std::vector<Event> events_;                  // to be sent
  bool over_ = false;                          // nothing more is shown
  int tokens_ = 0, reasoning_tokens_ = 0;
  double logprob_ = 0;  // of all tokens
};

}  // namespace quern
