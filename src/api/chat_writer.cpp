#include "api/chat_writer.h"

namespace quern {
namespace {

// Appends a string of a delta to the same one of the message.
void append(Json& message, const std::string& name, const Json& piece) {
  Json& text = message[name];
  if (text.is_null()) text = "";
  text.get_ref<std::string&>() += piece.get_ref<const std::string&>();
}

void fold_call(Json& message, const Json& delta) {
  Json& calls = message["tool_calls"];
  const auto index = delta.at("index").get<size_t>();
  if (index == calls.size()) {
    Json call = delta;
    call.erase("index");
    calls.push_back(std::move(call));
  } else {
    append(calls.at(index)["function"], "arguments",
           delta.at("function").at("arguments"));
  }
}

void fold_delta(Json& message, const Json& delta) {
  for (const auto& [name, value] : delta.items()) {
    if (name == "role") {
      message[name] = value;
    } else if (name == "tool_calls") {
      for (const Json& call : value) fold_call(message, call);
    } else {
      append(message, name, value);
    }
  }
}

void fold_logprobs(Json& whole, const Json& part) {
  if (part.is_null()) return;
  if (whole.is_null()) {
    whole = part;
    return;
  }
  for (const Json& token : part.at("content"))
    whole["content"].push_back(token);
}

}  // namespace

ChatWriter::ChatWriter(AnswerHead head, const Tokenizer& tokenizer,
                       ChatWriterOptions options)
    : Writer(std::move(head), "chat.completion.chunk", options.include_usage),
      tokenizer_(tokenizer),
      options_(options),
      choices_(options.choices) {}

std::vector<Json> ChatWriter::write(int choice, const Event& event) {
  std::vector<Json> out;
  if (!std::exchange(choices_[choice].begun, true)) {
    out.push_back(delta(choice, {{"role", "assistant"}, {"content", ""}}));
  }
  if (const auto* text = std::get_if<TextDelta>(&event)) {
    write_text(choice, *text, out);
  } else if (const auto* call = std::get_if<ToolCall>(&event)) {
    write_call(choice, *call, out);
  } else if (const auto* ended = std::get_if<Ended>(&event)) {
    write_end(choice, *ended, out);
  }
  return out;
}

Json ChatWriter::delta(int choice, Json delta) const {
  Json json = {{"index", choice},
               {"delta", std::move(delta)},
               {"logprobs", nullptr},
               {"finish_reason", nullptr}};
  return chunk(Json::array({std::move(json)}));
}

void ChatWriter::write_text(int choice, const TextDelta& text,
                            std::vector<Json>& out) {
  Json fields = Json::object();
  if (!text.reasoning) {
    fields["content"] = text.text;
  } else {
    if (options_.reasoning_field != ReasoningField::reasoning) {
      fields["reasoning_content"] = text.text;
    }
    if (options_.reasoning_field != ReasoningField::reasoning_content) {
      fields["reasoning"] = text.text;
    }
  }
  Json json = delta(choice, std::move(fields));
  if (options_.logprobs && !text.reasoning) {
    json["choices"][0]["logprobs"] = logprobs_of(text.tokens);
    choices_[choice].scored = true;
  }
  out.push_back(std::move(json));
}

// The name and the arguments, in two chunks: clients join the arguments only.
void ChatWriter::write_call(int choice, const ToolCall& call,
                            std::vector<Json>& out) {
  const int index = choices_[choice].calls++;
  const std::string_view answer =
      std::string_view(head_.id).substr(head_.id.find('-') + 1);
  const auto call_delta = [&](Json json) {
    out.push_back(delta(choice, {{"tool_calls", Json::array({json})}}));
  };
  call_delta({{"index", index},
              {"id", fmt::format("call_{}_{}_{}", answer, choice, index)},
              {"type", "function"},
              {"function", {{"name", call.name}, {"arguments", ""}}}});
  call_delta({{"index", index}, {"function", {{"arguments", call.arguments}}}});
}

void ChatWriter::write_end(int choice, const Ended& ended,
                           std::vector<Json>& out) {
  usage_.add(ended, choice == 0);
  Json json = delta(choice, Json::object());
  Json& fields = json["choices"][0];
  if (options_.logprobs && !choices_[choice].scored) {
    fields["logprobs"] = logprobs_of({});
  }
  fields["finish_reason"] = finish_reason(ended, choices_[choice].calls);
  if (ended.stop) fields["stop_reason"] = *ended.stop;
  out.push_back(std::move(json));
}

Json ChatWriter::logprobs_of(const std::vector<TokenScore>& tokens) const {
  Json content = Json::array();
  for (const TokenScore& token : tokens) {
    Json json = token_json(token.sampled.token, token.sampled.logprob);
    Json& top = json["top_logprobs"] = Json::array();
    for (auto [id, logprob] : token.sampled.top) {
      top.push_back(token_json(id, logprob));
    }
    content.push_back(std::move(json));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json ChatWriter::token_json(int32_t id, float logprob) const {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  Json values = Json::array();
  for (unsigned char byte : bytes) values.push_back(int(byte));
  return {{"token", token_text(bytes)},
          {"logprob", logprob},
          {"bytes", std::move(values)}};
}

bool ChatFold::merge(Json& choice, const std::string& name,
                     const Json& value) {
  if (name == "delta") {
    fold_delta(choice["message"], value);
  } else if (name == "logprobs") {
    fold_logprobs(choice[name], value);
  } else {
    return false;
  }
  return true;
}

// A message of calls alone has no content.
Json ChatFold::whole() {
  for (Json& choice : whole_["choices"]) {
    Json& message = choice["message"];
    if (message.contains("tool_calls") && message["content"] == "") {
      message["content"] = nullptr;
    }
  }
  return std::move(whole_);
}

Json ChatFold::empty_choice(size_t index) const {
  return {{"index", index},
          {"message",
           {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}};
}

}  // namespace quern
