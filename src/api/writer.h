// What a dialect of the API is made of. The answer in one piece is the fold of
// the chunks of the stream.
#pragma once

#include <string>
#include <vector>

#include "api/event.h"
#include "base/json.h"

namespace quern {

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

// Events in, chunks out. One an answer: it owns the roles, ends and usage.
class Writer {
 public:
  // With usage, a last chunk has it, and those before have the field as null.
  Writer(AnswerHead head, std::string_view object, bool include_usage);
  virtual ~Writer() = default;

  virtual std::vector<Json> write(int choice, const Event& event) = 0;
  // After the end of all choices.
  std::vector<Json> close() const;

 protected:
  Json chunk(Json choices) const;

  const AnswerHead head_;
  Usage usage_;

 private:
  const std::string object_;
  const bool include_usage_;
};

// Chunks in, one answer out.
class Fold {
 public:
  explicit Fold(std::string_view object) : object_(object) {}
  virtual ~Fold() = default;

  void add(const Json& chunk);
  virtual Json whole() = 0;

 protected:
  // A choice that nothing has been added to.
  virtual Json empty_choice(size_t index) const = 0;
  // Adds a field of a part to the choice; false: its value, if any, replaces
  // the choice's.
  virtual bool merge(Json& choice, const std::string& name,
                     const Json& value) = 0;

  Json whole_;

 private:
  const std::string object_;  // of the whole
};

// "stop", "length", or "tool_calls" after `calls` complete ones.
std::string_view finish_reason(const Ended& ended, int calls = 0);

// One server-sent event.
std::string sse_data(const Json& json);

int count_characters(std::string_view utf8);

// The characters of a token, with U+FFFD for what is none.
std::string token_text(std::string_view bytes);

}  // namespace quern
