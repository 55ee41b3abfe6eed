// Views of the parts of a JSON text, so that a value can be passed on as it was
// written: its spaces, the order of its keys, the digits of its numbers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

// The members of an object: its decoded keys and its values' texts. Both
// functions are given valid JSON; what they return points into it.
std::vector<std::pair<std::string, std::string_view>> json_members(
    std::string_view object);

// The texts of an array's elements.
std::vector<std::string_view> json_elements(std::string_view array);

}  // namespace quern
