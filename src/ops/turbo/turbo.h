// The turbo KV codec on arrays: keys and values of [..., D] to the five planes
// of docs/formats/turbo.md and back. turbo/codec.h says what a row means;
// inputs may have any strides (views of a larger cache) and are not copied.
#pragma once

#include <optional>

#include "ops/cpu_op.h"

namespace quern::turbo {

// D = head_dim, G = 32 as encoded; planes with groups of 64 and with scales of
// bf16 or f32 are decoded too.
struct KeyPlanes {
  mx::array codes;   // int8 [..., D] of 8 bits, else uint8 [..., D * bits / 8]
  mx::array scales;  // f16 [..., D / G]
  mx::array zeros;   // f16 [..., D / G]
};
struct ValuePlanes {
  mx::array codes;   // uint8 [..., D * bits / 8]
  mx::array scales;  // f16 [..., D / G]
};

// Throw Error for bits without a table and a D that is not of the codec.
KeyPlanes encode_keys(const mx::array& k, int bits, mx::StreamOrDevice s = {});
ValuePlanes encode_values(const mx::array& v, int bits,
                          mx::StreamOrDevice s = {});

// bf16, or the f32 that is rounded to it: what attention sums.
mx::array decode_keys(const KeyPlanes& planes, int bits,
                      mx::Dtype dtype = mx::bfloat16,
                      mx::StreamOrDevice s = {});

enum class ValueForm {
  eager,     // bf16, as encoded
  rotated,   // f32, in the rotated space
  deferred,  // bf16 of the same; attention's output wants unrotate
};
mx::array decode_values(const ValuePlanes& planes, int bits, ValueForm form,
                        mx::StreamOrDevice s = {});
// The inverse rotation in f32, as the type of x.
mx::array unrotate(const mx::array& x, mx::StreamOrDevice s = {});

// The parts, in plain MLX ops. encode: hadamard(x * signs); else
// hadamard(x) * signs; f32.
mx::array fwht(const mx::array& x, bool encode, mx::StreamOrDevice s = {});
int packed_dim(int head_dim, int bits);  // bytes
mx::array pack_bits(const mx::array& codes, int bits,
                    mx::StreamOrDevice s = {});
mx::array unpack_bits(const mx::array& packed, int bits,
                      mx::StreamOrDevice s = {});
mx::array centroid_array(int bits);  // f32 [2^bits]
mx::array sign_array(int head_dim);  // f32 [D]

// What the functions above mean, in plain MLX ops: for other devices and for
// traced graphs.
namespace reference {
KeyPlanes encode_keys(const mx::array& k, int bits, mx::StreamOrDevice s = {});
ValuePlanes encode_values(const mx::array& v, int bits,
                          mx::StreamOrDevice s = {});
mx::array decode_keys(const KeyPlanes& planes, int bits,
                      mx::Dtype dtype = mx::bfloat16,
                      mx::StreamOrDevice s = {});
mx::array decode_values(const ValuePlanes& planes, int bits, ValueForm form,
                        mx::StreamOrDevice s = {});
}  // namespace reference

// Both planes of a cache, [B, H, T, ...].
struct KvPlanes {
  KeyPlanes keys;
  ValuePlanes values;
};
struct KvBits {
  int keys, values;
};
struct Decoded {
  mx::array k, v;  // [B, H, T, D], fresh
};

// Keys (bf16) and values in one go: rotated, f32, or bf16 where defer_v. None
// where there is no kernel for it and the functions above have to do: a device
// without one, traced arrays, a head_dim or bits without a table, types, ranks
// and sizes that do not fit each other, nothing to decode, or 2^32 elements.
std::optional<Decoded> try_joint_decode(const KvPlanes& planes,
                                        const mx::array& centroids, KvBits bits,
                                        int head_dim, bool defer_v,
                                        mx::StreamOrDevice s = {});
// The same with the inverse rotation: values bf16 as encoded. Also none where
// `signs` is not f32 [D].
std::optional<Decoded> try_decode_inverse(const KvPlanes& planes,
                                          const mx::array& centroids,
                                          const mx::array& signs, KvBits bits,
                                          int head_dim,
                                          mx::StreamOrDevice s = {});
// Values bf16, as encoded or (defer_v) rotated, the fastest way.
std::optional<Decoded> try_decode(const KvPlanes& planes, KvBits bits,
                                  int head_dim, bool defer_v,
                                  mx::StreamOrDevice s = {});

}  // namespace quern::turbo
