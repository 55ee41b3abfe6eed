#include "server/reply_head.h"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>
#include <ctime>

#include "server/http_text.h"

namespace quern {

std::string head_text(const ReplyHead& head) {
  const std::string_view reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(unsigned(head.status)));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason);
  const auto add = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{}: {}\r\n", name, value);
  };
  add("Server", "quern");
  add("Date", http_date(std::time(nullptr)));
  if (!head.content_type.empty()) add("Content-Type", head.content_type);
  if (head.length) add("Content-Length", std::to_string(*head.length));
  if (head.chunked) add("Transfer-Encoding", "chunked");
  add("Connection", head.keep_alive ? "keep-alive" : "close");
  if (!head.id.empty()) {
    add("request-id", head.id);
    add("x-request-id", head.id);
  }
  if (!head.cors_origin.empty()) {
    add("Access-Control-Allow-Origin", head.cors_origin);
    add("Access-Control-Expose-Headers",
        "request-id, x-request-id, retry-after");
    if (head.cors_origin != "*") add("Vary", "Origin");
  }
  add("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : head.headers) add(name, value);
  out += "\r\n";
  return out;
}

}  // namespace quern
