#include "api/error.h"

#include <algorithm>

#include "api/endpoints.h"

namespace quern {
namespace {

Json or_null(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

ApiReply reply_of(std::string_view message, const ErrorKind& kind) {
  ApiReply reply = json_reply(error_json(message, kind));
  reply.status = kind.status;
  if (kind.retry_after_s > 0) {
    reply.headers.emplace_back("retry-after",
                               std::to_string(kind.retry_after_s));
  }
  return reply;
}

ErrorKind internal_error() {
  return {.status = 500, .type = "server_error", .code = "internal_error"};
}

ErrorKind shutting_down() {
  return {.status = 503,
          .type = "server_error",
          .code = "shutting_down",
          .retry_after_s = 5};
}

}  // namespace

ApiError error_of(const Refusal& r) {
  using enum Refusal::Kind;
  switch (r.kind) {
    case too_long: return context_exceeded(std::to_string(r.asked), r.most);
    case over_budget:
      return ApiError(
          fmt::format("the prompt has {} tokens, but the memory of the server "
                      "holds a context of at most {} tokens",
                      r.asked, r.most),
          {.type = "memory_admission", .code = "context_over_budget"});
    case too_many: return ApiError(r.reason, {.param = "n"});
    case busy:
      return ApiError(r.reason,
                      {.status = 429,
                       .type = "rate_limit_error",
                       .code = "rate_limit_exceeded",
                       .retry_after_s = std::max(r.retry_after_s, 1)});
    case draining: return ApiError(r.reason, shutting_down());
    case invalid: break;
  }
  return ApiError(r.reason);
}

ApiError error_of(const Ending& ending) {
  if (ending.finish == Finish::cancelled) {
    return ApiError("the server is shutting down", shutting_down());
  }
  return ApiError(ending.reason, internal_error());
}

ApiError context_exceeded(std::string_view tokens, int64_t context) {
  return ApiError(
      fmt::format("the prompt has {} tokens, but the model's maximum context "
                  "length is {} tokens",
                  tokens, context),
      {.code = "context_length_exceeded"});
}

Json error_json(std::string_view message, const ErrorKind& kind) {
  return {{"error",
           {{"message", message},
            {"type", kind.type},
            {"param", or_null(kind.param)},
            {"code", or_null(kind.code)}}}};
}

ApiReply error_reply(int status, std::string_view message,
                     std::string_view type, std::string_view param,
                     std::string_view code) {
  return reply_of(message, {.status = status,
                            .type = std::string(type),
                            .param = std::string(param),
                            .code = std::string(code)});
}

ApiReply reply_of(const ApiError& error) {
  return reply_of(error.what(), error.kind());
}

ApiOutcome answer_or_error(const std::function<ApiOutcome()>& endpoint) {
  try {
    return endpoint();
  } catch (const ApiError& e) {
    return reply_of(e);
  } catch (const std::exception& e) {
    return reply_of(e.what(), internal_error());
  }
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ApiReply json_reply(const Json& json) { return {.body = json_text(json)}; }

}  // namespace quern
