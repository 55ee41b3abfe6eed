// One request's past: a state for each layer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kv/cache.h"

namespace quern {

class Row {
 public:
  explicit Row(std::vector<std::unique_ptr<LayerState>> layers)
      : layers_(std::move(layers)) {}

  int length() const { return layers_.empty() ? 0 : layers_[0]->offset(); }
  size_t bytes() const;
  // The most memory of a row that make_room keeps within `tokens`: its layers,
  // and the copy of one of them while it grows.
  size_t bytes_at(int tokens) const;
  // Makes room for `more` tokens where it lacks, one layer after the other;
  // grows ahead like a layout, but not beyond what `most` tokens need.
  void make_room(int more, int most);
  // Removes the last tokens from every layer, or from none; whether it did.
  bool trim(int tokens);
  Row copy() const;
  // How each layer keeps its past.
  std::vector<std::string> signatures() const;

  // Takes a layer's past out of the row, which then is good for nothing else.
  std::unique_ptr<LayerState> release(int i) { return std::move(layers_[i]); }

  LayerState& layer(int i) { return *layers_[i]; }
  const LayerState& layer(int i) const { return *layers_[i]; }
  int layers() const { return int(layers_.size()); }

 private:
  std::vector<std::unique_ptr<LayerState>> layers_;
};

// How many layers have which signature.
std::map<std::string, int> counts_of(const std::vector<std::string>& layers);

}  // namespace quern
