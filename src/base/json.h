// JSON with key order kept; parsing never throws.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quern {

using Json = nlohmann::ordered_json;

// Parses UTF-8 text in linear time; trees deeper than 256 are refused. `where`
// names the source in the reason ("config.json").
Result<Json> parse_json(std::string_view text, std::string_view where);

// Adds a name that the object does not have yet, without looking for it: an
// object of many names is made in linear time.
Json& append_name(Json& object, std::string name, Json value);

// The value as one short line of ASCII, for messages.
std::string brief(const Json& value);

}  // namespace quern
