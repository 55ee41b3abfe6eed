// Stop strings on text, whatever the tokens that it came in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// Follows one stream of text. The concatenated results of push() and finish()
// are the text up to the first place where a stop string begins; a stop that
// was found names itself in matched(). Of stops that begin at the same place
// the one that is listed first wins among those complete.
class StopMatcher {
 public:
  // Empty stop strings match nothing.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that is safe to show. What may still become a stop is held back.
  // After a match everything is dropped.
  std::string push(std::string_view delta);

  // The rest, where the text ends or is interrupted: what was held back becomes
  // no longer stop. It may go on with push(), as if it began there.
  std::string finish();

  bool stopped() const { return match_.has_value(); }
  // The stop that ended the text; only after stopped().
  const std::string& matched() const { return stops_[*match_]; }

 private:
  std::string advance(bool last);

  std::vector<std::string> stops_;
  std::optional<size_t> match_;
  std::string held_;  // shorter than the longest stop
};

}  // namespace quern
