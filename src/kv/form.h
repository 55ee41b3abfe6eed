// The interchange form of keys and values: what a codec makes of them as
// arrays [B, H, T, last], in the order in which they are stored and exchanged.
//
//   raw     keys, values                               [.., D] of its number
//   affine  key codes, scales, biases, value codes, scales, biases
//           uint32 [.., D * bits / 32], [.., D / group] of its number
//   turbo   the five planes of docs/formats/turbo.md
#pragma once

#include "kv/row_storage.h"
#include "quant/kv_codec.h"

namespace quern {

struct KvForm {
  KvCodec codec;
  int kv_heads = 0;
  int head_dim = 0;

  bool operator==(const KvForm&) const = default;

  std::string signature() const;  // of the codec, heads and head_dim
  Planes zeros(int B, int T) const;
  // Throws Error unless the planes are of this form; their [B, H, T].
  void require(const Planes& planes) const;

  // k, v [B, H, T, D].
  Planes encode(const mx::array& k, const mx::array& v) const;

  // f32 [B, H, T, D]; values as attention sums them.
  struct Decoded {
    mx::array k, v;
  };
  Decoded decode(const Planes& planes) const;
  // The sums of such values [.., D], as values.
  mx::array summed(const mx::array& out) const;
};

}  // namespace quern
