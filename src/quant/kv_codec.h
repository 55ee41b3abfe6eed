// The codecs of keys and values by name: what `--kv` says, what a cache is
// signed with, what a token takes of memory. The codes themselves are in
// ops/turbo and ops/affine.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "ops/attention/kv_format.h"

namespace quern {

struct KvCodec : KvFormat {
  bool operator==(const KvCodec&) const = default;

  std::string name() const;       // raw, 4, 8, turbo-k8v3
  std::string signature() const;  // equal ones hold the same bytes
  bool supports(int head_dim) const;
  // Throws Error with the head dims it takes, if this is none of them.
  void require(int head_dim) const;
  // Keys and values of one token in one KV head.
  size_t bytes_per_token(int head_dim) const;
};

// These throw Error for what no codec has.
KvCodec raw_kv(qmm::Number number = qmm::Number::f16);
KvCodec affine_kv(int bits, int group = 64,
                  qmm::Number number = qmm::Number::f16);
KvCodec turbo_kv(int key_bits = 8, int value_bits = 3);

// `raw` or `off`, `4`, `8`, `turbo`, `turbo:k8v3`; also the name() of a codec.
// Throws Error that names the scheme and what is allowed; `others` are what the
// caller takes besides.
KvCodec parse_kv_codec(std::string_view scheme, std::string_view others = "");

// What the layers of a model keep their past in: those that see all of it,
// rings, which are bounded, and single layers that have a codec of their own.
struct KvScheme {
  KvCodec full, ring;
  std::map<int, KvCodec> layers;

  KvScheme() = default;
  KvScheme(qmm::Number raw)  // NOLINT: raw in all layers
      : full(raw_kv(raw)), ring(raw_kv(raw)) {}
  KvScheme(KvCodec full, KvCodec ring) : full(full), ring(ring) {}

  const KvCodec& codec(int layer, bool is_ring) const;
  // As --kv says it: of the full layers, or config.
  std::string name() const;
  // The same with raw numbers of this type.
  KvScheme with(qmm::Number raw) const;
  bool operator==(const KvScheme&) const = default;
};

}  // namespace quern
