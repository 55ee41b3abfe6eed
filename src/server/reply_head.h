// The head of a reply: status line and headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

struct ReplyHead {
  int status = 200;
  std::string_view content_type = {};  // empty: no body
  std::optional<size_t> length = {};   // of the body, where it is known
  bool chunked = false;
  bool keep_alive = true;
  std::string_view id = {};           // of the request
  std::string_view cors_origin = {};  // empty: no CORS headers
  std::vector<std::pair<std::string, std::string>> headers = {};  // more
};

// With the empty line that ends it.
std::string head_text(const ReplyHead& head);

}  // namespace quern
