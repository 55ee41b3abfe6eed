// The keys and values of one attention layer for rows in one buffer, all of
// one codec, in plain MLX ops: the second form of what Cache holds for each
// row, for devices without a kernel for ragged rows, and what tests compare
// with. Rows end together (rotating_state.h); what joins, leaves or moves are
// the stored bytes, never decoded numbers.
#pragma once

#include <string>

#include "kv/form.h"
#include "kv/masks.h"

namespace quern {

struct MergedAttend {
  float scale = 1;                 // of q . k
  float soft_cap = 0;              // cap * tanh(score / cap); 0 = none
  std::optional<int> window = {};  // less than the ring's, or in no ring
};

// q [B, H, N, D], k and v [B, kv_heads, S, D], H a multiple of kv_heads ->
// f32 [B, H, N, D].
mx::array masked_attention(const mx::array& q, const mx::array& k,
                           const mx::array& v, const Mask& mask,
                           const MergedAttend& options);

class MergedCache {
 public:
  // Empty rows. window: a ring of the last `window` tokens; 0 keeps all.
  MergedCache(KvForm form, int window, int rows = 1);
  // One row of `offset` tokens, of which the planes [1, H, T, last] hold, in
  // order, what the layout keeps; of a ring at least what the next token sees.
  static MergedCache row(KvForm form, int window, const Planes& planes,
                         int offset);
  // All rows of caches of one signature; else throws Error. These, gather, take
  // and extract copy, and are evaluated: they hold no memory of what they are
  // of.
  static MergedCache merge(std::span<const MergedCache* const> caches);
  // Those rows, without columns that none of them needs.
  struct RowOf {
    const MergedCache* cache;
    int row;
  };
  static MergedCache gather(std::span<const RowOf> rows);

  // Equal ones may merge.
  std::string signature() const;
  const KvForm& form() const { return form_; }
  int window() const { return window_; }  // 0: all
  int batch_size() const { return state_.batch_size(); }
  // Tokens each row has seen.
  const std::vector<int>& offsets() const { return state_.offsets(); }
  const BatchedRotatingState& state() const { return state_; }
  // The buffer [B, H, length, last].
  const Planes& planes() const { return planes_; }
  size_t bytes() const { return storage::bytes(planes_); }
  // The most columns that single appends and gather give a buffer whose longest
  // row has `tokens`.
  static int columns(int window, int tokens);

  // Rows keep[0], keep[1], ... in this order.
  MergedCache take(std::span<const int> keep) const;
  // One row without its padding.
  MergedCache extract(int row) const;
  void filter(std::span<const int> keep) { *this = take(keep); }
  // The rows of `other` behind these.
  void extend(const MergedCache& other);
  // Removes the last drop[b] tokens of each row (none are given: 0), and the
  // columns that then no row needs.
  void align(std::span<const int> drop = {});
  // The most tokens that trim can take from every row's end.
  int trimmable() const;
  void trim(int tokens);  // throws Error for more

  // Room for the next token, evaluated: the append allocates no buffer.
  void make_room();

  // int32 [B]: the positions of the next token. The same array from the first
  // call or append of a step to release_rope_offsets, which ends the step.
  const mx::array& rope_offsets();
  void release_rope_offsets();

  // For N tokens more, before they are appended.
  Mask mask(int N, std::optional<int> window = {}) const;
  // k, v [B, kv_heads, N, D], N for every row: what the N tokens attend to, in
  // the order of the mask.
  Planes append(const mx::array& k, const mx::array& v);
  // append and attention: q [B, H, N, D] -> f32 [B, H, N, D]. Sums run over the
  // tokens oldest first, wherever a ring has its start.
  mx::array attend(const mx::array& q, const mx::array& k, const mx::array& v,
                   const MergedAttend& options);

 private:
  // Rows in temporal order, which end together.
  struct Block {
    Planes planes;
    std::vector<int> left_pad, offsets;
  };
  static MergedCache assembled(KvForm form, int window,
                               std::vector<Block> blocks);
  Block block() const;
  Block row_block(int row, int drop) const;

  int length() const { return storage::shape(planes_)[2]; }
  void check(const mx::array& x, const char* name) const;
  void require_row(int row) const;
  bool whole(int row) const;
  void settle();
  void straighten();
  void grow(int N);

  KvForm form_;
  int window_;
  BatchedRotatingState state_;
  Planes planes_;
  std::optional<mx::array> rope_offsets_;
  bool written_ = false;  // in this step
};

}  // namespace quern
