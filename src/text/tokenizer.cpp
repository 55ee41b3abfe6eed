#include "text/tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/rust_bridge.h"

namespace quern {
namespace {

// Names of tokens that end a turn or a text. A GGUF file names one eos token;
// chat models end a turn with one of these as well.
constexpr std::string_view kEndNames[] = {
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<|eom_id|>",
    "<|return|>",
    "<EOT>",
    "<|endofturn|>",
    "<|END_OF_TURN_TOKEN|>",
};

// A JSON file that need not be there: an empty object then.
Result<Json> optional_json(const Path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  auto text = read_text(path);
  if (!text) return text.failure();
  auto json = parse_json(*text, path.string());
  if (json && !json->is_object()) {
    return failure("{}: expected an object", path.string());
  }
  return json;
}

std::vector<QtView> views(const std::vector<std::string_view>& texts) {
  std::vector<QtView> out(texts.size());
  std::transform(texts.begin(), texts.end(), out.begin(), view_of);
  return out;
}

Status check(const GgufVocabulary& v) {
  const size_t count = v.tokens.size();
  if (count == 0) return failure("tokenizer.ggml.tokens: empty");
  auto fits = [&](size_t n) { return n == 0 || n == count; };
  if (!fits(v.scores.size())) {
    return failure("tokenizer.ggml.scores: {} for {} tokens", v.scores.size(),
                   count);
  }
  if (!fits(v.token_types.size())) {
    return failure("tokenizer.ggml.token_type: {} for {} tokens",
                   v.token_types.size(), count);
  }
  for (auto id : {v.bos, v.eos, v.eot, v.unk, v.pad}) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return failure("tokenizer.ggml: token id {} is out of range [0, {})", *id,
                     count);
    }
  }
  return {};
}

}  // namespace

Tokenizer::Tokenizer(QtTokenizer* rust)
    : rust_(rust, [](const QtTokenizer* t) {
        qt_tokenizer_free(const_cast<QtTokenizer*>(t));
      }) {
  qt_tokenizer_table(rust, &table_);
  prefix_.assign(table_.prefix, table_.prefix + table_.prefix_size);
  suffix_.assign(table_.suffix, table_.suffix + table_.suffix_size);
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       const Json& config) {
  RustText error;
  QtTokenizer* rust =
      qt_tokenizer_from_json(view_of(tokenizer_json), error.out());
  if (!rust) return failure("tokenizer.json: {}", error.str());
  Tokenizer tokenizer(rust);
  tokenizer.read_config(config);
  return tokenizer;
}

Result<Tokenizer> Tokenizer::from_directory(const Path& directory) {
  auto text = read_text(directory / "tokenizer.json");
  if (!text) return text.failure();
  Json config = Json::object();
  // Where both name a token, tokenizer_config.json holds.
  for (const char* name :
       {"special_tokens_map.json", "tokenizer_config.json"}) {
    auto part = optional_json(directory / name);
    if (!part) return part.failure();
    config.update(*part);
  }
  auto tokenizer = from_json(*text, config);
  if (!tokenizer)
    return failure("{}: {}", directory.string(), tokenizer.reason());
  for (const char* name : {"generation_config.json", "config.json"}) {
    auto part = optional_json(directory / name);
    if (!part) return part.failure();
    const Json ids = part->value("eos_token_id", Json());
    for (const Json& id : ids.is_array() ? ids : Json::array({ids})) {
      if (id.is_number_integer()) tokenizer->add_end(id.get<int32_t>());
    }
  }
  return tokenizer;
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& v) {
  if (auto good = check(v); !good) return good.failure();
  auto flag = [](std::optional<bool> f) { return f ? int{*f} : -1; };
  const auto tokens = views(v.tokens);
  const auto merges = views(v.merges);
  const QtVocabulary vocabulary{
      .model = view_of(v.model),
      .pre = view_of(v.pre),
      .tokens = tokens.data(),
      .scores = v.scores.empty() ? nullptr : v.scores.data(),
      .types = v.token_types.empty() ? nullptr : v.token_types.data(),
      .token_count = tokens.size(),
      .merges = merges.data(),
      .merge_count = merges.size(),
      .bos = v.bos.value_or(-1),
      .eos = v.eos.value_or(-1),
      .unk = v.unk.value_or(-1),
      .add_bos = flag(v.add_bos),
      .add_eos = flag(v.add_eos),
      .add_space_prefix = flag(v.add_space_prefix),
  };
  RustText error;
  QtTokenizer* rust = qt_tokenizer_from_vocabulary(&vocabulary, error.out());
  if (!rust) return failure("GGUF vocabulary: {}", error.str());
  Tokenizer tokenizer(rust);
  tokenizer.bos_ = v.bos;
  tokenizer.eos_ = v.eos;
  tokenizer.add_end(v.eos);
  tokenizer.add_end(v.eot);
  for (std::string_view name : kEndNames) {
    const auto id = tokenizer.id_of(name);
    if (id && tokenizer.is_special(*id)) tokenizer.add_end(id);
  }
  return tokenizer;
}

void Tokenizer::read_config(const Json& config) {
  bos_ = named_token(config, "bos_token");
  eos_ = named_token(config, "eos_token");
  add_end(eos_);
  if (config.value("add_bos_token", Json()) == true && bos_ &&
      prefix_.empty()) {
    prefix_ = {*bos_};
  }
}

// A token is named by its text or by an object with its "content".
std::optional<int32_t> Tokenizer::named_token(const Json& config,
                                              const char* key) const {
  Json token = config.value(key, Json());
  if (token.is_object()) token = token.value("content", Json());
  if (!token.is_string()) return std::nullopt;
  return id_of(token.get_ref<const std::string&>());
}

void Tokenizer::add_end(std::optional<int32_t> id) {
  if (!id || *id < 0 || *id >= vocab_size() || is_end(*id)) return;
  end_ids_.insert(std::upper_bound(end_ids_.begin(), end_ids_.end(), *id), *id);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               EncodeOptions options) const {
  RustIds ids;
  RustText error;
  if (!qt_tokenizer_encode(rust_.get(), view_of(text), options.parse_special,
                           ids.out(), error.out())) {
    return failure("text to encode: {}", error.str());
  }
  std::vector<int32_t> out;
  if (options.add_special) out = prefix_;
  out.insert(out.end(), ids.begin(), ids.end());
  if (options.add_special) {
    out.insert(out.end(), suffix_.begin(), suffix_.end());
  }
  return out;
}

Result<std::string> Tokenizer::mark_special(std::string_view text,
                                            char32_t mark) const {
  RustText marked, error;
  if (!qt_tokenizer_mark(rust_.get(), view_of(text), mark, marked.out(),
                         error.out())) {
    return failure("text to encode: {}", error.str());
  }
  return marked.str();
}

Result<std::vector<int32_t>> Tokenizer::encode_marked(std::string_view text,
                                                      char32_t mark) const {
  RustIds ids;
  RustText error;
  if (!qt_tokenizer_encode_marked(rust_.get(), view_of(text), mark, ids.out(),
                                  error.out())) {
    return failure("text to encode: {}", error.str());
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

std::string Tokenizer::decode(std::span<const int32_t> ids,
                              bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const uint32_t begin = table_.offsets[id], end = table_.offsets[id + 1];
  return {reinterpret_cast<const char*>(table_.bytes) + begin, end - begin};
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && table_.special[id];
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const int32_t id = qt_tokenizer_id(rust_.get(), view_of(token));
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_end(int32_t id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

}  // namespace quern
