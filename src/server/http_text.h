// The small parts of HTTP's text that need no socket.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quern {

std::string_view trimmed(std::string_view text);  // of spaces and tabs

// A path or a query's value with each %XX as its byte; a '%' that begins no
// such triple stays.
std::string percent_decoded(std::string_view text);

// A request id that may be repeated in headers and logs: 1 to 128 letters,
// digits and ._:/+=-
bool sane_id(std::string_view id);
std::string fresh_id();  // "req_" and 24 hexadecimal digits

// "application/json", with parameters or not, or one of its kinds
// ("application/ld+json").
bool is_json_type(std::string_view content_type);

// The K of "Bearer K"; empty if the value is another.
std::string_view bearer_token(std::string_view authorization);

// Whether `key` is one of `keys`, in a time that tells nothing of them but
// their lengths.
bool is_known_key(std::string_view key, std::span<const std::string> keys);

// One chunk of a chunked body; nothing for no bytes.
std::string chunk(std::string_view bytes);

// The time as headers have it: "Mon, 30 Nov 2026 23:00:00 GMT".
std::string http_date(int64_t seconds);

}  // namespace quern
