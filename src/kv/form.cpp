#include "kv/form.h"

#include <mlx/mlx.h>

#include <cmath>

#include "ops/turbo/turbo.h"

namespace quern {
namespace {

using mx::array;
using Kind = KvCodec::Kind;

mx::Dtype dtype_of(qmm::Number number) {
  switch (number) {
    case qmm::Number::f16: return mx::float16;
    case qmm::Number::bf16: return mx::bfloat16;
    case qmm::Number::f32: break;
  }
  return mx::float32;
}

struct Plane {
  mx::Dtype dtype;
  int last;  // dimension
};

std::vector<Plane> planes_of(const KvCodec& codec, int D) {
  const mx::Dtype number = dtype_of(codec.number);
  if (codec.kind == Kind::raw) return {{number, D}, {number, D}};
  const int scales = D / codec.group;
  auto bytes = [D](int bits) { return D * bits / 8; };
  if (codec.kind == Kind::affine) {
    const Plane codes{mx::uint32, bytes(codec.key_bits) / 4};
    const Plane numbers{number, scales};
    return {codes, numbers, numbers, codes, numbers, numbers};
  }
  const mx::Dtype keys = codec.key_bits == 8 ? mx::int8 : mx::uint8;
  return {{keys, bytes(codec.key_bits)},
          {mx::float16, scales},
          {mx::float16, scales},
          {mx::uint8, bytes(codec.value_bits)},
          {mx::float16, scales}};
}

array affine_decoded(const KvCodec& codec, const Planes& p, int at) {
  const array scales = mx::astype(p[at + 1], mx::float32);
  const array biases = mx::astype(p[at + 2], mx::float32);
  return mx::dequantize(p[at], scales, biases, codec.group, codec.key_bits);
}

array nan_of(mx::Dtype dtype) {
  if (dtype == mx::float32) return array(NAN);
  const uint16_t bits = dtype == mx::float16 ? 0x7e00 : 0x7fc0;
  return mx::view(array(bits), dtype);
}

// [..., n * size] -> [..., n, size]
array grouped(const array& x, int size) {
  return mx::unflatten(x, -1, {x.shape(-1) / size, size});
}

// As ops/affine/codec.h, also of groups that are not finite: MLX has no rule
// for them.
Planes affine_encoded(const KvCodec& codec, const array& values) {
  const array x = mx::astype(values, mx::float32);
  const array groups = grouped(x, codec.group);
  const array finite = mx::all(mx::isfinite(groups), -1, true);
  const array safe = mx::where(finite, groups, array(0.f));
  Planes p =
      mx::quantize(mx::flatten(safe, -2, -1), codec.group, codec.key_bits);
  const mx::Dtype number = dtype_of(codec.number);
  const array good = mx::squeeze(finite, -1), nan = nan_of(number);
  p[1] = mx::where(good, mx::astype(p[1], number), nan);
  p[2] = mx::where(good, mx::astype(p[2], number), nan);
  return p;
}

// What is beyond f16 is kept at its end.
array raw_encoded(qmm::Number number, const array& x) {
  if (number != qmm::Number::f16) return mx::astype(x, dtype_of(number));
  const array most(65504.f), least(-65504.f);
  return mx::astype(mx::clip(mx::astype(x, mx::float32), least, most),
                    mx::float16);
}

}  // namespace

std::string KvForm::signature() const {
  return fmt::format("{}/{}x{}", codec.signature(), kv_heads, head_dim);
}

Planes KvForm::zeros(int B, int T) const {
  Planes out;
  for (const Plane& plane : planes_of(codec, head_dim)) {
    out.push_back(mx::zeros({B, kv_heads, T, plane.last}, plane.dtype));
  }
  return out;
}

void KvForm::require(const Planes& planes) const {
  const auto expected = planes_of(codec, head_dim);
  bool good = planes.size() == expected.size();
  for (size_t i = 0; good && i < planes.size(); i++) {
    const array& a = planes[i];
    good = a.ndim() == 4 && a.dtype() == expected[i].dtype &&
           a.shape(0) == planes[0].shape(0) && a.shape(1) == kv_heads &&
           a.shape(2) == planes[0].shape(2) && a.shape(3) == expected[i].last;
  }
  if (!good) fail("[kv.form] planes that are not of {}", signature());
}

Planes KvForm::encode(const array& k, const array& v) const {
  switch (codec.kind) {
    case Kind::raw:
      return {raw_encoded(codec.number, k), raw_encoded(codec.number, v)};
    case Kind::affine: {
      Planes out = affine_encoded(codec, k);
      for (array& a : affine_encoded(codec, v)) out.push_back(std::move(a));
      return out;
    }
    case Kind::turbo: {
      const auto keys = turbo::encode_keys(k, codec.key_bits);
      const auto values = turbo::encode_values(v, codec.value_bits);
      return {keys.codes, keys.scales, keys.zeros, values.codes, values.scales};
    }
  }
  fail("[kv.form] no kind {}", int(codec.kind));
}

KvForm::Decoded KvForm::decode(const Planes& p) const {
  switch (codec.kind) {
    case Kind::raw:
      return {mx::astype(p[0], mx::float32), mx::astype(p[1], mx::float32)};
    case Kind::affine:
      return {affine_decoded(codec, p, 0), affine_decoded(codec, p, 3)};
    case Kind::turbo: {
      return {
          turbo::decode_keys({p[0], p[1], p[2]}, codec.key_bits, mx::float32),
          turbo::decode_values({p[3], p[4]}, codec.value_bits,
                               turbo::ValueForm::rotated)};
    }
  }
  fail("[kv.form] no kind {}", int(codec.kind));
}

array KvForm::summed(const array& out) const {
  return codec.kind == Kind::turbo ? turbo::unrotate(out) : out;
}

}  // namespace quern
