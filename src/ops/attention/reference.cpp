#include <mlx/mlx.h>

#include <limits>
#include <vector>

#include "ops/attention/attention.h"

namespace quern {

using mx::array;

namespace {

array decode_kv(const array& planes, const AttendOptions& o, int capacity,
                int from, int to) {
  const int H = o.kv.kv_heads, D = o.kv.head_dim, S = to - from;
  const KvBlock form = block_of(o.kv.format, D);
  mx::eval(planes);
  const auto* bytes = planes.data<uint8_t>();
  std::vector<float> kv(size_t(2) * H * S * D);
  for (int h = 0; h < H; h++) {
    for (int i = 0; i < S; i++) {
      const int slot = o.ring ? (from + i) % capacity : from + i;
      const uint8_t* block =
          bytes +
          (int64_t(h) * (capacity / kKvBlock) + slot / kKvBlock) * form.bytes;
      float* k = kv.data() + (size_t(h) * S + i) * D;
      decode_token(form, block, slot % kKvBlock, false, k,
                   k + size_t(H) * S * D);
    }
  }
  return array(kv.data(), {2, H, S, D}, mx::float32);
}

}  // namespace

array gather_kv(const array& planes, const AttendOptions& options, int capacity,
                int from, int to, mx::StreamOrDevice s) {
  if (!options.kv.format.raw()) {
    return decode_kv(planes, options, capacity, from, to);
  }
  const int H = options.kv.kv_heads, D = options.kv.head_dim;
  array keys = mx::slice(planes, {0, 0}, {H, capacity * D}, s);
  keys = mx::reshape(keys, {H, capacity / 16, D, 16}, s);
  keys = mx::reshape(mx::transpose(keys, {0, 1, 3, 2}, s), {H, capacity, D}, s);
  array values = mx::slice(planes, {H, 0}, {2 * H, capacity * D}, s);
  values = mx::reshape(values, {H, capacity, D}, s);
  array slots = mx::arange(from, to, mx::int32, s);
  if (options.ring) slots = mx::remainder(slots, array(capacity), s);
  const array kv = mx::take(mx::stack({keys, values}, 0, s), slots, 2, s);
  return mx::astype(kv, mx::float32, s);
}

array attend_reference(const array& q, const array& kv,
                       const AttendOptions& options, mx::StreamOrDevice s) {
  const int N = q.shape(0), H = q.shape(1), D = q.shape(2);
  const int kv_heads = kv.shape(1), S = kv.shape(2), G = H / kv_heads;
  auto part = [&](int i) {  // [kv_heads, 1, S, D]
    return mx::slice(kv, {i, 0, 0, 0}, {i + 1, kv_heads, S, D}, s);
  };
  const array k = mx::reshape(part(0), {kv_heads, 1, S, D}, s);
  const array v = mx::reshape(part(1), {kv_heads, 1, S, D}, s);
  array heads = mx::transpose(q, {1, 0, 2}, s);
  heads = mx::reshape(heads, {kv_heads, G, N, D}, s);
  heads = mx::multiply(heads, array(options.scale), s);
  array scores = mx::matmul(heads, mx::transpose(k, {0, 1, 3, 2}, s), s);
  if (options.soft_cap > 0) {
    const array cap(options.soft_cap);
    scores = mx::multiply(mx::tanh(mx::divide(scores, cap, s), s), cap, s);
  }
  const array query =
      mx::reshape(mx::arange(S - N, S, mx::int32, s), {N, 1}, s);
  const array key = mx::reshape(mx::arange(S, mx::int32, s), {1, S}, s);
  array seen = mx::less_equal(key, query, s);
  if (options.window > 0) {
    seen = mx::logical_and(
        seen, mx::less(query, mx::add(key, array(options.window), s), s), s);
  }
  scores = mx::where(seen, scores,
                     array(-std::numeric_limits<float>::infinity()), s);
  const array out = mx::matmul(mx::softmax(scores, -1, true, s), v, s);
  return mx::reshape(
      mx::transpose(mx::reshape(out, {H, N, D}, s), {1, 0, 2}, s), {N, H * D},
      s);
}

}  // namespace quern
