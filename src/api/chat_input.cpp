#include "api/chat_input.h"

#include <algorithm>
#include <array>

#include "base/str.h"

namespace quern {
namespace {

std::string at(std::string_view name, size_t index) {
  return fmt::format("{}[{}]", name, index);
}

// The text of a part of a message.
std::string part_text(const Json& part, const std::string& place) {
  const Fields fields(part, place);
  const auto type = fields.string("type");
  if (type == "text" || type == "refusal") {
    const auto text = fields.string(*type);
    if (!text) {
      refuse(fields.path(*type), "{} is required", fields.path(*type));
    }
    return *text;
  }
  refuse(place,
         "{}: a part of type {} is not supported: the model takes text only",
         place, type ? in_quotes(*type) : "null");
}

// Parts of text are joined; null is no text.
std::string content_text(const Fields& message) {
  const Json* content = message.find("content");
  if (!content) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.refuse_type("content", "string or list of parts", *content);
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    text += part_text((*content)[i], at(message.path("content"), i));
  }
  return text;
}

// Arguments are the text of a JSON object, or one, or nothing. Text that is
// no JSON stays what it is: a model may have written it.
Json read_arguments(const Fields& function) {
  const Json* value = function.find("arguments");
  if (!value || *value == "") return "{}";
  if (value->is_object()) return *value;
  if (!value->is_string()) function.refuse_type("arguments", "string", *value);
  return *value;
}

Json read_call(const Json& json, const std::string& place) {
  const Fields call(json, place);
  const Json* object = call.object("function");
  if (!object) {
    refuse(call.path("function"), "{} is required", call.path("function"));
  }
  const Fields function(*object, call.path("function"));
  const auto name = function.string("name");
  if (!name || name->empty()) {
    refuse(function.path("name"), "{} is required", function.path("name"));
  }
  Json out = json;
  out["type"] = "function";
  out["function"]["arguments"] = read_arguments(function);
  return out;
}

std::string read_role(const Fields& message) {
  constexpr std::array kRoles = {"system", "user", "assistant", "tool"};
  const auto role = message.string("role");
  const std::string param = message.path("role");
  if (!role) refuse(param, "{} is required", param);
  if (role == "developer") return "system";
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    refuse(param,
           "{} must be system, developer, user, assistant or tool, got {}",
           param, in_quotes(*role));
  }
  return *role;
}

Json without_nulls(const Json& json) {
  Json out = Json::object();
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null()) append_name(out, name, value);
  }
  return out;
}

Json read_message(const Json& json, const std::string& place) {
  const Fields message(json, place);
  Json out = without_nulls(json);
  out["role"] = read_role(message);
  out["content"] = content_text(message);
  for (const char* name :
       {"reasoning_content", "reasoning", "thinking", "name", "tool_call_id"}) {
    message.string(name);
  }
  out.erase("tool_calls");
  const Json* calls = message.list("tool_calls");
  if (!calls || calls->empty()) return out;
  Json& to = out["tool_calls"] = Json::array();
  for (size_t i = 0; i < calls->size(); ++i) {
    to.push_back(read_call((*calls)[i], at(message.path("tool_calls"), i)));
  }
  // As templates tell a message of calls from one of text.
  if (out["content"] == "") out.erase("content");
  return out;
}

Json read_messages(const Fields& fields) {
  const Json* list = fields.list("messages");
  if (!list || list->empty()) refuse("messages", "messages required");
  Json messages = Json::array();
  for (size_t i = 0; i < list->size(); ++i) {
    messages.push_back(read_message((*list)[i], at("messages", i)));
  }
  return messages;
}

const char* type_of(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_array()) return "array";
  return value.is_object() ? "object" : "null";
}

// The type that a schema without one means, by its other keywords.
std::string inferred_type(const Json& schema) {
  for (const char* name : {"properties", "required", "additionalProperties"}) {
    if (schema.contains(name)) return "object";
  }
  if (schema.contains("items")) return "array";
  if (schema.contains("const")) return type_of(schema["const"]);
  if (schema.contains("enum") && schema["enum"].is_array() &&
      !schema["enum"].empty()) {
    return type_of(schema["enum"][0]);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(name) || !schema[name].is_array()) continue;
    for (const Json& choice : schema[name]) {
      if (!choice.is_object()) continue;
      if (!choice.contains("type")) return inferred_type(choice);
      if (choice["type"].is_string() && choice["type"] != "null") {
        return choice["type"];
      }
    }
  }
  return "string";
}

// Gives every schema within a type: templates print it.
void infer_types(Json& schema) {
  if (!schema.is_object()) return;
  if (!schema.contains("type")) schema["type"] = inferred_type(schema);
  if (schema.contains("properties") && schema["properties"].is_object()) {
    for (Json& property : schema["properties"]) infer_types(property);
  }
  for (const char* name : {"items", "additionalProperties"}) {
    if (schema.contains(name)) infer_types(schema[name]);
  }
}

void check_tool(const Json& json, const std::string& place) {
  const Fields tool(json, place);
  if (const auto type = tool.string("type"); type != "function") {
    refuse(tool.path("type"), "{} must be function, got {}", tool.path("type"),
           type ? in_quotes(*type) : "null");
  }
  const Json* object = tool.object("function");
  if (!object) {
    refuse(tool.path("function"), "{} is required", tool.path("function"));
  }
  const Fields function(*object, tool.path("function"));
  const auto name = function.string("name");
  if (!name || name->empty()) {
    refuse(function.path("name"), "{} is required", function.path("name"));
  }
  function.string("description");
  function.object("parameters");
}

// Whether tools may be called. That one must be called takes a grammar.
bool tools_allowed(const Fields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (!choice || *choice == "auto") return true;
  if (*choice == "none") return false;
  refuse("tool_choice",
         "tool_choice: {} is not supported yet, only auto and none",
         brief(*choice));
}

std::string read_effort(const Fields& fields) {
  constexpr std::array kEfforts = {"",       "none", "minimal", "low",
                                   "medium", "high", "xhigh"};
  const std::string effort = fields.string("reasoning_effort").value_or("");
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
    refuse("reasoning_effort",
           "reasoning_effort must be none, minimal, low, medium, high or "
           "xhigh, got {}",
           in_quotes(effort));
  }
  return effort;
}

// Explicit enable_thinking beats reasoning_effort beats the server's flag.
Json read_variables(const Fields& fields, const ServedModel& served) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  Json variables = kwargs ? *kwargs : Json::object();
  Fields(variables, "chat_template_kwargs").boolean("enable_thinking");
  const auto add = [&](const char* name, const Json& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  if (const auto thinking = fields.boolean("enable_thinking")) {
    add("enable_thinking", *thinking);
  }
  const std::string effort = read_effort(fields);
  if (!effort.empty()) {
    add("enable_thinking", effort != "none");
    if (effort != "none") add("reasoning_effort", effort);
  }
  if (served.defaults.thinking) {
    add("enable_thinking", *served.defaults.thinking);
  }
  return variables;
}

}  // namespace

Json read_tools(const Fields& fields) {
  const Json* tools = fields.list("tools");
  const bool allowed = tools_allowed(fields);
  if (!tools || tools->empty()) return nullptr;
  for (size_t i = 0; i < tools->size(); ++i) {
    check_tool((*tools)[i], at("tools", i));
  }
  return allowed ? *tools : nullptr;
}

ChatInput read_chat_input(const Fields& fields, Json tools,
                          const ServedModel& served) {
  ChatInput input;
  input.messages = read_messages(fields);
  input.tools = std::move(tools);
  if (input.tools.is_array()) {
    for (Json& tool : input.tools) {
      Json& function = tool["function"];
      if (function.contains("parameters")) infer_types(function["parameters"]);
    }
  }
  input.variables = read_variables(fields, served);
  return input;
}

}  // namespace quern
