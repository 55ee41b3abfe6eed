// Faults of a request: thrown where they are found, made a reply in one place.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "api/exchange.h"
#include "base/json.h"

namespace quern {

// What is said of a fault beside its message, in the words of OpenAI's API.
struct ErrorKind {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field at fault, "messages[0].content"
  std::string code = {};
  int retry_after_s = 0;  // 0: not said
};

class ApiError : public Error {
 public:
  explicit ApiError(const std::string& message, ErrorKind kind = {})
      : Error(message), kind_(std::move(kind)) {}

  const ErrorKind& kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// The field `param` is at fault.
template <class... Args>
[[noreturn]] void refuse(std::string param, fmt::format_string<Args...> text,
                         Args&&... args) {
  throw ApiError(fmt::format(text, std::forward<Args>(args)...),
                 {.param = std::move(param)});
}

// Why the engine did not take a request, or how it failed later.
ApiError error_of(const Refusal& refusal);
ApiError error_of(const Ending& ending);

// A prompt of so many tokens ("at least 5") has no room in the context.
ApiError context_exceeded(std::string_view tokens, int64_t context);

// {"error": {message, type, param, code}}
Json error_json(std::string_view message, const ErrorKind& kind);

// A fault as a whole reply.
ApiReply reply_of(const ApiError& error);

// Runs an endpoint; what it throws becomes its reply.
ApiOutcome answer_or_error(const std::function<ApiOutcome()>& endpoint);

// The text of a reply: always valid UTF-8, with U+FFFD for what is not.
std::string json_text(const Json& json);

ApiReply json_reply(const Json& json);

}  // namespace quern
