#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "hub/library.h"

namespace quern {
namespace {

void list_as_json(const std::vector<LocalModel>& models) {
  Json list = Json::array();
  for (const LocalModel& model : models) {
    list.push_back({{"id", model.id},
                    {"format", format_name(model.format)},
                    {"bytes", model.bytes},
                    {"path", model.path.string()}});
  }
  print_json(list);
}

void list_as_text(const std::vector<LocalModel>& models, const Places& places) {
  if (models.empty()) {
    print(fmt::format("no models in {} or {}\n", places.models.string(),
                      places.hub_cache.string()));
  }
  for (const LocalModel& model : models) {
    print(fmt::format("{:<48} {:<12} {:>8.1f} MB\n", model.id,
                      format_name(model.format), model.bytes / 1e6));
  }
}

}  // namespace

Action add_models(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_flag(app, "--json", *json, "A list of {id, format, bytes, path}");
  return [json] {
    const Places places = Places::from_environment();
    const auto models = list_models(places);
    if (*json) return list_as_json(models);
    list_as_text(models, places);
  };
}

}  // namespace quern
