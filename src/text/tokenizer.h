// Text to token ids and back, exactly as the model's own tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "text/gguf_vocabulary.h"
#include "text/rust/quern_text.h"

namespace quern {

struct EncodeOptions {
  // Puts the ids around the text that the tokenizer puts there (bos, eos).
  bool add_special = true;
  // Special spellings give special tokens. Without it the text is text: no
  // control token comes of it, whatever it says.
  bool parse_special = false;
};

// A value that shares its immutable vocabulary; safe to use from any thread.
class Tokenizer {
 public:
  // From tokenizer.json and, where present, tokenizer_config.json,
  // special_tokens_map.json, generation_config.json and config.json.
  static Result<Tokenizer> from_directory(const Path& directory);
  // `config` is tokenizer_config.json (it may be an empty object).
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     const Json& config);
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  // Fails if the text is not UTF-8.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      EncodeOptions options = {}) const;

  // Puts `mark` (a code point that the text does not hold) into each special
  // spelling of the text, and encodes a text in which spellings so marked are
  // text and the others special tokens. Neither adds prefix_ids or suffix_ids.
  Result<std::string> mark_special(std::string_view text, char32_t mark) const;
  Result<std::vector<int32_t>> encode_marked(std::string_view text,
                                             char32_t mark) const;

  // The text of the ids, as Detokenizer streams it. Ids out of range stand for
  // nothing.
  std::string decode(std::span<const int32_t> ids,
                     bool skip_special = true) const;

  // The bytes that one token stands for, a leading space included; not always
  // whole characters. Empty if the id is out of range.
  std::string_view token_bytes(int32_t id) const;

  // One past the largest id.
  int32_t vocab_size() const { return static_cast<int32_t>(table_.count); }
  bool is_special(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view token) const;

  std::optional<int32_t> bos_id() const { return bos_; }
  std::optional<int32_t> eos_id() const { return eos_; }
  // The spelling of bos and eos, as chat templates see them.
  std::string_view bos_token() const { return bos_ ? token_bytes(*bos_) : ""; }
  std::string_view eos_token() const { return eos_ ? token_bytes(*eos_) : ""; }

  // The ids that end a generation, ascending.
  const std::vector<int32_t>& end_ids() const { return end_ids_; }
  bool is_end(int32_t id) const;

  // What add_special puts before and after a text.
  std::span<const int32_t> prefix_ids() const { return prefix_; }
  std::span<const int32_t> suffix_ids() const { return suffix_; }

  // Where decoding drops the space that encoding prepended.
  enum class Strip { none, first, each };
  Strip strip() const { return static_cast<Strip>(table_.strip); }

 private:
  explicit Tokenizer(QtTokenizer* rust);

  void add_end(std::optional<int32_t> id);
  std::optional<int32_t> named_token(const Json& config, const char* key) const;
  void read_config(const Json& config);

  std::shared_ptr<const QtTokenizer> rust_;
  QtTable table_;  // points into rust_
  std::vector<int32_t> prefix_, suffix_;
  std::optional<int32_t> bos_, eos_;
  std::vector<int32_t> end_ids_;
};

}  // namespace quern
