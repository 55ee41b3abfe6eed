// What the endpoints stand on: the model that is served.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace quern {

enum class ReasoningField { both, reasoning_content, reasoning };

// What a request does not say comes from here.
struct ServeDefaults {
  SamplingParams sampling;        // server flag > generation_config > greedy
  std::optional<int> max_tokens;  // none: up to the context
  std::optional<bool> thinking;   // enable_thinking; none: the template's own
  ReasoningField reasoning_field = ReasoningField::both;
};

// One model, ready to answer. Immutable but for its engine; thread-safe.
struct ServedModel {
  std::string id;       // as /v1/models names it
  int64_t created = 0;  // seconds since 1970
  std::unique_ptr<TextModel> model;
  Tokenizer tokenizer;
  ChatTemplates templates;
  ReplyFormat format;
  ServeDefaults defaults;
  // How each layer keeps keys and values (LayerState::signature), for /stats.
  std::vector<std::string> kv_layers;
  size_t longest_token = 0;        // in bytes; Service::serve() finds it
  std::unique_ptr<Engine> engine;  // last: ends before the model
};

// Thread-safe.
class Service {
 public:
  // Null while the model is loading.
  std::shared_ptr<ServedModel> model() const;
  // Throws ApiError (503) in place of null.
  std::shared_ptr<ServedModel> ready() const;
  void serve(std::shared_ptr<ServedModel> model);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ServedModel> model_;
};

}  // namespace quern
