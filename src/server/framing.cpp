#include "server/framing.h"

#include <fmt/format.h>

#include <boost/beast/http/field.hpp>

#include "api/endpoints.h"
#include "base/str.h"
#include "server/http_text.h"

namespace quern {
namespace {

namespace http = boost::beast::http;

// Of the list of codings, in lower case, of a request without a length.
std::optional<ApiReply> coding_refusal(const std::string& codings) {
  if (codings == "chunked") return {};
  const std::string_view last =
      trimmed(std::string_view(codings).substr(codings.rfind(',') + 1));
  return error_reply(
      last == "chunked" ? 501 : 400,
      fmt::format("Transfer-Encoding: expected chunked and no other, got {}",
                  in_quotes(codings)));
}

}  // namespace

std::optional<ApiReply> framing_refusal(const http::request_header<>& head) {
  const auto count = [&](http::field name) { return head.count(name); };
  const auto value = [&](http::field name) {
    const auto text = head[name];
    return lower(trimmed({text.data(), text.size()}));
  };
  if (count(http::field::host) > 1) {
    return error_reply(400, "Host: expected one, got several");
  }
  if (head.version() >= 11 && count(http::field::host) == 0) {
    return error_reply(400, "Host: expected one, got none");
  }
  const size_t lengths = count(http::field::content_length);
  const bool is_list =
      value(http::field::content_length).find(',') != std::string::npos;
  if (lengths > 1 || is_list) {
    return error_reply(400, "Content-Length: expected one, got several");
  }
  const size_t codings = count(http::field::transfer_encoding);
  if (codings == 0) return {};
  if (codings > 1 || lengths > 0 || head.version() < 11) {
    return error_reply(400,
                       "Transfer-Encoding: expected once, in HTTP/1.1 and "
                       "without a Content-Length");
  }
  return coding_refusal(value(http::field::transfer_encoding));
}

}  // namespace quern
