// How a request ended.
#pragma once

namespace quern {

enum class Finish {
  stop,       // an end token, the listener's word, or a constraint that is done
  length,     // the most tokens that it may have
  cancelled,  // by its ticket, or because the engine shut down
  failed      // for a reason that stands beside it
};

}  // namespace quern
