#include "api/prompt_limit.h"

#include "api/error.h"

namespace quern {

void refuse_endless(std::string_view text, const ServedModel& served) {
  if (!served.engine) return;
  const int context = served.engine->stats().context;
  const size_t least = text.size() / served.longest_token;
  if (least <= size_t(context)) return;
  throw context_exceeded(fmt::format("at least {}", least), context);
}

}  // namespace quern
