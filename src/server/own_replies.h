// The replies that the server gives without an endpoint.
#pragma once

#include <string>
#include <string_view>

#include "api/exchange.h"
#include "server/page.h"

namespace quern {

// To OPTIONS; `asked` is Access-Control-Request-Headers.
ApiReply preflight_reply(std::string_view asked);

// A file of the page; 304 if `known_etag` (If-None-Match) is its.
ApiReply page_reply(const PageFile& file, std::string_view known_etag);

ApiReply no_path_reply(std::string_view path);  // 404
ApiReply no_method_reply(std::string_view method, std::string_view path,
                         const std::string& allowed);       // 405
ApiReply no_key_reply();                                    // 401
ApiReply wrong_type_reply(std::string_view type);           // 415
ApiReply wrong_coding_reply(std::string_view coding);       // 415
ApiReply wrong_expectation_reply(std::string_view expect);  // 417
ApiReply overload_reply(std::string_view reason);  // 503, to be retried
ApiReply shutting_down_reply();                             // 503

// 500; the log gets the reason.
ApiReply internal_error_reply(std::string_view id, std::string_view reason);

}  // namespace quern
