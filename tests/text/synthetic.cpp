#include "text/synthetic.h"

namespace quern::synthetic {
namespace {

// GPT-2's alphabet, written out: the character of each byte.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> out;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                           (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const int code = printable ? byte : next++;
    if (code < 0x80) {
      out.push_back(std::string(1, static_cast<char>(code)));
    } else {
      out.push_back({static_cast<char>(0xC0 | code >> 6),
                     static_cast<char>(0x80 | (code & 0x3F))});
    }
  }
  return out;
}

const std::vector<std::string>& pieces() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out = {"<unk>", "<s>", "</s>"};
    for (int byte = 0; byte < 256; ++byte) {
      out.push_back(fmt::format("<0x{:02X}>", byte));
    }
    // Best score first: what the letters merge to.
    for (const char* piece :
         {"\u2581H", "el", "lo", "\u2581Hel", "\u2581Hello", "Hel", "Hello",
          "\u2581\u2581", "\u2581A", "\u2581G", "\u2581", "H", "e", "l", "o",
          "A", "G"}) {
      out.push_back(piece);
    }
    return out;
  }();
  return all;
}

}  // namespace

Tokenizer byte_level(const std::vector<std::pair<std::string, int32_t>>& more) {
  auto tokens = byte_alphabet();
  std::vector<int32_t> types(tokens.size(), 1);
  for (auto [token, type] :
       {std::pair{"<|end|>", 3}, {"<|im_start|>", 3}, {"<tool>", 4}}) {
    tokens.push_back(token);
    types.push_back(type);
  }
  for (const auto& [token, type] : more) {
    tokens.push_back(token);
    types.push_back(type);
  }
  return Tokenizer::from_gguf({.model = "gpt2",
                               .pre = "gpt-2",
                               .tokens = {tokens.begin(), tokens.end()},
                               .token_types = types,
                               .eos = 256})
      .or_throw();
}

Tokenizer sentence_piece(bool prefix) {
  const auto& tokens = pieces();
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (size_t id = 0; id < tokens.size(); ++id) {
    scores.push_back(id < 259 ? 0.f : 259.f - id);
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
  }
  return Tokenizer::from_gguf({.model = "llama",
                               .tokens = {tokens.begin(), tokens.end()},
                               .scores = scores,
                               .token_types = types,
                               .bos = 1,
                               .eos = 2,
                               .unk = 0,
                               .add_bos = true,
                               .add_space_prefix = prefix})
      .or_throw();
}

Tokenizer metaspace(std::string_view prepend_scheme) {
  Json vocab = Json::object();
  for (const auto& piece : pieces()) vocab[piece] = vocab.size();
  const Json merges = {"\u2581 H", "e l",          "l o",    "\u2581H el",
                       "H el",     "\u2581Hel lo", "Hel lo", "\u2581 \u2581",
                       "\u2581 A", "\u2581 G"};
  Json added = Json::array();
  for (int id = 0; id < 3; ++id) {
    added.push_back({{"id", id},
                     {"content", pieces()[id]},
                     {"special", true},
                     {"normalized", false},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false}});
  }
  const Json space = {{"type", "Metaspace"},
                      {"replacement", "\u2581"},
                      {"prepend_scheme", prepend_scheme},
                      {"split", false}};
  Json decoders = {{{"type", "Replace"},
                    {"pattern", {{"String", "\u2581"}}},
                    {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (prepend_scheme != "never") {
    decoders.push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"pre_tokenizer", space},
      {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", merges}}}};
  return Tokenizer::from_json(json.dump(),
                              {{"bos_token", "<s>"}, {"eos_token", "</s>"}})
      .or_throw();
}

}  // namespace quern::synthetic
