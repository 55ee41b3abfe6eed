#include "api/fields.h"

#include <cmath>
#include <limits>

#include "base/str.h"

namespace quern {

Json parse_body(std::string_view body) {
  if (!valid_utf8(body)) throw ApiError("body is not valid UTF-8");
  auto json = parse_json(body, "body");
  if (!json) throw ApiError(json.reason());
  if (!json->is_object()) {
    throw ApiError("body: expected a JSON object, got " + brief(*json));
  }
  return std::move(json).value();
}

bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() &&
         value.get<double>() == std::trunc(value.get<double>());
}

Fields::Fields(const Json& object, std::string place)
    : object_(object), place_(std::move(place)) {
  if (!object.is_object()) {
    refuse(place_, "{} must be an object, got {}", place_, brief(object));
  }
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::path(std::string_view name) const {
  return place_.empty() ? std::string(name)
                        : fmt::format("{}.{}", place_, name);
}

void Fields::refuse_type(std::string_view name, std::string_view type,
                         const Json& value) const {
  refuse(path(name), "{} must be of type {}, got {}", path(name), type,
         brief(value));
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_boolean()) refuse_type(name, "bool", *value);
  return value->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) refuse_type(name, "string", *value);
  return value->get<std::string>();
}

std::optional<float> Fields::number(std::string_view name, float low,
                                    float high) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_number()) refuse_type(name, "float", *value);
  const double number = value->get<double>();
  if (number < low || number > high) {
    refuse(path(name), "{} must be in [{}, {}], got {}", path(name), low, high,
           brief(*value));
  }
  // 0 often means "off": what is above it stays so.
  if (number > 0 && float(number) == 0) {
    return std::numeric_limits<float>::denorm_min();
  }
  return float(number);
}

std::optional<double> Fields::whole(std::string_view name, double low) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!is_whole(*value)) refuse_type(name, "int", *value);
  const double number = value->get<double>();
  if (number < low) {
    refuse(path(name), "{} must be at least {}, got {}", path(name), low,
           brief(*value));
  }
  return number;
}

std::optional<int> Fields::integer(std::string_view name, int low,
                                   int high) const {
  const auto number = whole(name, low);
  if (!number) return {};
  if (*number > high) {
    refuse(path(name), "{} must be at most {}, got {}", path(name), high,
           brief(*find(name)));
  }
  return int(*number);
}

const Json* Fields::list(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_array()) refuse_type(name, "list", *value);
  return value;
}

const Json* Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_object()) refuse_type(name, "object", *value);
  return value;
}

}  // namespace quern
