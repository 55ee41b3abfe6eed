// What rows of one kind keep, as arrays whose first axis is the rows: keys and
// values [B, H, T, own last dimension] of any codec, or plain states [B, ...].
// Nothing here looks into the numbers.
//
// Results of copy, take_rows, merge_rows hold memory of their own once they
// are evaluated; the others may be views.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kv/rotating_state.h"
#include "ops/cpu_op.h"

namespace quern {

using Planes = std::vector<mx::array>;

namespace storage {

// [B, H, T, last] of the first plane.
mx::Shape shape(const Planes& planes);
size_t bytes(const Planes& planes);

// Rows [rows.begin, rows.end) and of them tokens [tokens.begin, tokens.end).
Planes slice(const Planes& planes, Range rows, Range tokens);
Planes slice_tokens(const Planes& planes, Range tokens);
Planes concat_tokens(std::span<const Planes> parts);
Planes concat_rows(std::span<const Planes> parts);
// n tokens of zeros in front; the planes themselves for n = 0.
Planes pad_left(const Planes& planes, int n);
Planes pad_right(const Planes& planes, int n);
// Rows keep[0], keep[1], ... in this order.
Planes take_rows(const Planes& planes, std::span<const int> keep);
// Shares no memory. (MLX's copy and contiguous may.)
Planes copy(const Planes& planes);
// `update` written over the tokens from `column` on; in place where nothing
// else holds the planes.
Planes write(const Planes& planes, const Planes& update, int column);

// Rows of other lengths, each after left_pad[i] tokens of zeros, in one.
Planes merge_rows(std::span<const Planes> rows, std::span<const int> left_pad);

// Tokens of a ring, oldest first: of one row or all, [from, to) of what counts.
struct TemporalView {
  std::optional<int> row = {};
  int from = 0;
  std::optional<int> to = {};  // valid_length unless given
};
Planes temporal_view(const Planes& planes, const BatchedRotatingState& state,
                     const TemporalView& view);

}  // namespace storage
}  // namespace quern
