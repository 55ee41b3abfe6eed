// OpenAI's legacy completions: text_completion, streamed and in one piece.
#pragma once

#include "api/completion_request.h"
#include "api/writer.h"

namespace quern {

class CompletionWriter final : public Writer {
 public:
  CompletionWriter(AnswerHead head, const Tokenizer& tokenizer,
                   CompletionRequest request);

  std::vector<Json> write(int choice, const Event& event) override;

 private:
  struct State {
    bool begun = false;   // the echo is out
    bool scored = false;  // so are logprobs
    int echoed = 0;       // characters of the prompt in the text
  };
  // A prompt that is scored: its choices wait for that.
  struct Scoring {
    bool done = false;
    Json logprobs;
    std::vector<std::pair<int, Event>> waiting;  // with their choices
  };

  void write_one(int choice, const Event& event, std::vector<Json>& out);
  Json text_chunk(int choice, std::string_view text, Json logprobs) const;
  const Prompt& prompt_of(int choice) const {
    return request_.prompts[choice / request_.best_of];
  }
  Json echo(int choice);
  Json prompt_logprobs(const Prompt& prompt, const PromptScores& scores) const;
  Json text(int choice, const TextDelta& delta);
  Json end(int choice, const Ended& ended);
  Json logprobs_of(int choice, const std::vector<TokenScore>& tokens);
  bool compares() const {
    return request_.best_of > request_.generation.choices;
  }

  Tokenizer tokenizer_;
  CompletionRequest request_;
  std::vector<State> choices_;
  std::vector<Scoring> scorings_;  // of the prompts
};

class CompletionFold final : public Fold {
 public:
  // Of each `best_of` choices in order the `kept` best remain.
  CompletionFold(int best_of, int kept);

  Json whole() override;

 private:
  Json empty_choice(size_t index) const override;
  bool merge(Json& choice, const std::string& name,
             const Json& value) override;

  const int best_of_, kept_;
};

}  // namespace quern
