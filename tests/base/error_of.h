#pragma once

#include <string>

#include "base/error.h"

namespace quern::test {

// The what() of the Error that `call` throws; empty if it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace quern::test
