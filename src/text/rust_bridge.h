// Owners of what the Rust library hands out; for the .cpp files of this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/rust/quern_text.h"

namespace quern {

inline QtView view_of(std::string_view text) {
  return {text.data(), text.size()};
}

class RustText {
 public:
  RustText() = default;
  RustText(const RustText&) = delete;
  RustText& operator=(const RustText&) = delete;
  ~RustText() { qt_text_free(text_); }

  QtText* out() { return &text_; }
  std::string str() const { return {text_.data, text_.size}; }

 private:
  QtText text_{};
};

class RustIds {
 public:
  RustIds() = default;
  RustIds(const RustIds&) = delete;
  RustIds& operator=(const RustIds&) = delete;
  ~RustIds() { qt_ids_free(ids_); }

  QtIds* out() { return &ids_; }
  const int32_t* begin() const { return ids_.data; }
  const int32_t* end() const { return ids_.data + ids_.size; }

 private:
  QtIds ids_{};
};

}  // namespace quern
