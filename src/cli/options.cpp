#include "cli/options.h"

namespace quern {

CLI::Option* add_values(CLI::App& app, const std::string& names,
                        std::function<void(const std::string&)> read,
                        const std::string& help) {
  CLI::callback_t each = [read](const CLI::results_t& given) {
    for (const std::string& text : given) read(text);
    return true;
  };
  return app.add_option(names, each, help)
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_value(CLI::App& app, const std::string& names,
                       std::function<void(const std::string&)> read,
                       const std::string& help) {
  return add_values(app, names, std::move(read), help)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

CLI::Option* add_text(CLI::App& app, const std::string& names,
                      std::optional<std::string>& text,
                      const std::string& help) {
  return add_value(
      app, names, [&text](const std::string& given) { text = given; }, help);
}

void add_stops(CLI::App& app, std::vector<std::string>& stops) {
  const auto read = [&stops](const std::string& text) {
    if (text.empty()) throw UsageError("--stop: expected text, got ''");
    stops.push_back(text);
  };
  add_values(app, "--stop", read,
             "Text that ends the answer before it; may be repeated");
}

void add_flag(CLI::App& app, const std::string& names, bool& flag,
              const std::string& help) {
  app.add_flag(names, flag, help);
}

}  // namespace quern
