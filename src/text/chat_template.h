// Chat templates: Jinja as transformers runs it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "text/rust/quern_text.h"

namespace quern {

// What strftime_now sees, and the code point that `tojson` never escapes.
struct RenderOptions {
  std::optional<int64_t> now = {};  // seconds since 1970; the clock if absent
  char32_t mark = 0;
};

// One compiled template; immutable, safe to use from any thread.
class ChatTemplate {
 public:
  // Fails with the line and the fault of the source.
  static Result<ChatTemplate> compile(std::string source);

  // `context` is an object: the names that the template sees. Fails with the
  // template's own message (raise_exception included); bounded in time and
  // memory.
  Result<std::string> render(const Json& context,
                             RenderOptions options = {}) const;

  // Whether the source contains a word, such as a field of messages.
  bool mentions(std::string_view word) const {
    return source_.find(word) != std::string::npos;
  }

 private:
  ChatTemplate(QtTemplate* rust, std::string source);

  std::shared_ptr<const QtTemplate> rust_;
  std::string source_;
};

// The templates of a model, by name. Most models have one, "default"; some
// have "tool_use" as well.
class ChatTemplates {
 public:
  // From chat_template.jinja, else chat_template.json, else the chat_template
  // of tokenizer_config.json. None of them is no fault: then there is none.
  static Result<ChatTemplates> from_directory(const Path& directory);
  // One source (a GGUF file's, or a file that the user names); empty: none.
  static Result<ChatTemplates> from_source(std::string source);

  bool empty() const { return templates_.empty(); }

  // "tool_use" if there are tools and such a template, else "default". The
  // reason why there is none names --chat-template.
  Result<ChatTemplate> select(bool with_tools) const;

 private:
  // The value of a chat_template field: a string or a list of named strings.
  Status add(const Json& field);
  Status add(const std::string& name, std::string source);

  std::map<std::string, ChatTemplate> templates_;
};

}  // namespace quern
