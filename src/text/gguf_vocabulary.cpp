#include "text/gguf_vocabulary.h"

#include <limits>

namespace quern {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key(std::string_view name) {
  return std::string(kPrefix) + std::string(name);
}

Failure wrong_type(std::string_view name, std::string_view expected) {
  return failure("{}: expected {}", key(name), expected);
}

// Reads an optional key with one of Gguf's accessors; a value of another type
// is a fault of the file.
template <class T, class Get>
Status read(const Gguf& file, std::string_view name, std::string_view expected,
            Get get, std::optional<T>& out) {
  const std::string full = key(name);
  if (!file.find(full)) return {};
  auto value = (file.*get)(full);
  if (!value) return wrong_type(name, expected);
  out = std::move(*value);
  return {};
}

Status read_id(const Gguf& file, std::string_view name,
               std::optional<int32_t>& out) {
  std::optional<uint64_t> id;
  if (auto status = read(file, name, "a token id", &Gguf::uint, id); !status) {
    return status;
  }
  if (!id) return {};
  if (*id > std::numeric_limits<int32_t>::max())
    return wrong_type(name, "a token id");
  out = static_cast<int32_t>(*id);
  return {};
}

}  // namespace

Result<GgufVocabulary> gguf_vocabulary(const Gguf& file) {
  GgufVocabulary v;
  std::optional<std::string_view> model, pre;
  std::optional<std::vector<std::string_view>> tokens, merges;
  std::optional<std::vector<float>> scores;
  std::optional<std::vector<int64_t>> types;
  for (const Status& status : {
           read(file, "model", "a string", &Gguf::str, model),
           read(file, "pre", "a string", &Gguf::str, pre),
           read(file, "tokens", "an array of strings", &Gguf::strings, tokens),
           read(file, "merges", "an array of strings", &Gguf::strings, merges),
           read(file, "scores", "an array of floats", &Gguf::floats, scores),
           read(file, "token_type", "an array of integers", &Gguf::integers,
                types),
           read(file, "add_bos_token", "a bool", &Gguf::flag, v.add_bos),
           read(file, "add_eos_token", "a bool", &Gguf::flag, v.add_eos),
           read(file, "add_space_prefix", "a bool", &Gguf::flag,
                v.add_space_prefix),
           read_id(file, "bos_token_id", v.bos),
           read_id(file, "eos_token_id", v.eos),
           read_id(file, "eot_token_id", v.eot),
           read_id(file, "unknown_token_id", v.unk),
           read_id(file, "padding_token_id", v.pad),
       }) {
    if (!status) return status.failure();
  }
  if (!model) return failure("{}: missing", key("model"));
  if (!tokens) return failure("{}: missing", key("tokens"));
  v.model = *model;
  v.pre = pre.value_or("");
  v.tokens = std::move(*tokens);
  v.merges = std::move(merges).value_or(std::vector<std::string_view>{});
  v.scores = std::move(scores).value_or(std::vector<float>{});
  if (types) v.token_types.assign(types->begin(), types->end());
  v.chat_template = file.str("tokenizer.chat_template").value_or("");
  return v;
}

}  // namespace quern
