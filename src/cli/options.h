// Options of the command line, read strictly: a number is the whole argument
// and within its range, or an error that names the option.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str.h"

namespace quern {

// A fault in what was typed (exit code 2).
class UsageError : public Error {
 public:
  using Error::Error;
};

// The names of an option whose value is one argument; `read` gets the value of
// each time it is given.
CLI::Option* add_values(CLI::App& app, const std::string& names,
                        std::function<void(const std::string&)> read,
                        const std::string& help);
// The same, to be given at most once.
CLI::Option* add_value(CLI::App& app, const std::string& names,
                       std::function<void(const std::string&)> read,
                       const std::string& help);

CLI::Option* add_text(CLI::App& app, const std::string& names,
                      std::optional<std::string>& text,
                      const std::string& help);
// --stop, which may be repeated and must not be empty.
void add_stops(CLI::App& app, std::vector<std::string>& stops);
void add_flag(CLI::App& app, const std::string& names, bool& flag,
              const std::string& help);

// Reads all of `text` as a number in [low, high] (NaN is in no range).
template <class T>
T parse_number(const std::string& name, std::string_view text, T low, T high) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || !(value >= low && value <= high)) {
    throw UsageError(
        fmt::format("{}: expected {} from {} to {}, got {}", name,
                    std::is_integral_v<T> ? "a whole number" : "a number", low,
                    high, in_quotes(text)));
  }
  return value;
}

// Numbers with commas between them, at least one.
template <class T>
std::vector<T> parse_numbers(const std::string& name, std::string_view text,
                             T low, T high) {
  std::vector<T> numbers;
  while (true) {
    const size_t comma = text.find(',');
    numbers.push_back(parse_number(name, text.substr(0, comma), low, high));
    if (comma == text.npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

// `value` is a T or an optional one.
template <class T, class Value>
CLI::Option* add_number(CLI::App& app, const std::string& names, Value& value,
                        T low, T high, const std::string& help) {
  const std::string name = names.substr(0, names.find(','));
  auto read = [name, &value, low, high](const std::string& text) {
    value = parse_number(name, text, low, high);
  };
  return add_value(app, names, read, help)
      ->type_name(std::is_integral_v<T> ? "N" : "X");
}

template <class T>
CLI::Option* add_numbers(CLI::App& app, const std::string& name,
                         std::vector<T>& values, T low, T high,
                         const std::string& help) {
  auto read = [name, &values, low, high](const std::string& text) {
    values = parse_numbers(name, text, low, high);
  };
  return add_value(app, name, read, help)->type_name("N,...");
}

template <class T>
struct Word {
  std::string_view text;
  T value;
};

// An option whose value is one of a few words, in any case.
template <class T, size_t N, class Value>
CLI::Option* add_word(CLI::App& app, const std::string& name, Value& value,
                      const Word<T> (&words)[N], const std::string& help) {
  const auto read = [name, &value, &words](const std::string& typed) {
    const std::string given = lower(typed);
    std::string expected;
    for (const auto& [text, meaning] : words) {
      if (given == text) {
        value = meaning;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + std::string(text);
    }
    throw UsageError(fmt::format("{}: expected one of {}, got {}", name,
                                 expected, in_quotes(given)));
  };
  return add_value(app, name, read, help)->type_name("WORD");
}

}  // namespace quern
