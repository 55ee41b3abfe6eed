// Runs the quern binary as a person or a script would.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace quern::test {

struct Done {
  int code;  // exit code; -signal if one ended it
  std::string out, err;

  Json json() const { return parse_json(out, "stdout").or_throw(); }
};

struct CommandInput {
  std::string text = {};                                // of stdin
  std::map<std::string, std::string> environment = {};  // added to ours
};

// Waits for `quern arguments...`.
Done quern(const std::vector<std::string>& arguments,
           const CommandInput& input = {});

}  // namespace quern::test
