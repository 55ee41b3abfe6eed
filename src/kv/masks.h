// Which keys the tokens of a step may see, for rows in one buffer.
#pragma once

#include <optional>
#include <span>

#include "kv/rotating_state.h"
#include "ops/cpu_op.h"

namespace quern {

struct Mask {
  enum class Mode {
    none,    // every key
    causal,  // token i of N sees all keys but the last N - 1 - i
    array,   // where `allow` is true
  };
  Mode mode = Mode::none;
  std::optional<mx::array> allow = {};  // bool [N, S] or [B, 1, N, S]
};

// N more tokens of one row that has `offset`, all kept. A token sees the last
// `window` tokens, itself included.
Mask serial_mask(int N, int offset, std::optional<int> window);

// The same where the last max_size tokens are kept, in temporal order unless
// N = 1; without a window, one of max_size.
Mask serial_rotating_mask(int N, int offset, int max_size,
                          std::optional<int> window = {});

// Rows that end together in S columns, the last N written now, after left_pad
// columns of padding each: bool [B, 1, N, S].
mx::array batched_mask(int N, int S, std::span<const int> left_pad,
                       std::optional<int> window);

// The same for a ring in the state before the write, in the order of its
// columns after it; N > 1 wants a ring in temporal order (straighten).
mx::array batched_rotating_mask(const BatchedRotatingState& state, int N,
                                std::optional<int> window = {});

}  // namespace quern
