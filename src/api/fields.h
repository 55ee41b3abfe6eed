// The fields of a request: null is absent, a wrong type or a value out of range
// is an ApiError that names the field, an unknown field is ignored.
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"

namespace quern {

// A body as JSON; it must be an object. In linear time.
Json parse_body(std::string_view body);

class Fields {
 public:
  // `place` is put before the names in errors: "messages[0]". The object must
  // outlive this.
  explicit Fields(const Json& object, std::string place = {});

  // Null if the field is absent.
  const Json* find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  std::optional<float> number(std::string_view name, float low,
                              float high) const;
  // A whole number of any size, to double's precision.
  std::optional<double> whole(std::string_view name, double low) const;
  std::optional<int> integer(std::string_view name, int low,
                             int high = INT_MAX) const;
  const Json* list(std::string_view name) const;
  const Json* object(std::string_view name) const;

  // The name with its place.
  std::string path(std::string_view name) const;

  // The field must be of type `type` ("bool").
  [[noreturn]] void refuse_type(std::string_view name, std::string_view type,
                                const Json& value) const;

 private:
  const Json& object_;
  std::string place_;
};

// A whole number of JSON, also written as 5.0 or 5e0.
bool is_whole(const Json& value);

}  // namespace quern
