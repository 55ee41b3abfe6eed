// What a dialect of the API is made of. The answer in one piece is the fold of
// the chunks of the stream.
#pragma once

#include <string>
#include <vector>

#include "api/event.h"
#include "base/json.h"

namespace quern {

// Events in, chunks out. One a answer: it owns the roles, ends and usage.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual std::vector<Json> write(int choice, const Event& event) = 0;
  // After the end of all choices.
  virtual std::vector<Json> close() = 0;
};

// Chunks in, one answer out.
class Fold {
 public:
  virtual ~Fold() = default;
  virtual void add(const Json& chunk) = 0;
  virtual Json whole() = 0;
};

// What all chunks of an answer begin with.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;

  // With a fresh id, "<prefix><random>", and the clock's time.
  static AnswerHead fresh(std::string_view prefix, std::string model);
  // {id, object, created, model}
  Json json(std::string_view object) const;
};

// Token counts of an answer, as OpenAI reports them. A prompt of several
// choices counts once.
class Usage {
 public:
  void add(const Ended& ended, bool with_prompt);
  Json json() const;

 private:
  int prompt_ = 0, cached_ = 0, completion_ = 0, reasoning_ = 0;
};

// "stop", "length", or "tool_calls" after `calls` complete ones.
std::string_view finish_reason(const Ended& ended, int calls = 0);

// One server-sent event.
std::string sse_data(const Json& json);

int count_characters(std::string_view utf8);

// The characters of a token, with U+FFFD for what is none.
std::string token_text(std::string_view bytes);

}  // namespace quern
