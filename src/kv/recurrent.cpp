#include "kv/recurrent.h"

#include <mlx/mlx.h>

#include <sstream>

namespace quern {

RecurrentRows::RecurrentRows(Planes states) : states_(std::move(states)) {
  if (states_.empty()) fail("[kv.recurrent] needs a state");
  for (const mx::array& a : states_) {
    if (a.ndim() == 0 || a.shape(0) != states_[0].shape(0)) {
      fail("[kv.recurrent] states of other rows");
    }
  }
}

std::string RecurrentRows::signature() const {
  std::ostringstream out;
  out << "recurrent";
  for (const mx::array& a : states_) {
    out << '/' << a.dtype();
    for (int i = 1; i < int(a.ndim()); i++) {
      out << (i == 1 ? ':' : 'x') << a.shape(i);
    }
  }
  return out.str();
}

RecurrentRows RecurrentRows::take(std::span<const int> keep) const {
  for (int row : keep) {
    if (row < 0 || row >= batch_size()) {
      fail("[kv.filter] no row {} of {}", row, batch_size());
    }
  }
  RecurrentRows out(storage::take_rows(states_, keep));
  mx::eval(out.states_);
  return out;
}

RecurrentRows RecurrentRows::merge(std::span<const RecurrentRows* const> rows) {
  if (rows.empty()) fail("[kv.merge] needs a row");
  std::vector<Planes> parts;
  for (const RecurrentRows* part : rows) {
    if (part->signature() != rows[0]->signature()) {
      fail("[kv.merge] rows must share a signature: got {} and {}",
           rows[0]->signature(), part->signature());
    }
    parts.push_back(part->states_);
  }
  const Planes together = storage::concat_rows(parts);
  RecurrentRows out(parts.size() == 1 ? storage::copy(together) : together);
  mx::eval(out.states_);
  return out;
}

}  // namespace quern
