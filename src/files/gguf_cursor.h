// Reading forward through GGUF bytes; shared by the check and the decoding.
#pragma once

#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "files/gguf.h"

namespace quern {

static_assert(std::endian::native == std::endian::little,
              "GGUF numbers are read as they lie in the file");

// The bytes of a scalar type, the fewest bytes of a string or an array.
size_t gguf_least_bytes(GgufType type);

class GgufCursor {
 public:
  explicit GgufCursor(Bytes bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // Each of these gives nothing, and moves nowhere, at a short end.
  std::optional<Bytes> take(uint64_t count) {
    if (count > left()) return {};
    const Bytes out = bytes_.subspan(at_, size_t(count));
    at_ += size_t(count);
    return out;
  }

  template <class T>
  std::optional<T> number() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return {};
    T out;
    std::memcpy(&out, bytes->data(), sizeof(T));
    return out;
  }

  // A 64-bit length and as many bytes.
  std::optional<std::string_view> string() {
    const size_t start = at_;
    if (const auto length = number<uint64_t>()) {
      if (const auto text = take(*length)) {
        return std::string_view(reinterpret_cast<const char*>(text->data()),
                                text->size());
      }
    }
    at_ = start;
    return {};
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

}  // namespace quern
