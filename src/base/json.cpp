#include "base/json.h"

#include <unordered_map>

#include "base/str.h"

namespace quern {
namespace {

// Deeper trees would exhaust the stack of what walks them by recursion.
constexpr size_t kMaxDepth = 256;
// Names of larger objects are looked up once, at the end of the object.
constexpr size_t kSmallObject = 32;
constexpr size_t kMaxReason = 200;  // bytes of a fault, which quotes the text

// Of equal names the last value holds, at the place of the first.
void merge_equal_names(Json::object_t& object) {
  std::unordered_map<std::string_view, size_t> places;
  places.reserve(object.size());
  for (auto& [name, value] : object) places.try_emplace(name, places.size());
  if (places.size() == object.size()) return;
  places.clear();
  Json merged = Json::object();
  auto& names = merged.get_ref<Json::object_t&>();
  for (auto& [name, value] : object) {
    const auto [place, is_new] = places.try_emplace(name, names.size());
    if (is_new) {
      append_name(merged, name, std::move(value));
    } else {
      (names.begin() + place->second)->second = std::move(value);
    }
  }
  std::swap(object, names);
}

// Builds a tree in linear time, whatever the number of names in an object.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  Json root;
  std::string reason;

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override {
    return put(value);
  }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t& value) override { return put(std::move(value)); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool end_object() override {
    auto& object = stack_.back()->get_ref<Json::object_t&>();
    if (object.size() > kSmallObject) merge_equal_names(object);
    return close();
  }

  bool key(std::string& name) override {
    auto& object = stack_.back()->get_ref<Json::object_t&>();
    if (object.size() < kSmallObject) {
      value_ = &object[name];
    } else {
      value_ = &append_name(*stack_.back(), std::move(name), nullptr);
    }
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const Json::exception& e) override {
    // nlohmann's text starts with "[json.exception....] "; keep what follows.
    std::string_view what = e.what();
    if (auto end = what.find("] "); end != what.npos)
      what.remove_prefix(end + 2);
    reason = on_one_line(what.substr(0, kMaxReason));
    return false;
  }

 private:
  bool put(Json value) {
    *place() = std::move(value);
    return true;
  }

  bool open(Json container) {
    if (stack_.size() == kMaxDepth) {
      reason = fmt::format("nested more than {} levels deep", kMaxDepth);
      return false;
    }
    Json* at = place();
    *at = std::move(container);
    stack_.push_back(at);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  // Where the next value goes.
  Json* place() {
    if (stack_.empty()) return &root;
    if (!stack_.back()->is_array()) return value_;
    auto& list = stack_.back()->get_ref<Json::array_t&>();
    return &list.emplace_back();
  }

  std::vector<Json*> stack_;  // open containers: the last grows, others do not
  Json* value_ = nullptr;     // of the name read last
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
  TreeBuilder builder;
  nlohmann::json_sax<Json>* events = &builder;
  if (!Json::sax_parse(text, events)) {
    return failure("{}: not valid JSON: {}", where, builder.reason);
  }
  // The parser takes this byte, which no JSON has, for the end.
  if (const size_t at = text.find('\0'); at != text.npos) {
    return failure("{}: not valid JSON: a zero byte at {}", where, at);
  }
  return std::move(builder.root);
}

Json& append_name(Json& object, std::string name, Json value) {
  using Container = Json::object_t::Container;
  Container& names = object.get_ref<Json::object_t&>();
  return names.emplace_back(std::move(name), std::move(value)).second;
}

std::string brief(const Json& value) {
  constexpr size_t kMost = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text.replace(kMost, text.npos, "...");
  return text;
}

}  // namespace quern
