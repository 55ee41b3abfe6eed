#include "server/own_replies.h"

#include <fmt/format.h>

#include "api/endpoints.h"
#include "base/log.h"
#include "base/str.h"

namespace quern {

ApiReply preflight_reply(std::string_view asked) {
  constexpr const char* kMethods = "GET, HEAD, POST, OPTIONS";
  constexpr size_t kMostAsked = 1024;
  const std::string headers(asked.empty() || asked.size() > kMostAsked ? "*"
                                                                       : asked);
  return {.status = 204,
          .content_type = {},
          .headers = {{"Allow", kMethods},
                      {"Access-Control-Allow-Methods", kMethods},
                      {"Access-Control-Allow-Headers", headers},
                      {"Access-Control-Max-Age", "86400"}}};
}

ApiReply page_reply(const PageFile& file, std::string_view known_etag) {
  ApiReply reply{
      .content_type = std::string(file.content_type),
      .headers = {{"ETag", std::string(file.etag)},
                  {"Cache-Control", "no-cache"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Content-Security-Policy",
                   "default-src 'self'; object-src 'none'; base-uri 'none'; "
                   "form-action 'none'; frame-ancestors 'none'"}}};
  if (known_etag == file.etag) {
    reply.status = 304;
    reply.content_type.clear();
  } else {
    reply.body = file.bytes;
  }
  return reply;
}

ApiReply no_path_reply(std::string_view path) {
  return error_reply(
      404, fmt::format("there is no {} here: GET /v1 lists what there is",
                       in_quotes(path)));
}

ApiReply no_method_reply(std::string_view method, std::string_view path,
                         const std::string& allowed) {
  ApiReply reply = error_reply(
      405, fmt::format("{} is not for {}: expected {}", in_quotes(method),
                       in_quotes(path), allowed));
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

ApiReply no_key_reply() {
  ApiReply reply =
      error_reply(401, "a valid API key is needed, as Authorization: Bearer",
                  "authentication_error", {}, "invalid_api_key");
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

ApiReply wrong_type_reply(std::string_view type) {
  return error_reply(
      415, fmt::format("expected content type application/json, got {}",
                       in_quotes(type)));
}

ApiReply wrong_coding_reply(std::string_view coding) {
  return error_reply(415,
                     fmt::format("expected a body without content encoding, "
                                 "got {}",
                                 in_quotes(coding)));
}

ApiReply wrong_expectation_reply(std::string_view expect) {
  return error_reply(
      417, fmt::format("expected 100-continue, got {}", in_quotes(expect)));
}

ApiReply overload_reply(std::string_view reason) {
  ApiReply reply = error_reply(503, fmt::format("{}: try again later", reason),
                               "server_error");
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

ApiReply shutting_down_reply() {
  ApiReply reply = error_reply(503, "the server is shutting down",
                               "server_error", {}, "shutting_down");
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

ApiReply internal_error_reply(std::string_view id, std::string_view reason) {
  log(LogLevel::error, fmt::format("{} failed: {}", id, reason));
  return error_reply(
      500, fmt::format("internal error; the server's log has it as {}", id),
      "server_error");
}

}  // namespace quern
