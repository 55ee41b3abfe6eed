#include "text/stops.h"

#include <algorithm>
#include <utility>

namespace quern {

StopMatcher::StopMatcher(std::vector<std::string> stops)
    : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view delta) {
  if (stopped()) return {};
  held_ += delta;
  return advance(false);
}

std::string StopMatcher::finish() {
  return stopped() ? std::string() : advance(true);
}

std::string StopMatcher::advance(bool last) {
  // The first place where a stop begins, or may begin once more text is there.
  for (size_t at = 0; at < held_.size(); ++at) {
    const std::string_view rest = std::string_view(held_).substr(at);
    bool may_begin = false;
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (rest.starts_with(stops_[i])) {
        match_ = i;
        std::string out = held_.substr(0, at);
        held_.clear();
        return out;
      }
      may_begin = may_begin || (!last && stops_[i].starts_with(rest));
    }
    if (may_begin) {
      std::string out = held_.substr(0, at);
      held_.erase(0, at);
      return out;
    }
  }
  return std::exchange(held_, {});
}

}  // namespace quern
