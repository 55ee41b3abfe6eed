// The meaning of the tiles (format.h), in plain MLX ops.
#include <mlx/mlx.h>

#include "ops/qmm/qmm.h"

namespace quern {
namespace {

using mx::array;
using qmm::kTileRows;
using qmm::Scales;

mx::Dtype dtype_of(qmm::Number number) {
  switch (number) {
    case qmm::Number::f16: return mx::float16;
    case qmm::Number::bf16: return mx::bfloat16;
    default: return mx::float32;
  }
}

// Bits [from, from + count) of bytes.
array bits_of(const array& bytes, int from, int count, mx::StreamOrDevice s) {
  return mx::bitwise_and(mx::right_shift(bytes, array(uint8_t(from)), s),
                         array(uint8_t((1 << count) - 1)), s);
}

// A plane of `count` bits: [tiles, units, 64 * count] -> [.., 8 quads, 64].
array plane(const array& p, int count, mx::StreamOrDevice s) {
  const int tiles = p.shape(0), units = p.shape(1);
  const array lines = mx::reshape(p, {tiles, units, count, 64}, s);
  std::vector<array> quads;
  for (int at = 0; at < 8; at += count) {
    quads.push_back(bits_of(lines, at, count, s));
  }
  return mx::concatenate(quads, 2, s);
}

// Codes of all tiles: uint8 [tiles, units * 32, 16] (k before rows).
array codes_of(const array& code_bytes, int bits, int units,
               mx::StreamOrDevice s) {
  const int tiles = code_bytes.shape(0);
  const array u = mx::reshape(code_bytes, {tiles, units, 64 * bits}, s);
  array codes = mx::zeros({tiles, units, 8, 64}, mx::uint8, s);
  int done = 0;
  for (int count : {8, 4, 2, 1}) {
    const bool has = count == 8 ? bits == 8 : bits < 8 && (bits & count);
    if (!has) continue;
    const array bytes =
        mx::slice(u, {0, 0, 64 * done}, {tiles, units, 64 * (done + count)}, s);
    const array part = count == 8 ? mx::reshape(bytes, {tiles, units, 8, 64}, s)
                                  : plane(bytes, count, s);
    codes =
        mx::bitwise_or(codes, mx::left_shift(part, array(uint8_t(done)), s), s);
    done += count;
  }
  // [tiles, units, quad, row, 4] -> [tiles, (unit, quad, 4), row]
  codes = mx::reshape(codes, {tiles, units, 8, kTileRows, 4}, s);
  codes = mx::transpose(codes, {0, 1, 2, 4, 3}, s);
  return mx::reshape(codes, {tiles, units * 32, kTileRows}, s);
}

// Bytes [at, at + count * 16 * size) of each period of each tile, as f32
// [tiles, periods * count, 16].
array numbers_at(const array& scales, int period, int at, int count,
                 mx::Dtype dtype, mx::StreamOrDevice s) {
  const int tiles = scales.shape(0), periods = scales.shape(1) / period;
  const int width = count * kTileRows * int(mx::size_of(dtype));
  array a = mx::reshape(scales, {tiles, periods, period}, s);
  a = mx::slice(a, {0, 0, at}, {tiles, periods, at + width}, s);
  a = mx::view(mx::contiguous(a, false, s), dtype, s);
  a = mx::reshape(a, {tiles, periods * count, kTileRows}, s);
  return mx::astype(a, mx::float32, s);
}

struct ScaleMin {
  array s, m;  // f32 [tiles, K / group, 16]; m of w = s * q + m
};

ScaleMin scales_of(const qmm::Format& f, const array& bytes, int k,
                   mx::StreamOrDevice s) {
  const int tiles = bytes.shape(0);
  auto used = [&](int count, int size) {
    return mx::slice(bytes, {0, 0}, {tiles, count * size}, s);
  };
  if (f.scales == Scales::pair) {
    const mx::Dtype dtype = dtype_of(f.number);
    const int row = kTileRows * qmm::number_bytes(f.number);
    const array a = used(k / f.group, 2 * row);
    return {numbers_at(a, 2 * row, 0, 1, dtype, s),
            numbers_at(a, 2 * row, row, 1, dtype, s)};
  }
  const array zero = array(float(f.zero));
  if (f.scales == Scales::single) {
    const array d = numbers_at(used(k / 32, 32), 32, 0, 1, mx::float16, s);
    return {d, mx::negative(mx::multiply(d, zero, s), s)};
  }
  const int subs = 256 / f.group;
  auto spread = [&](const array& a) { return mx::repeat(a, subs, 1, s); };
  if (f.scales == Scales::k_signed) {
    const array a = used(k / 256, 288);
    const array d = spread(numbers_at(a, 288, 0, 1, mx::float16, s));
    const array scale =
        mx::multiply(d, numbers_at(a, 288, 32, subs, mx::int8, s), s);
    return {scale, mx::negative(mx::multiply(scale, zero, s), s)};
  }
  const array a = used(k / 256, 320);
  const array d = spread(numbers_at(a, 320, 0, 1, mx::float16, s));
  const array dmin = spread(numbers_at(a, 320, 32, 1, mx::float16, s));
  array sc = d, m = d;
  if (f.scales == Scales::k_min) {
    const array both = mx::reshape(numbers_at(a, 320, 64, 16, mx::uint8, s),
                                   {tiles, -1, 2, kTileRows}, s);
    sc = mx::squeeze(
        mx::slice(both, {0, 0, 0, 0}, {tiles, both.shape(1), 1, kTileRows}, s),
        2, s);
    m = mx::squeeze(
        mx::slice(both, {0, 0, 1, 0}, {tiles, both.shape(1), 2, kTileRows}, s),
        2, s);
  } else {
    const array both = numbers_at(a, 320, 64, 16, mx::uint8, s);
    m = mx::floor(mx::divide(both, array(16.f), s), s);
    sc = mx::subtract(both, mx::multiply(m, array(16.f), s), s);
  }
  return {mx::multiply(d, sc, s), mx::negative(mx::multiply(dmin, m, s), s)};
}

}  // namespace

array dequantize(const Weight& w, mx::StreamOrDevice s) {
  const qmm::Format& f = w.format;
  const int tiles = qmm::round_up(w.n, kTileRows) / kTileRows;
  const int k_padded = qmm::round_up(w.k, qmm::kUnit);
  const int scale_bytes = int(f.scale_bytes(w.k));
  const int tile_bytes = int(f.tile_bytes(w.k));
  const array bytes = mx::reshape(w.tiles, {tiles, tile_bytes}, s);
  const array code_bytes = mx::contiguous(
      mx::slice(bytes, {0, scale_bytes}, {tiles, tile_bytes}, s), false, s);
  array rows = code_bytes;  // f32 [tiles, K, 16]
  if (f.dense()) {
    rows = mx::view(code_bytes, dtype_of(f.number), s);
    rows = mx::reshape(rows, {tiles, k_padded, kTileRows}, s);
    rows = mx::astype(rows, mx::float32, s);
  } else {
    const array q =
        mx::astype(codes_of(code_bytes, f.bits, w.k / 32, s), mx::float32, s);
    const array scale_part = mx::slice(bytes, {0, 0}, {tiles, scale_bytes}, s);
    const auto [scale, m] = scales_of(f, scale_part, w.k, s);
    rows = mx::add(mx::multiply(q, mx::repeat(scale, f.group, 1, s), s),
                   mx::repeat(m, f.group, 1, s), s);
  }
  rows = mx::reshape(mx::transpose(rows, {0, 2, 1}, s),
                     {tiles * kTileRows, k_padded}, s);
  return mx::slice(rows, {0, 0}, {w.n, w.k}, s);
}

}  // namespace quern
