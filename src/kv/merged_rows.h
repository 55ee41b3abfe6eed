// The past of rows that decode together in merged buffers (merged.h), a token
// a step: what Row is for one.
#pragma once

#include <vector>

#include "kv/merged.h"
#include "kv/row.h"

namespace quern {

class MergedRows {
 public:
  int size() const;           // rows
  int length(int row) const;  // in tokens
  size_t bytes() const;       // held, padding included
  int layers() const { return int(layers_.size()); }
  MergedCache& layer(int i) { return layers_[i]; }

  // The most memory that each of some rows takes, of which the longest comes to
  // hold `tokens`, alone or merged: its share of all layers, and of what a
  // layer takes while it is rearranged or attended to. SIZE_MAX if it cannot
  // hold so many.
  static size_t bytes_at(const Row& empty, int tokens);

  // Keeps the rows keep[0], keep[1], ... in this order, then those that join,
  // whose signatures must be equal: one layer after the other, so that only
  // one is there twice. If it throws, all are lost.
  void arrange(std::span<const int> keep, std::vector<Row> joining);
  // Makes room for the next token of all rows in the same way.
  void make_room();
  // A row's past on planes of its own.
  Row extract(int row) const;

 private:
  std::vector<MergedCache> layers_;
};

}  // namespace quern
