#include "ops/turbo/turbo.h"

#include <mlx/mlx.h>

#include <algorithm>

#include "ops/turbo/format.h"
#include "ops/turbo/run.h"

namespace quern::turbo {
namespace {

using mx::array;
using mx::Shape;

bool is_float(const array& a) {
  return a.dtype() == mx::float32 || a.dtype() == mx::float16 ||
         a.dtype() == mx::bfloat16;
}

// Whether the CPU's functions run on these arrays here.
bool has_kernel(const mx::Stream& s, std::initializer_list<array> arrays) {
  return on_cpu(s) && std::none_of(arrays.begin(), arrays.end(),
                                   [](auto& a) { return a.is_tracer(); });
}

// A node whose inputs are read through their strides.
template <class Run>
std::vector<array> strided_ops(const char* name, mx::Stream s,
                               std::vector<Shape> shapes,
                               const std::vector<mx::Dtype>& dtypes,
                               std::vector<array> inputs, Run run) {
  return array::make_arrays(
      std::move(shapes), dtypes,
      std::make_shared<FunctionPrimitive<Run>>(s, name, std::move(run)),
      inputs);
}

Shape with_last(const array& a, int last) {
  Shape shape = a.shape();
  shape.back() = last;
  return shape;
}

void check_input(const char* op, const array& x) {
  if (x.ndim() > 0 && is_float(x)) return;
  fail("[turbo.{}] expected f32, f16 or bf16 [..., D]", op);
}
void check_head(const char* op, int head_dim) {
  if (is_head_dim(head_dim)) return;
  fail("[turbo.{}] head dim {} is none of 64, 128, 256, 512", op, head_dim);
}
void check_key_bits(const char* op, int bits) {
  if (is_key_bits(bits)) return;
  fail("[turbo.{}] keys have 2, 4, 5 or 8 bits, not {}", op, bits);
}
void check_value_bits(const char* op, int bits) {
  if (is_value_bits(bits)) return;
  fail("[turbo.{}] no table of {} bits: values have 2, 3, 4, 5 or 8", op, bits);
}

bool same_prefix(const array& a, const array& b) {
  return a.ndim() > 0 && a.ndim() == b.ndim() &&
         std::equal(a.shape().begin(), a.shape().end() - 1, b.shape().begin());
}
bool good_scales(const array& scales, int head_dim) {
  if (!is_float(scales) || scales.ndim() == 0 || scales.shape(-1) == 0) {
    return false;
  }
  const int groups = scales.shape(-1);
  return int64_t(groups) * 32 == head_dim || int64_t(groups) * 64 == head_dim;
}
bool good_codes(const array& codes, mx::Dtype dtype, int bits, int head_dim) {
  return codes.ndim() > 0 && codes.dtype() == dtype &&
         int64_t(codes.shape(-1)) * 8 == int64_t(head_dim) * bits;
}
mx::Dtype key_dtype(int bits) { return bits == 8 ? mx::int8 : mx::uint8; }

// Keys are not rotated: any whole groups.
bool is_key_dim(int head_dim) {
  return head_dim > 0 && head_dim <= kMostHeadDim && head_dim % kGroup == 0;
}

bool good_keys(const KeyPlanes& p, int bits, int head_dim) {
  return good_codes(p.codes, key_dtype(bits), bits, head_dim) &&
         same_prefix(p.codes, p.scales) &&
         p.scales.shape() == p.zeros.shape() &&
         good_scales(p.scales, head_dim) && good_scales(p.zeros, head_dim);
}
bool good_values(const ValuePlanes& p, int bits, int head_dim) {
  return good_codes(p.codes, mx::uint8, bits, head_dim) &&
         same_prefix(p.codes, p.scales) && good_scales(p.scales, head_dim);
}

// head_dim of a plane of codes.
int head_dim_of(const array& codes, int bits) {
  return codes.ndim() == 0 ? 0 : int(int64_t(codes.shape(-1)) * 8 / bits);
}

KeyPlanes keys_of(const std::vector<array>& in) {
  return {in[0], in[1], in[2]};
}
ValuePlanes values_of(const std::vector<array>& in, int at) {
  return {in[at], in[at + 1]};
}

// [B, H, T, ...] with something in it, of less than 2^32 elements.
bool joint_shapes(const KvPlanes& p, KvBits bits, int head_dim) {
  if (!is_head_dim(head_dim) || !is_key_bits(bits.keys) ||
      !is_value_bits(bits.values)) {
    return false;
  }
  if (p.values.codes.ndim() != 4 || p.keys.codes.ndim() != 4) return false;
  if (!good_keys(p.keys, bits.keys, head_dim) ||
      !good_values(p.values, bits.values, head_dim) ||
      !same_prefix(p.keys.codes, p.values.codes)) {
    return false;
  }
  const Shape& shape = p.values.codes.shape();
  const double elements = double(shape[0]) * shape[1] * shape[2] * head_dim;
  return elements > 0 && elements < 0x1p32;
}

bool is_table(const array& a, int size) {
  return a.dtype() == mx::float32 && a.ndim() == 1 && a.shape(0) == size;
}

std::vector<array> inputs_of(const KvPlanes& p) {
  return {p.keys.codes, p.keys.scales, p.keys.zeros, p.values.codes,
          p.values.scales};
}

// Null signs leave the values rotated.
std::optional<Decoded> decode_both(const KvPlanes& p, const array& centroids,
                                   const std::optional<array>& signs,
                                   KvBits bits, int head_dim, mx::Dtype v_dtype,
                                   mx::Stream s) {
  const Shape shape = with_last(p.values.codes, head_dim);
  std::vector<array> inputs = inputs_of(p);
  inputs.push_back(mx::contiguous(centroids, false, s));
  if (signs) inputs.push_back(mx::contiguous(*signs, false, s));
  auto run = [bits](std::vector<array>& in, std::vector<array>& out) {
    run_decode_keys(keys_of(in), bits.keys, out[0]);
    run_decode_values(values_of(in, 3), bits.values, in[5].data<float>(),
                      in.size() > 6 ? in[6].data<float>() : nullptr, out[1]);
  };
  const auto out =
      strided_ops("quern.turbo_decode", s, {shape, shape},
                  {mx::bfloat16, v_dtype}, std::move(inputs), std::move(run));
  return Decoded{out[0], out[1]};
}

}  // namespace

int packed_dim(int head_dim, int bits) {
  if (!is_value_bits(bits)) fail("[turbo] no codes of {} bits", bits);
  if (int64_t(head_dim) * bits % 8 != 0) {
    fail("[turbo] {} codes of {} bits are no whole bytes", head_dim, bits);
  }
  return int(int64_t(head_dim) * bits / 8);
}

array centroid_array(int bits) {
  check_value_bits("centroids", bits);
  return array(centroids(bits), {1 << bits}, mx::float32);
}

array sign_array(int head_dim) {
  check_head("signs", head_dim);
  return array(signs(head_dim), {head_dim}, mx::float32);
}

KeyPlanes encode_keys(const array& k, int bits, mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  check_input("encode_keys", k);
  check_key_bits("encode_keys", bits);
  const int D = k.shape(-1);
  if (!is_key_dim(D)) {
    fail("[turbo.encode_keys] head dim {} is no multiple of {} up to {}", D,
         kGroup, kMostHeadDim);
  }
  if (!has_kernel(s, {k})) return reference::encode_keys(k, bits, s);
  const Shape scales = with_last(k, D / kGroup);
  const auto out =
      strided_ops("quern.turbo_encode_keys", s,
                  {with_last(k, packed_dim(D, bits)), scales, scales},
                  {key_dtype(bits), mx::float16, mx::float16}, {k},
                  [bits](std::vector<array>& in, std::vector<array>& out) {
                    run_encode_keys(in[0], bits, out[0], out[1], out[2]);
                  });
  return {out[0], out[1], out[2]};
}

ValuePlanes encode_values(const array& v, int bits, mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  check_input("encode_values", v);
  check_value_bits("encode_values", bits);
  const int D = v.shape(-1);
  check_head("encode_values", D);
  if (!has_kernel(s, {v})) return reference::encode_values(v, bits, s);
  const auto out =
      strided_ops("quern.turbo_encode_values", s,
                  {with_last(v, packed_dim(D, bits)), with_last(v, D / kGroup)},
                  {mx::uint8, mx::float16}, {v},
                  [bits](std::vector<array>& in, std::vector<array>& out) {
                    run_encode_values(in[0], bits, out[0], out[1]);
                  });
  return {out[0], out[1]};
}

array decode_keys(const KeyPlanes& planes, int bits, mx::Dtype dtype,
                  mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  check_key_bits("decode_keys", bits);
  if (dtype != mx::bfloat16 && dtype != mx::float32) {
    fail("[turbo.decode_keys] gives bf16 or f32");
  }
  const int D = head_dim_of(planes.codes, bits);
  if (!is_key_dim(D) || !good_keys(planes, bits, D)) {
    fail(
        "[turbo.decode_keys] expected {} codes [..., D * {} / 8], scales and "
        "zeros [..., D / 32 or 64] of f16, bf16 or f32",
        bits == 8 ? "int8" : "uint8", bits);
  }
  if (!has_kernel(s, {planes.codes, planes.scales, planes.zeros})) {
    return reference::decode_keys(planes, bits, dtype, s);
  }
  return strided_ops("quern.turbo_decode_keys", s, {with_last(planes.codes, D)},
                     {dtype}, {planes.codes, planes.scales, planes.zeros},
                     [bits](std::vector<array>& in, std::vector<array>& out) {
                       run_decode_keys(keys_of(in), bits, out[0]);
                     })[0];
}

array decode_values(const ValuePlanes& planes, int bits, ValueForm form,
                    mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  check_value_bits("decode_values", bits);
  const int D = head_dim_of(planes.codes, bits);
  if (!good_values(planes, bits, D)) {
    fail(
        "[turbo.decode_values] expected uint8 codes [..., D * {} / 8], scales "
        "[..., D / 32 or 64] of f16, bf16 or f32",
        bits);
  }
  check_head("decode_values", D);
  if (!has_kernel(s, {planes.codes, planes.scales})) {
    return reference::decode_values(planes, bits, form, s);
  }
  const bool eager = form == ValueForm::eager;
  return strided_ops(
      "quern.turbo_decode_values", s, {with_last(planes.codes, D)},
      {form == ValueForm::rotated ? mx::float32 : mx::bfloat16},
      {planes.codes, planes.scales},
      [bits, eager](std::vector<array>& in, std::vector<array>& out) {
        run_decode_values(values_of(in, 0), bits, centroids(bits),
                          eager ? signs(out[0].shape(-1)) : nullptr, out[0]);
      })[0];
}

array unrotate(const array& x, mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  check_input("unrotate", x);
  check_head("unrotate", x.shape(-1));
  if (!has_kernel(s, {x})) return mx::astype(fwht(x, false, s), x.dtype(), s);
  return strided_ops("quern.turbo_unrotate", s, {x.shape()}, {x.dtype()}, {x},
                     [](std::vector<array>& in, std::vector<array>& out) {
                       run_unrotate(in[0], out[0]);
                     })[0];
}

std::optional<Decoded> try_joint_decode(const KvPlanes& planes,
                                        const array& centroids, KvBits bits,
                                        int head_dim, bool defer_v,
                                        mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const auto& [k, v] = planes;
  if (!has_kernel(s,
                  {k.codes, k.scales, k.zeros, v.codes, v.scales, centroids}) ||
      !joint_shapes(planes, bits, head_dim) ||
      !is_table(centroids, 1 << bits.values)) {
    return {};
  }
  return decode_both(planes, centroids, {}, bits, head_dim,
                     defer_v ? mx::bfloat16 : mx::float32, s);
}

std::optional<Decoded> try_decode_inverse(const KvPlanes& planes,
                                          const array& centroids,
                                          const array& signs, KvBits bits,
                                          int head_dim,
                                          mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const auto& [k, v] = planes;
  if (!has_kernel(s, {k.codes, k.scales, k.zeros, v.codes, v.scales, centroids,
                      signs}) ||
      !joint_shapes(planes, bits, head_dim) ||
      !is_table(centroids, 1 << bits.values) || !is_table(signs, head_dim)) {
    return {};
  }
  return decode_both(planes, centroids, signs, bits, head_dim, mx::bfloat16, s);
}

std::optional<Decoded> try_decode(const KvPlanes& planes, KvBits bits,
                                  int head_dim, bool defer_v,
                                  mx::StreamOrDevice s) {
  if (!is_value_bits(bits.values) || !is_head_dim(head_dim)) return {};
  const array table = centroid_array(bits.values);
  if (defer_v) return try_joint_decode(planes, table, bits, head_dim, true, s);
  // One pass was measured faster than two from the first token on.
  return try_decode_inverse(planes, table, sign_array(head_dim), bits, head_dim,
                            s);
}

}  // namespace quern::turbo
