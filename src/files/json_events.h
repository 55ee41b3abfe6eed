// The base of our streaming JSON readers. A model file's JSON may hold a
// million names: no tree is built and duplicate names are seen.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quern {

// A subclass overrides the events it knows. Every other one goes to other(),
// which says whether it may be skipped.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Feeds the text; the reason starts with `where`.
  Status read(std::string_view text, std::string_view where) {
    nlohmann::json_sax<nlohmann::json>* events = this;
    if (nlohmann::json::sax_parse(text, events)) return {};
    return quern::failure("{}: {}", where, reason_);
  }

 protected:
  template <class... Args>
  bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    reason_ = fmt::format(text, std::forward<Args>(args)...);
    return false;
  }

  virtual bool other(std::string_view kind) = 0;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(int64_t) override { return other("a negative number"); }
  bool number_unsigned(uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override {
    return other("a fractional number");
  }
  bool string(std::string&) override { return other("a string"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool start_object(size_t) override { return other("an object"); }
  bool key(std::string&) override { return other("a name"); }
  bool end_object() override { return other("the end of an object"); }
  bool start_array(size_t) override { return other("an array"); }
  bool end_array() override { return other("the end of an array"); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return refuse("not valid JSON at byte {}", position);
  }

 private:
  std::string reason_;
};

}  // namespace quern
