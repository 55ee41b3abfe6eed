#include "api/prompt_limit.h"

#include "api/error.h"

namespace quern {
namespace {

size_t string_bytes(const Json& tree) {
  if (tree.is_string()) return tree.get_ref<const std::string&>().size();
  size_t bytes = 0;
  if (tree.is_structured()) {
    for (const Json& item : tree) bytes += string_bytes(item);
  }
  return bytes;
}

// The most bytes that a context of tokens can stand for; 0: unknown.
size_t most_bytes(const ServedModel& served) {
  if (!served.engine) return 0;
  return size_t(served.engine->stats().context) * served.longest_token;
}

}  // namespace

void refuse_endless(std::string_view text, const ServedModel& served) {
  const size_t most = most_bytes(served);
  if (most == 0 || text.size() <= most) return;
  throw error_of(Refusal{.kind = Refusal::Kind::too_long,
                         .asked = int64_t(text.size() / served.longest_token),
                         .most = served.engine->stats().context});
}

bool may_be_endless(const Json& tree, const ServedModel& served) {
  const size_t most = most_bytes(served);
  return most > 0 && string_bytes(tree) > most;
}

}  // namespace quern
