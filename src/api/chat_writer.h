// OpenAI's chat answers: chat.completion.chunk and chat.completion.
#pragma once

#include <memory>

#include "api/service.h"
#include "api/writer.h"

namespace quern {

struct ChatWriterOptions {
  int choices = 1;
  bool include_usage = false;
  bool logprobs = false;
  ReasoningField reasoning_field = ReasoningField::both;
};

class ChatWriter final : public Writer {
 public:
  ChatWriter(AnswerHead head, const Tokenizer& tokenizer,
             ChatWriterOptions options);

  std::vector<Json> write(int choice, const Event& event) override;
  std::vector<Json> close() override;

 private:
  struct State {
    bool begun = false;   // the role is out
    bool scored = false;  // so are logprobs
    int calls = 0;
  };

  Json chunk(Json choices) const;
  Json delta(int choice, Json delta) const;
  void write_text(int choice, const TextDelta& text, std::vector<Json>& out);
  void write_call(int choice, const ToolCall& call, std::vector<Json>& out);
  void write_end(int choice, const Ended& ended, std::vector<Json>& out);
  Json logprobs_of(const std::vector<TokenScore>& tokens) const;
  Json token_json(int32_t id, float logprob) const;

  AnswerHead head_;
  Tokenizer tokenizer_;
  ChatWriterOptions options_;
  std::vector<State> choices_;
  Usage usage_;
};

class ChatFold final : public Fold {
 public:
  void add(const Json& chunk) override;
  Json whole() override;

 private:
  Json& choice(size_t index);

  Json whole_;
};

}  // namespace quern
