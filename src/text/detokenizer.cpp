#include "text/detokenizer.h"

namespace quern {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  int length;         // bytes of the character; 0 if no character begins so
  uint8_t low, high;  // the range of the second byte
};

// Unicode table 3-7, well-formed UTF-8 byte sequences.
Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes at the start of `bytes` belong to one character; fewer than
// lead.length if the next byte does not fit or is not there yet.
size_t well_formed(std::string_view bytes, const Lead& lead) {
  size_t n = 1;
  while (n < bytes.size() && n < static_cast<size_t>(lead.length)) {
    const uint8_t byte = bytes[n];
    const uint8_t low = n == 1 ? lead.low : 0x80;
    const uint8_t high = n == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++n;
  }
  return n;
}

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
    const Lead lead = lead_of(bytes[0]);
    const size_t size = well_formed(bytes, lead);
    if (size == static_cast<size_t>(lead.length)) {
      out += bytes.substr(0, size);
    } else if (lead.length > 0 && size == bytes.size()) {
      tail_ = bytes;
      break;
    } else {
      out += kReplacement;
    }
    bytes.remove_prefix(size);
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
