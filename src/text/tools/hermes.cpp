#include "text/tools/families.h"
#include "text/tools/json_slices.h"

namespace quern {
namespace {

constexpr std::string_view kOpener = "<tool_call>";
constexpr std::string_view kCloser = "</tool_call>";
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

bool is_json(std::string_view text) { return parse_json(text, kOpener).ok(); }

// The object that a value holds: itself, one that is written into a string, or
// none given.
std::optional<std::string> arguments_of(std::string_view value) {
  if (value.empty() || value == "null") return "{}";
  if (value[0] == '{') return std::string(value);
  if (value[0] != '"') return std::nullopt;
  const auto inner = Json::parse(value).get<std::string>();
  const std::string_view object = trimmed(inner);
  if (object.empty()) return "{}";
  if (object[0] != '{' || !is_json(object)) return std::nullopt;
  return std::string(object);
}

std::optional<ToolCall> call_of(std::string_view object, const Json& tools) {
  if (object[0] != '{') return std::nullopt;
  std::string_view name, arguments, parameters;
  for (const auto& [key, value] : json_members(object)) {
    if (key == "name") name = value;
    if (key == "arguments") arguments = value;
    if (key == "parameters") parameters = value;
  }
  if (name.empty() || name[0] != '"') return std::nullopt;
  ToolCall call = {.name = Json::parse(name).get<std::string>()};
  auto given = arguments_of(arguments.empty() ? parameters : arguments);
  if (!given || !declares(tools, call.name)) return std::nullopt;
  call.arguments = std::move(*given);
  return call;
}

std::optional<std::vector<ToolCall>> parse(std::string_view span,
                                           const Json& tools) {
  span.remove_prefix(kOpener.size());
  if (span.ends_with(kCloser)) span.remove_suffix(kCloser.size());
  const std::string_view body = trimmed(span);
  if (!is_json(body)) return std::nullopt;
  const auto objects = body[0] == '[' ? json_elements(body) : std::vector{body};
  std::vector<ToolCall> calls;
  for (const std::string_view object : objects) {
    auto call = call_of(object, tools);
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace

ToolSyntax hermes_syntax() {
  return {.name = "hermes",
          .spans = {{kOpener, kCloser}},
          .json = true,
          .template_marks = {},
          .parse = parse};
}

}  // namespace quern
