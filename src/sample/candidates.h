// The tokens that truncation leaves, and the truncations themselves. Each one
// keeps at least one token of a set that holds one. Tokens at the same distance
// are equals: top_p, min_p and XTC treat them alike, top_k prefers low ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/distances.h"

namespace quern {

class Candidates {
 public:
  // The tokens of a row no farther than `reach` from its peak. `nearest` is
  // what to_distances gave with the row.
  void collect(std::span<const float> distances, std::span<const float> nearest,
               float reach);

  // Keeps a token if the mass of those nearer than it is below top_p of
  // `total`, the mass of the whole row at temperature 1. The set must hold all
  // tokens that are to be kept and all nearer ones.
  void keep_top_p(float top_p, double total);

  // Keeps the tokens at least min_p times as likely as the peak.
  void keep_min_p(float min_p);

  // Of the tokens with more than `threshold` of the set's mass, keeps the
  // least likely and the exempt ones.
  void drop_top_choices(float threshold, std::span<const int32_t> exempt);

  // Keeps the k most likely tokens.
  void keep_top_k(int k);

  // Measures the distances from the nearest candidate: XTC may have dropped the
  // peak of the row.
  void rebase();

  size_t size() const { return ids_.size(); }
  std::span<const int32_t> ids() const { return ids_; }  // ascending
  std::span<const float> distances() const { return distances_; }

 private:
  // Keeps entry i if keep(i).
  template <class Keep>
  void filter(Keep keep);
  void weigh_all();

  std::vector<int32_t> ids_;
  std::vector<float> distances_;  // of ids_
  std::vector<double> weights_;   // scratch: of ids_, at temperature 1
  std::vector<float> order_;      // scratch
};

// Tokens farther than this cannot be among those that keep_top_p keeps in a row
// of `tokens` tokens.
float top_p_reach(float top_p, double total, size_t tokens);

// As far as the distance of the k-th most likely token, or farther.
float top_k_reach(std::span<const float> nearest, int k,
                  std::vector<float>& scratch);

// The distance at which keep_min_p cuts.
float min_p_reach(float min_p);

}  // namespace quern
