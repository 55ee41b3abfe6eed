// What the engine sees of one layer's past, for one row of a batch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ops/cpu_op.h"

namespace quern {

class LayerState {
 public:
  virtual ~LayerState() = default;

  // Tokens stored so far; the position of the next one.
  virtual int offset() const = 0;
  // The most tokens that trim can remove, from the end.
  virtual int trimmable() const = 0;
  // Removes the last tokens; throws Error for more than trimmable().
  virtual void trim(int tokens) = 0;
  // Memory held, in bytes.
  virtual size_t bytes() const = 0;
  // What bytes() is after reserve(tokens) on an empty state; SIZE_MAX if it
  // cannot hold so many.
  virtual size_t bytes_at(int tokens) const = 0;
  // Tokens that fit before it has to grow.
  virtual int room() const = 0;
  // Grows now, to hold `tokens` in all; waits for what is under way.
  virtual void reserve(int tokens) = 0;
  // What is stored how: rows of equal signatures may share a kernel call.
  virtual std::string signature() const = 0;
  // A true copy: shares no memory with this one.
  virtual std::unique_ptr<LayerState> copy() const = 0;
  // What must be evaluated for this state to be in memory.
  virtual std::vector<mx::array> arrays() const = 0;
};

}  // namespace quern
