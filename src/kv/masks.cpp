#include "kv/masks.h"

#include <mlx/mlx.h>

#include <algorithm>

namespace quern {
namespace {

using mx::array;

array positions(int from, int to, mx::Shape shape) {
  return mx::reshape(mx::arange(from, to, mx::int32), std::move(shape));
}

// queries [N, 1] against keys [S].
array in_reach(const array& queries, const array& keys,
               std::optional<int> window) {
  const array past = mx::less_equal(keys, queries);
  if (!window) return past;
  return mx::logical_and(past,
                         mx::less(queries, mx::add(keys, array(*window))));
}

// Of N queries that begin at `first`: bool [B, 1, N, S].
array padded_mask(const array& keys, int first, int N,
                  std::span<const int> left_pad, std::optional<int> window) {
  const array queries = positions(first, first + N, {N, 1});
  const int B = int(left_pad.size());
  const array pads = array(left_pad.data(), {B, 1, 1, 1}, mx::int32);
  return mx::logical_and(in_reach(queries, keys, window),
                         mx::greater_equal(keys, pads));
}

Mask array_mask(int N, int offset, int window) {
  const array queries = positions(offset, offset + N, {N, 1});
  const array keys = positions(0, offset + N, {offset + N});
  return {Mask::Mode::array, in_reach(queries, keys, window)};
}

}  // namespace

Mask serial_mask(int N, int offset, std::optional<int> window) {
  if (N == 1) return {};
  if (!window || (offset == 0 && N <= *window)) return {Mask::Mode::causal};
  return array_mask(N, offset, *window);
}

Mask serial_rotating_mask(int N, int offset, int max_size,
                          std::optional<int> window) {
  if (N == 1) return {};
  const int held = std::min(max_size - 1, offset);
  const int reach = window.value_or(max_size);
  if (held + N <= reach) return {Mask::Mode::causal};
  return array_mask(N, held, reach);
}

array batched_mask(int N, int S, std::span<const int> left_pad,
                   std::optional<int> window) {
  return padded_mask(positions(0, S, {S}), S - N, N, left_pad, window);
}

array batched_rotating_mask(const BatchedRotatingState& state, int N,
                            std::optional<int> window) {
  const int size = state.max_size(), index = state.ring_index();
  const int offset = std::min(size - 1, state.total_offset()), S = offset + N;
  const bool wraps = N == 1 && (state.rotated() || index >= size);
  const int lost = std::max(0, index - size + (N > 1)) + wraps;
  std::vector<int> pads = state.left_pad();
  for (int& pad : pads) pad -= lost;
  array keys = positions(0, S, {S});
  if (wraps) {  // column c holds key (c - shift) mod S
    const int shift = (index >= size ? 0 : index) + 1;
    keys = mx::remainder(mx::subtract(keys, array(shift)), array(S));
  }
  return padded_mask(keys, offset, N, pads, window.value_or(size));
}

}  // namespace quern
