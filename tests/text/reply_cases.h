// Replies as tokens, for the tests and the fuzz target of the reply parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/reply_parser.h"

namespace quern::reply {

struct Token {
  std::string text;
  int32_t id = -1;
};
using Tokens = std::vector<Token>;
using Pieces = std::vector<ReplyPiece>;

// The tags of format(true): special tokens, so without text.
inline const Token kOpen = {"", 1}, kClose = {"", 2};

// <think> tags, spelled or tokens, and calls in the hermes form.
inline ReplyFormat format(bool token_tags) {
  ReplyFormat out;
  out.think_open = {.text = "<think>"};
  out.think_close = {.text = "</think>"};
  if (token_tags)
    out.think_open->id = kOpen.id, out.think_close->id = kClose.id;
  out.tools = &tool_syntaxes().back();
  return out;
}

// get_wx(city: string) and f.
inline std::shared_ptr<const Json> tools() {
  const Json city = {{"type", "object"},
                     {"properties", {{"city", {{"type", "string"}}}}}};
  return std::make_shared<const Json>(
      Json{{{"type", "function"},
            {"function", {{"name", "get_wx"}, {"parameters", city}}}},
           {{"type", "function"}, {"function", {{"name", "f"}}}}});
}

inline ReplyPiece content(std::string text) {
  return {.kind = ReplyPiece::Kind::content, .text = std::move(text)};
}
inline ReplyPiece reasoning(std::string text) {
  return {.kind = ReplyPiece::Kind::reasoning, .text = std::move(text)};
}
inline ReplyPiece call(std::string name, std::string arguments) {
  return {.kind = ReplyPiece::Kind::tool_call,
          .call = {std::move(name), std::move(arguments)}};
}

// The pieces as they came.
inline Pieces run(ReplyParser parser, const Tokens& tokens) {
  Pieces out;
  for (const Token& token : tokens) {
    for (auto& p : parser.push(token.id, token.text)) out.push_back(p);
  }
  for (auto& p : parser.finish()) out.push_back(p);
  return out;
}

// Adjacent pieces of a kind as one; calls stay apart.
inline Pieces join(const Pieces& pieces) {
  Pieces out;
  for (const auto& piece : pieces) {
    if (!out.empty() && out.back().kind == piece.kind &&
        piece.kind != ReplyPiece::Kind::tool_call) {
      out.back().text += piece.text;
    } else {
      out.push_back(piece);
    }
  }
  return out;
}

// The same reply with its text in the largest pieces.
inline Tokens merged(const Tokens& tokens) {
  Tokens out;
  for (const Token& token : tokens) {
    if (token.id < 0 && !out.empty() && out.back().id < 0) {
      out.back().text += token.text;
    } else {
      out.push_back(token);
    }
  }
  return out;
}

// And in the smallest: a character each.
inline Tokens characters(const Tokens& tokens) {
  Tokens out;
  for (const Token& token : tokens) {
    if (token.id >= 0) {
      out.push_back(token);
      continue;
    }
    bool first = true;
    for (const char c : token.text) {
      if ((c & 0xC0) != 0x80 || first) out.push_back({""});
      out.back().text += c;
      first = false;
    }
  }
  return out;
}

}  // namespace quern::reply
