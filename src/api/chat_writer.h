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

 private:
  struct State {
    bool begun = false;   // the role is out
    bool scored = false;  // so are logprobs
    int calls = 0;
  };

  Json delta(int choice, Json delta) const;
  void write_text(int choice, const TextDelta& text, std::vector<Json>& out);
  void write_call(int choice, const ToolCall& call, std::vector<Json>& out);
  void write_end(int choice, const Ended& ended, std::vector<Json>& out);
  Json logprobs_of(const std::vector<TokenScore>& tokens) const;
  Json token_json(int32_t id, float logprob) const;

  Tokenizer tokenizer_;
  ChatWriterOptions options_;
  std::vector<State> choices_;
};

class ChatFold final : public Fold {
 public:
  ChatFold() : Fold("chat.completion") {}

  Json whole() override;

 private:
  Json empty_choice(size_t index) const override;
  bool merge(Json& choice, const std::string& name,
             const Json& value) override;
};

}  // namespace quern
