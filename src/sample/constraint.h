// What may come next in a row: the seam between sampling and the grammars,
// schemas and stops of text/, which implements it.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"

namespace quern {

// State of one row; a failure ends that row only.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // The tokens allowed next: bit id % 32 of word id / 32. Ids past the last
  // word are refused; an empty span allows every token. Valid until the next
  // call of this object.
  virtual Result<std::span<const uint32_t>> mask() = 0;

  // The row goes on with `token`.
  virtual Status accept(int32_t token) = 0;

  // Nothing can follow: the row ends here.
  virtual bool done() const = 0;
};

}  // namespace quern
