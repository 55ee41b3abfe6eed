#include "nn/config.h"

#include <cmath>

namespace quern {

Config::Config(Json json, std::string where)
    : json_(std::move(json)), where_(std::move(where)) {
  if (!json_.is_object()) refuse("expected an object");
  if (auto it = json_.find("text_config");
      it != json_.end() && it->is_object()) {
    Json inner = *it;
    for (const auto& [key, value] : json_.items()) {
      if (!inner.contains(key)) inner[key] = value;
    }
    json_ = std::move(inner);
  }
}

void Config::refuse(const std::string& reason) const {
  fail("{}: {}", where_, reason);
}

const Json* Config::find(const char* key) const {
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::string> Config::text_if(const char* key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_string()) refuse(fmt::format("{} must be a string", key));
  return value->get<std::string>();
}

std::string Config::text(const char* key) const {
  if (auto value = text_if(key)) return *value;
  refuse(fmt::format("{} is missing", key));
}

std::optional<int> Config::integer_if(const char* key, int least,
                                      int most) const {
  const Json* value = find(key);
  if (!value) return {};
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    refuse(fmt::format("{} must be an integer in [{}, {}], got {}", key, least,
                       most, brief(*value)));
  }
  return int(number);
}

int Config::integer(const char* key, int least, int most) const {
  if (auto value = integer_if(key, least, most)) return *value;
  refuse(fmt::format("{} is missing", key));
}

std::optional<float> Config::real_if(const char* key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_number() || !std::isfinite(value->get<float>())) {
    refuse(fmt::format("{} must be a number, got {}", key, brief(*value)));
  }
  return value->get<float>();
}

float Config::real(const char* key) const {
  if (auto value = real_if(key)) return *value;
  refuse(fmt::format("{} is missing", key));
}

bool Config::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean())
    refuse(fmt::format("{} must be true or false", key));
  return value->get<bool>();
}

}  // namespace quern
