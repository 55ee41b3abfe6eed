// Attention of the rows of a ragged batch, each on its own keys and values.
#pragma once

#include <optional>
#include <vector>

#include "ops/attention/kv_format.h"
#include "ops/cpu_op.h"
#include "ops/norm/rms_norm.h"
#include "ops/qmm/qmm.h"

namespace quern {

// Where the keys and values of one layer lie for one row: an array with room
// for `capacity` tokens (a multiple of 64). Raw numbers:
//   keys   [kv_heads, capacity / 16, D, 16]
//   values [kv_heads, capacity, D]
// one after the other, as [2 * kv_heads, capacity * D]; codes: bytes
// [kv_heads, capacity / 64, block] (kv_format.h). The token of position p is
// in slot p, or p modulo capacity in a ring.
struct KvShape {
  KvFormat format;
  int kv_heads = 0;
  int head_dim = 0;

  bool operator==(const KvShape&) const = default;

  // Whether the array would fit MLX's dimensions.
  bool holds(int capacity) const;
  // The capacity of such an array.
  int capacity_of(const mx::array& planes) const;
  // Of the array; throws Error if it does not hold so many tokens.
  mx::Shape planes(int capacity) const;
  mx::Dtype dtype() const;
  size_t bytes(int capacity) const;  // of the array
};

// A row's part in one call.
struct AttendRow {
  int begin, count;  // its tokens of q, k, v
  int start;         // positions before: its first token has position `start`
  int capacity;      // of its planes after the call, at least as before
  mx::array planes;  // keys and values of [0, start); empty when start is 0
  // What must run before the planes may be read: the `done` of the call that
  // wrote them, if it is not evaluated yet.
  std::optional<mx::array> after = {};
};

struct AttendOptions {
  KvShape kv;
  float scale = 1;     // of q . k
  int window = 0;      // a token sees the last `window` tokens; 0 = all
  float soft_cap = 0;  // cap * tanh(score / cap); 0 = none
  bool ring = false;   // slots are taken modulo capacity
  // Of arithmetic on codes: exact is f32 on the numbers they decode to.
  Precision precision = Precision::fast;
  // Of each head [D], before the rotation.
  std::optional<RmsNorm> q_norm = {}, k_norm = {};
  bool interleaved_rope = false;  // pairs (2i, 2i + 1), not (i, i + R)
};

// A ring that has wrapped must hold the window and the tokens written at once.
constexpr int kRingStep = 256;
constexpr int kMostWindow = 1 << 24;
constexpr int ring_capacity(int window) {
  return qmm::round_up(window, 64) + kRingStep;
}

struct Attended {
  mx::array out;                  // f32 [T, H * D]
  mx::array done;                 // evaluated once the planes are written
  std::vector<mx::array> planes;  // of each row, its tokens appended
};

// q [T, H * D], k and v [T, kv_heads * D]. Heads of q and k are normalised and
// rotated by `rope_table` [T, 2, R] (ops/rope/rope.h) where these are given.
// The given planes are written in place past `start` (or copied to larger ones)
// when the call is evaluated: an older value of them still reads right up to
// its own length, a ring's does not. Planes are memory, not nodes of the graph:
// who reads them, or attends to them again, waits for `done`. A token's result
// depends on its row's keys alone: scores in order of d, keys in blocks of 64,
// the blocks of 512 keys joined in order.
Attended attend(const mx::array& q, const mx::array& k, const mx::array& v,
                std::vector<AttendRow> rows, const AttendOptions& options,
                const std::optional<mx::array>& rope_table = {},
                mx::StreamOrDevice s = {});

// Keys and values of positions [from, to) of a row's planes, as f32
// [2, kv_heads, to - from, D], in plain MLX ops, or decoded in plain C++.
mx::array gather_kv(const mx::array& planes, const AttendOptions& options,
                    int capacity, int from, int to, mx::StreamOrDevice s = {});

// Encodes k and v [D] of one head into a slot of planes of codes.
void put_kv(const KvShape& kv, const float* k, const float* v, int head,
            int slot, mx::array& planes);

// The meaning of attend for one row whose keys and values lie in order, in
// plain MLX ops: q [N, H, D], kv [2, kv_heads, S, D] with the N tokens last.
mx::array attend_reference(const mx::array& q, const mx::array& kv,
                           const AttendOptions& options,
                           mx::StreamOrDevice s = {});

}  // namespace quern
