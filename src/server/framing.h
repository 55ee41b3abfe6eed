// Where a request ends and whom it is for. What two servers could read in two
// ways is refused.
#pragma once

#include <boost/beast/http/message.hpp>
#include <optional>

#include "api/exchange.h"

namespace quern {

// The refusal of a head whose Host, Content-Length and Transfer-Encoding leave
// a doubt (RFC 9112, 3.2 and 6.3), or nothing.
std::optional<ApiReply> framing_refusal(
    const boost::beast::http::request_header<>& head);

}  // namespace quern
