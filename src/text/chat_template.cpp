#include "text/chat_template.h"

#include <ctime>

#include "text/rust_bridge.h"

namespace quern {

ChatTemplate::ChatTemplate(QtTemplate* rust, std::string source)
    : rust_(rust,
            [](const QtTemplate* t) {
              qt_template_free(const_cast<QtTemplate*>(t));
            }),
      source_(std::move(source)) {}

Result<ChatTemplate> ChatTemplate::compile(std::string source) {
  RustText error;
  QtTemplate* rust = qt_template_new(view_of(source), error.out());
  if (!rust) return failure("chat template: {}", error.str());
  return ChatTemplate(rust, std::move(source));
}

Result<std::string> ChatTemplate::render(const Json& context,
                                         RenderOptions options) const {
  const std::string json =
      context.dump(-1, ' ', false, Json::error_handler_t::replace);
  const int64_t now = options.now.value_or(std::time(nullptr));
  RustText text, error;
  if (!qt_template_render(rust_.get(), view_of(json), now, options.mark,
                          text.out(), error.out())) {
    return failure("chat template: {}", error.str());
  }
  return text.str();
}

Result<ChatTemplates> ChatTemplates::from_directory(const Path& directory) {
  const Path jinja = directory / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) {
    auto source = read_text(jinja);
    if (!source) return source.failure();
    auto templates = from_source(std::move(*source));
    if (!templates) {
      return failure("{}: {}", jinja.string(), templates.reason());
    }
    return templates;
  }
  ChatTemplates templates;
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    const Path path = directory / name;
    if (!std::filesystem::exists(path)) continue;
    auto text = read_text(path);
    if (!text) return text.failure();
    auto json = parse_json(*text, path.string());
    if (!json) return json.failure();
    if (!json->is_object() || !json->contains("chat_template")) continue;
    if (auto added = templates.add((*json)["chat_template"]); !added) {
      return failure("{}: {}", path.string(), added.reason());
    }
    break;
  }
  return templates;
}

Result<ChatTemplates> ChatTemplates::from_source(std::string source) {
  ChatTemplates templates;
  if (source.empty()) return templates;
  if (auto added = templates.add("default", std::move(source)); !added) {
    return added.failure();
  }
  return templates;
}

Status ChatTemplates::add(const Json& field) {
  if (field.is_null()) return {};
  if (field.is_string()) return add("default", field.get<std::string>());
  if (!field.is_array()) {
    return failure("chat_template: expected a string or a list");
  }
  for (const Json& item : field) {
    const Json name = item.is_object() ? item.value("name", Json()) : Json();
    const Json source =
        item.is_object() ? item.value("template", Json()) : Json();
    if (!name.is_string() || !source.is_string()) {
      return failure("chat_template: expected items with name and template");
    }
    if (auto added = add(name.get<std::string>(), source.get<std::string>());
        !added) {
      return added;
    }
  }
  return {};
}

Status ChatTemplates::add(const std::string& name, std::string source) {
  auto compiled = ChatTemplate::compile(std::move(source));
  if (!compiled) return compiled.failure();
  templates_.insert_or_assign(name, std::move(*compiled));
  return {};
}

Result<ChatTemplate> ChatTemplates::select(bool with_tools) const {
  for (const char* name : {"tool_use", "default"}) {
    const bool wanted = with_tools || std::string_view(name) == "default";
    const auto found = templates_.find(name);
    if (wanted && found != templates_.end()) return found->second;
  }
  return failure(
      "the model has no chat template: give one with --chat-template");
}

}  // namespace quern
