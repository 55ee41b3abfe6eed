// What rows keep of layers with a recurrent state (a convolution's last
// inputs, a matrix of sums): arrays [B, ...] of one size, whatever the length.
#pragma once

#include <string>

#include "kv/row_storage.h"

namespace quern {

class RecurrentRows {
 public:
  // states [B, ...], at least one.
  explicit RecurrentRows(Planes states);

  int batch_size() const { return states_[0].shape(0); }
  const Planes& states() const { return states_; }
  size_t bytes() const { return storage::bytes(states_); }
  std::string signature() const;  // equal ones may merge

  // True copies, evaluated. Rows keep[0], keep[1], ... in this order.
  RecurrentRows take(std::span<const int> keep) const;
  // All rows of states of one signature; else throws Error.
  static RecurrentRows merge(std::span<const RecurrentRows* const> rows);

 private:
  Planes states_;
};

}  // namespace quern
