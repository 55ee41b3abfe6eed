#include "api/writer.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "api/error.h"
#include "text/detokenizer.h"

namespace quern {
namespace {

std::string random_id() {
  thread_local std::mt19937_64 random{[] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

}  // namespace

AnswerHead AnswerHead::fresh(std::string_view prefix, std::string model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {fmt::format("{}{}", prefix, random_id()),
          std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          std::move(model)};
}

Json AnswerHead::json(std::string_view object) const {
  return {
      {"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

void Usage::add(const Ended& ended, bool with_prompt) {
  if (with_prompt) {
    prompt_ += ended.ending.prompt_tokens;
    cached_ += ended.ending.cached_tokens;
  }
  completion_ += ended.ending.tokens;
  reasoning_ += ended.reasoning_tokens;
}

Json Usage::json() const {
  return {{"prompt_tokens", prompt_},
          {"completion_tokens", completion_},
          {"total_tokens", prompt_ + completion_},
          {"prompt_tokens_details", {{"cached_tokens", cached_}}},
          {"completion_tokens_details", {{"reasoning_tokens", reasoning_}}}};
}

Writer::Writer(AnswerHead head, std::string_view object, bool include_usage)
    : head_(std::move(head)), object_(object), include_usage_(include_usage) {}

std::vector<Json> Writer::close() const {
  if (!include_usage_) return {};
  Json last = chunk(Json::array());
  last["usage"] = usage_.json();
  return {std::move(last)};
}

Json Writer::chunk(Json choices) const {
  Json json = head_.json(object_);
  json["choices"] = std::move(choices);
  if (include_usage_) json["usage"] = nullptr;
  return json;
}

void Fold::add(const Json& chunk) {
  if (whole_.is_null()) {
    whole_ = chunk;
    whole_["object"] = object_;
    whole_["choices"] = Json::array();
    whole_["usage"] = nullptr;
  }
  Json& choices = whole_["choices"];
  for (const Json& part : chunk.at("choices")) {
    const auto index = part.at("index").get<size_t>();
    while (choices.size() <= index) {
      choices.push_back(empty_choice(choices.size()));
    }
    for (const auto& [name, value] : part.items()) {
      const bool merged = merge(choices[index], name, value);
      if (!merged && !value.is_null()) choices[index][name] = value;
    }
  }
  if (chunk.contains("usage") && !chunk["usage"].is_null()) {
    whole_["usage"] = chunk["usage"];
  }
}

std::string_view finish_reason(const Ended& ended, int calls) {
  if (ended.ending.finish == Finish::length) return "length";
  return calls > 0 ? "tool_calls" : "stop";
}

std::string sse_data(const Json& json) {
  return fmt::format("data: {}\n\n", json_text(json));
}

int count_characters(std::string_view utf8) {
  return int(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string token_text(std::string_view bytes) {
  Utf8Stream utf8;
  std::string text = utf8.push(bytes);
  return text += utf8.finish();
}

}  // namespace quern
