// A model's configuration, in Hugging Face's field names whatever the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace quern {

// Reads fields with their type and range checked. Every accessor throws Error
// naming source and field.
class Config {
 public:
  // `where` names the source in errors. The fields of "text_config" come
  // before those beside it.
  Config(Json json, std::string where);

  const std::string& where() const { return where_; }
  const Json& json() const { return json_; }

  std::string text(const char* key) const;
  std::optional<std::string> text_if(const char* key) const;
  int integer(const char* key, int least, int most) const;
  std::optional<int> integer_if(const char* key, int least, int most) const;
  float real(const char* key) const;
  std::optional<float> real_if(const char* key) const;
  bool flag(const char* key, bool otherwise) const;
  // The field if it is there and not null.
  const Json* find(const char* key) const;

  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  Json json_;
  std::string where_;
};

}  // namespace quern
