// The turbo codec in plain MLX ops.
#include <mlx/mlx.h>

#include "ops/turbo/format.h"
#include "ops/turbo/turbo.h"

namespace quern::turbo {
namespace {

using mx::array;
using mx::StreamOrDevice;

int last_dim(const array& a) {
  if (a.ndim() == 0) fail("[turbo] expected an array [..., D], not a number");
  return a.shape(-1);
}

// The last dimension replaced by `dims`.
mx::Shape ending(const array& a, std::initializer_list<int> dims) {
  mx::Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.insert(shape.end(), dims.begin(), dims.end());
  return shape;
}

array groups_of(const array& x, int group, StreamOrDevice s) {
  return mx::reshape(x, ending(x, {x.shape(-1) / group, group}), s);
}

// Groups [..., n, G] side by side.
array joined(const array& x, StreamOrDevice s) {
  mx::Shape shape(x.shape().begin(), x.shape().end() - 2);
  shape.push_back(x.shape(-2) * x.shape(-1));
  return mx::reshape(x, shape, s);
}

array all_finite(const array& groups, StreamOrDevice s) {
  return mx::all(mx::isfinite(groups, s), -1, true, s);
}

// f16, NaN where a group is not good. (MLX's cast gives NaN other bits.)
array stored(const array& x, const array& good, StreamOrDevice s) {
  const array nan = mx::view(array(uint16_t(0x7e00)), mx::float16, s);
  return mx::squeeze(mx::where(good, mx::astype(x, mx::float16, s), nan, s), -1,
                     s);
}

// [..., n] numbers against groups [..., n, G] of D.
array per_group(const array& scales, StreamOrDevice s) {
  return mx::expand_dims(mx::astype(scales, mx::float32, s), -1, s);
}

array bits_of(const array& bytes, int count, StreamOrDevice s) {
  const array each = mx::astype(mx::arange(count, s), mx::uint8, s);
  return mx::bitwise_and(
      mx::right_shift(mx::expand_dims(bytes, -1, s), each, s),
      array(uint8_t(1)), s);
}

array bytes_of(const array& bits, StreamOrDevice s) {
  const array each = mx::astype(mx::arange(bits.shape(-1), s), mx::uint8, s);
  return mx::astype(mx::sum(mx::left_shift(bits, each, s), -1, false, s),
                    mx::uint8, s);
}

}  // namespace

array pack_bits(const array& codes, int bits, StreamOrDevice s) {
  const int bytes = packed_dim(last_dim(codes), bits);
  if (bits == 8) return codes;
  const array all = bits_of(mx::astype(codes, mx::uint8, s), bits, s);
  return bytes_of(mx::reshape(all, ending(codes, {bytes, 8}), s), s);
}

array unpack_bits(const array& packed, int bits, StreamOrDevice s) {
  if (!is_value_bits(bits)) fail("[turbo] no codes of {} bits", bits);
  const int size = int(int64_t(last_dim(packed)) * 8 / bits);
  if (packed_dim(size, bits) != packed.shape(-1)) {
    fail("[turbo] {} bytes are no whole codes of {} bits", packed.shape(-1),
         bits);
  }
  if (bits == 8) return packed;
  return bytes_of(
      mx::reshape(bits_of(packed, 8, s), ending(packed, {size, bits}), s), s);
}

array fwht(const array& x, bool encode, StreamOrDevice s) {
  const array signs = sign_array(last_dim(x));
  const array y = mx::astype(x, mx::float32, s);
  if (encode) {
    return mx::hadamard_transform(mx::multiply(y, signs, s), std::nullopt, s);
  }
  return mx::multiply(mx::hadamard_transform(y, std::nullopt, s), signs, s);
}

namespace reference {

KeyPlanes encode_keys(const array& k, int bits, StreamOrDevice s) {
  const array low(lowest_key(bits)), high(highest_key(bits));
  const array x = groups_of(mx::astype(k, mx::float32, s), kGroup, s);
  const array mn = mx::min(x, -1, true, s), mx_ = mx::max(x, -1, true, s);
  const array scale =
      mx::divide(mx::subtract(mx_, mn, s), mx::subtract(high, low, s), s);
  const array step = mx::add(scale, array(kEpsilon), s);
  const array zero =
      bits == 8 ? mx::round(mx::divide(mx::add(mx_, mn, s),
                                       mx::multiply(array(2.f), step, s), s),
                            s)
                : mx::round(mx::divide(mn, step, s), s);
  const array finite = all_finite(x, s);
  array q = mx::round(mx::subtract(mx::divide(x, step, s), zero, s), s);
  q = mx::clip(q, low, high, s);
  q = mx::where(mx::logical_and(finite, mx::isfinite(zero, s), s), q,
                array(0.f), s);
  const array codes = joined(q, s);
  return {bits == 8 ? mx::astype(codes, mx::int8, s)
                    : pack_bits(mx::astype(codes, mx::uint8, s), bits, s),
          stored(scale, finite, s), stored(zero, finite, s)};
}

ValuePlanes encode_values(const array& v, int bits, StreamOrDevice s) {
  const array y = groups_of(turbo::fwht(v, true, s), kGroup, s);
  const array finite = all_finite(y, s);
  const array scale =
      mx::sqrt(mx::multiply(mx::sum(mx::square(y, s), -1, true, s),
                            array(1.f / kGroup), s),
               s);
  const array t =
      joined(mx::divide(y, mx::add(scale, array(kEpsilon), s), s), s);
  const array bounds(boundaries(bits), {(1 << bits) - 1}, mx::float32);
  const array above = mx::greater(mx::expand_dims(t, -1, s), bounds, s);
  array codes = groups_of(
      mx::sum(mx::astype(above, mx::int32, s), -1, false, s), kGroup, s);
  codes = joined(mx::where(finite, codes, array(0), s), s);
  return {pack_bits(mx::astype(codes, mx::uint8, s), bits, s),
          stored(scale, finite, s)};
}

array decode_keys(const KeyPlanes& planes, int bits, mx::Dtype dtype,
                  StreamOrDevice s) {
  const array codes =
      mx::astype(unpack_bits(planes.codes, bits, s), mx::float32, s);
  const array zeros = per_group(planes.zeros, s);
  const array q = groups_of(codes, codes.shape(-1) / zeros.shape(-2), s);
  const array x =
      mx::multiply(mx::add(q, zeros, s), per_group(planes.scales, s), s);
  return mx::astype(joined(x, s), dtype, s);
}

array decode_values(const ValuePlanes& planes, int bits, ValueForm form,
                    StreamOrDevice s) {
  const array codes = unpack_bits(planes.codes, bits, s);
  const array scales = per_group(planes.scales, s);
  const array c = mx::take(centroid_array(bits), codes, s);
  const array r = joined(
      mx::multiply(groups_of(c, c.shape(-1) / scales.shape(-2), s), scales, s),
      s);
  if (form == ValueForm::rotated) return r;
  return mx::astype(form == ValueForm::eager ? turbo::fwht(r, false, s) : r,
                    mx::bfloat16, s);
}

}  // namespace reference
}  // namespace quern::turbo
