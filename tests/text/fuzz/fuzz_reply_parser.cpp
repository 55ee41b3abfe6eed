#include <cstdint>

#include "fuzz/check.h"
#include "text/detokenizer.h"
#include "text/reply_cases.h"

namespace quern {
namespace {

// The bytes 0x01 and 0x02 stand for tag tokens, and 0x03 cuts tokens.
reply::Tokens read_tokens(std::string_view bytes) {
  reply::Tokens tokens = {{""}};
  Utf8Stream utf8;
  for (const char c : bytes) {
    if (c >= 1 && c <= 3) {
      tokens.back().text += utf8.finish();
      if (c < 3) tokens.push_back(c == 1 ? reply::kOpen : reply::kClose);
      tokens.push_back({""});
    } else {
      tokens.back().text += utf8.push({&c, 1});
    }
  }
  tokens.back().text += utf8.finish();
  return tokens;
}

// A text without line breaks and think tags, however nested they are: what is
// left does not depend on the order in which they are taken out.
std::string without_tags(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '\n') out += c;
    for (const std::string_view tag : {"<think>", "</think>"}) {
      if (out.ends_with(tag)) out.resize(out.size() - tag.size());
    }
  }
  return out;
}

bool is_call(const ReplyPiece& piece) {
  return piece.kind == ReplyPiece::Kind::tool_call;
}

// Whether all of `part` is in `whole`, in order.
bool within(std::string_view part, std::string_view whole) {
  size_t at = 0;
  for (const char c : whole) at += at < part.size() && c == part[at];
  return at == part.size();
}

}  // namespace
}  // namespace quern

// Input: a byte of options, then the reply.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  if (size == 0) return 0;
  const bool token_tags = data[0] & 1, inside = data[0] & 2, raw = data[0] & 4;
  const auto tools = data[0] & 8 ? reply::tools() : nullptr;
  const auto tokens =
      read_tokens({reinterpret_cast<const char*>(data) + 1, size - 1});
  const auto format = reply::format(token_tags);
  const auto run = [&](const reply::Tokens& cut) {
    return reply::join(
        reply::run(ReplyParser(format, tools, inside, raw), cut));
  };

  const auto pieces = run(tokens);
  fuzz::require(run(reply::merged(tokens)) == pieces);
  fuzz::require(run(reply::characters(tokens)) == pieces);

  std::string in = raw && inside ? "<think>" : "", out;
  for (const auto& token : tokens) {
    if (token_tags && token.id == reply::kOpen.id) in += "<think>";
    if (token_tags && token.id == reply::kClose.id) in += "</think>";
    in += token.text;
  }
  bool calls = false;
  for (const auto& piece : pieces) {
    calls = calls || is_call(piece);
    out += piece.text;
    fuzz::require(piece.text.empty() == is_call(piece));
    fuzz::require(valid_utf8(piece.text));
    if (raw) fuzz::require(piece.kind != ReplyPiece::Kind::reasoning);
    if (is_call(piece)) fuzz::require(declares(*tools, piece.call.name));
  }
  fuzz::require(within(out, in));
  if (!calls) fuzz::require(without_tags(out) == without_tags(in));
  if (raw && !tools) fuzz::require(out == in);
  return 0;
}
