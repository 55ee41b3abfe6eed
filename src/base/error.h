// Two kinds of failure: a caller's mistake throws Error; an expected outcome
// (missing, corrupt, refused, does not fit) is a Result that holds its reason.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace quern {

// A caller's mistake. what() is one line with the place in brackets:
// "[kv.merge] rows must share a signature: got ring/4 and append".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

// The reason why a Result holds no value: one line (what, where, what was
// expected).
struct Failure {
  std::string reason;
};

template <class... Args>
Failure failure(fmt::format_string<Args...> text, Args&&... args) {
  return {fmt::format(text, std::forward<Args>(args)...)};
}

// Either a T or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Failure failure) : state_(std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const std::string& reason() const { return std::get<1>(state_).reason; }
  Failure failure() const { return std::get<1>(state_); }

  // The value, or an Error with the reason: for callers (cli) that end there.
  T or_throw() && {
    if (!ok()) throw Error(reason());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

// A Result without a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Failure failure) : failure_(std::move(failure)) {}

  bool ok() const { return !failure_; }
  explicit operator bool() const { return ok(); }
  const std::string& reason() const { return failure_->reason; }
  Failure failure() const { return *failure_; }
  void or_throw() const {
    if (failure_) throw Error(failure_->reason);
  }

 private:
  std::optional<Failure> failure_;
};

}  // namespace quern
