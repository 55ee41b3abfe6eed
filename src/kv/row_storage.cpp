#include "kv/row_storage.h"

#include <mlx/mlx.h>

namespace quern::storage {
namespace {

using mx::array;

constexpr int kRows = 0, kTokens = 2;  // axes

template <class Each>
Planes each(const Planes& planes, Each one) {
  Planes out;
  out.reserve(planes.size());
  for (const array& a : planes) out.push_back(one(a));
  return out;
}

array cut(const array& a, int axis, Range range) {
  mx::Shape start(a.ndim(), 0), stop = a.shape();
  start[axis] = range.begin;
  stop[axis] = range.end;
  return mx::slice(a, std::move(start), std::move(stop));
}

Planes concat(std::span<const Planes> parts, int axis) {
  if (parts.empty()) fail("[kv.storage] nothing to put together");
  Planes out;
  for (size_t i = 0; i < parts[0].size(); i++) {
    std::vector<array> arrays;
    for (const Planes& part : parts) arrays.push_back(part.at(i));
    out.push_back(mx::concatenate(std::move(arrays), axis));
  }
  return out;
}

array padded(const array& a, int before, int after) {
  return mx::pad(a, {kTokens}, {before}, {after}, array(0, a.dtype()));
}

// MLX's slice at a place known only to the graph always allocates.
array detached(const array& a) {
  if (a.size() == 0) return mx::zeros(a.shape(), a.dtype());
  return mx::slice(a, mx::zeros({1}, mx::int32), {kRows}, a.shape());
}

}  // namespace

mx::Shape shape(const Planes& planes) { return planes.at(0).shape(); }

size_t bytes(const Planes& planes) {
  size_t sum = 0;
  for (const array& a : planes) sum += a.nbytes();
  return sum;
}

Planes slice(const Planes& planes, Range rows, Range tokens) {
  return each(planes, [&](const array& a) {
    return cut(cut(a, kRows, rows), kTokens, tokens);
  });
}

Planes slice_tokens(const Planes& planes, Range tokens) {
  return each(planes, [&](const array& a) { return cut(a, kTokens, tokens); });
}

Planes concat_tokens(std::span<const Planes> parts) {
  return concat(parts, kTokens);
}

Planes concat_rows(std::span<const Planes> parts) {
  return concat(parts, kRows);
}

Planes pad_left(const Planes& planes, int n) {
  if (n == 0) return planes;
  return each(planes, [n](const array& a) { return padded(a, n, 0); });
}

Planes pad_right(const Planes& planes, int n) {
  if (n == 0) return planes;
  return each(planes, [n](const array& a) { return padded(a, 0, n); });
}

Planes take_rows(const Planes& planes, std::span<const int> keep) {
  const array rows(keep.data(), {int(keep.size())}, mx::int32);
  return each(planes, [&](const array& a) { return mx::take(a, rows, kRows); });
}

Planes copy(const Planes& planes) { return each(planes, detached); }

Planes write(const Planes& planes, const Planes& update, int column) {
  Planes out;
  for (size_t i = 0; i < planes.size(); i++) {
    mx::Shape start(planes[i].ndim(), 0), stop = planes[i].shape();
    start[kTokens] = column;
    stop[kTokens] = column + update.at(i).shape(kTokens);
    out.push_back(mx::slice_update(planes[i], update[i], std::move(start),
                                   std::move(stop)));
  }
  return out;
}

Planes merge_rows(std::span<const Planes> rows, std::span<const int> left_pad) {
  std::vector<Planes> parts;
  for (size_t i = 0; i < rows.size(); i++) {
    parts.push_back(pad_left(rows[i], left_pad[i]));
  }
  Planes out = concat_rows(parts);
  return parts.size() == 1 && left_pad[0] == 0 ? copy(out) : out;
}

Planes temporal_view(const Planes& planes, const BatchedRotatingState& state,
                     const TemporalView& view) {
  const Range rows =
      view.row ? Range{*view.row, *view.row + 1} : Range{0, state.batch_size()};
  std::vector<Planes> parts;
  for (const Range& range : state.temporal_ranges(shape(planes)[kTokens])) {
    parts.push_back(slice(planes, rows, range));
  }
  return slice_tokens(concat_tokens(parts),
                      {view.from, view.to.value_or(state.valid_length())});
}

}  // namespace quern::storage
