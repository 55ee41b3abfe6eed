#include "text/tools/json_slices.h"

#include <algorithm>

#include "base/json.h"

namespace quern {
namespace {

// One past the string that begins at `at`.
size_t end_of_string(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// One past the value that begins at `at`.
size_t end_of_value(std::string_view json, size_t at) {
  int depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = end_of_string(json, at);
    } else if (c == '{' || c == '[') {
      ++depth, ++at;
    } else if (c == '}' || c == ']') {
      --depth, ++at;
    } else if (depth > 0) {
      ++at;
    } else {  // a number, true, false or null
      return std::min(json.find_first_of(" \t\r\n,]}", at), json.size());
    }
    if (depth == 0) break;
  }
  return at;
}

// The keys and values between the brackets, in the order of the text.
std::vector<std::string_view> parts(std::string_view json) {
  std::vector<std::string_view> out;
  for (size_t at = json.find_first_of("{[") + 1;;) {
    at = json.find_first_not_of(" \t\r\n,:", at);
    if (at == json.npos || json[at] == '}' || json[at] == ']') return out;
    const size_t end = end_of_value(json, at);
    out.push_back(json.substr(at, end - at));
    at = end;
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string_view>> json_members(
    std::string_view object) {
  const auto all = parts(object);
  std::vector<std::pair<std::string, std::string_view>> out;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    out.emplace_back(Json::parse(all[i]).get<std::string>(), all[i + 1]);
  }
  return out;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  return parts(array);
}

}  // namespace quern
