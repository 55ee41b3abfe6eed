// Who listens on a port.
#pragma once

#include <string>

namespace quern {

// Whether a quern answers there within two seconds.
bool quern_answers(const std::string& host, int port);

}  // namespace quern
