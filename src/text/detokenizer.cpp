#include "text/detokenizer.h"

#include "base/str.h"

namespace quern {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!tail_.empty()) {
    joined = std::move(tail_).append(bytes);
    tail_.clear();
    bytes = joined;
  }
  std::string out;
  while (!bytes.empty()) {
    const Utf8Front front = utf8_front(bytes);
    if (front.is_character()) {
      out += bytes.substr(0, front.length);
    } else if (front.length > 0 && front.fits == bytes.size()) {
      tail_ = bytes;
      break;
    } else {
      out += kReplacement;
    }
    bytes.remove_prefix(front.fits);
  }
  return out;
}

std::string Utf8Stream::finish() {
  const bool unfinished = !tail_.empty();
  tail_.clear();
  return std::string(unfinished ? kReplacement : "");
}

std::string Detokenizer::push(int32_t id) {
  const bool special = tokenizer_.is_special(id);
  if (special && skip_special_) return {};
  std::string_view bytes = tokenizer_.token_bytes(id);
  const auto strip = tokenizer_.strip();
  if (special) {
    at_start_ = strip == Tokenizer::Strip::each;
  } else if (!bytes.empty()) {
    if (at_start_ && strip != Tokenizer::Strip::none && bytes[0] == ' ') {
      bytes.remove_prefix(1);
    }
    at_start_ = false;
  }
  return utf8_.push(bytes);
}

}  // namespace quern
