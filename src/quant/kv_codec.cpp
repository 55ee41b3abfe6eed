#include "quant/kv_codec.h"

#include <optional>

#include "base/error.h"
#include "base/str.h"
#include "ops/affine/codec.h"
#include "ops/numbers.h"
#include "ops/turbo/format.h"

namespace quern {
namespace {

using qmm::Number;

bool any_head(const KvCodec&, int head_dim) { return head_dim > 0; }
bool any_multiple(const KvCodec& codec, int head_dim) {
  return head_dim > 0 && head_dim <= kMostPackedHead &&
         head_dim % codec.group == 0;
}
bool turbo_head(const KvCodec&, int head_dim) {
  return turbo::is_head_dim(head_dim);
}

// The kinds in order of KvCodec::Kind.
struct Row {
  const char* scheme;     // as --kv spells it
  const char* signature;  // of the stored form
  const char* head_dims;
  bool (*supports)(const KvCodec&, int head_dim);
  int key_scales, value_scales;  // numbers a group
};
constexpr Row kKinds[] = {
    {"raw", "plain", "any", any_head, 0, 0},
    {"4, 8", "quant", "up to 512 that are multiples of its group", any_multiple,
     2, 2},
    {"turbo[:k#v#]", "turboquant", "64, 128, 256 and 512", turbo_head, 2, 1},
};

const Row& row_of(const KvCodec& codec) { return kKinds[int(codec.kind)]; }

// The one digit after `letter` at the start of `text`, which it takes off.
std::optional<int> take_bits(std::string_view& text, char letter) {
  if (text.size() < 2 || text[0] != letter) return {};
  const char digit = text[1];
  if (digit < '0' || digit > '9') return {};
  text.remove_prefix(2);
  return digit - '0';
}

}  // namespace

std::string KvCodec::name() const {
  switch (kind) {
    case Kind::raw: return "raw";
    case Kind::affine: return fmt::format("{}", key_bits);
    case Kind::turbo: return fmt::format("turbo-k{}v{}", key_bits, value_bits);
  }
  fail("[kv_codec] no kind {}", int(kind));
}

std::string KvCodec::signature() const {
  const char* form = row_of(*this).signature;
  const char* type = number_name(number);
  switch (kind) {
    case Kind::raw: return fmt::format("{}/{}", form, type);
    case Kind::affine:
      return fmt::format("{}:{}:{}/{}", form, key_bits, group, type);
    case Kind::turbo:
      return fmt::format("{}:{}:{}", form, key_bits, value_bits);
  }
  fail("[kv_codec] no kind {}", int(kind));
}

bool KvCodec::supports(int head_dim) const {
  return row_of(*this).supports(*this, head_dim);
}

void KvCodec::require(int head_dim) const {
  if (supports(head_dim)) return;
  fail("[kv_codec] {} takes head dims {}, not {}", name(),
       row_of(*this).head_dims, head_dim);
}

size_t KvCodec::bytes_per_token(int head_dim) const {
  const size_t D = size_t(head_dim), width = size_t(qmm::number_bytes(number));
  if (kind == Kind::raw) return 2 * D * width;
  const size_t scales = row_of(*this).key_scales + row_of(*this).value_scales;
  return D * size_t(key_bits + value_bits) / 8 +
         scales * width * D / size_t(group);
}

KvCodec raw_kv(Number number) { return {KvFormat(number)}; }

KvCodec affine_kv(int bits, int group, Number number) {
  if (!affine::is_bits(bits) || !affine::is_group(group)) {
    fail(
        "[kv_codec] affine codes have 4 or 8 bits in groups of 32 or 64, not "
        "{} in groups of {}",
        bits, group);
  }
  return {KvFormat(KvCodec::Kind::affine, bits, bits, group, number)};
}

KvCodec turbo_kv(int key_bits, int value_bits) {
  if (!turbo::is_key_bits(key_bits)) {
    fail("[kv_codec] turbo keys have 2, 4, 5 or 8 bits, not {}", key_bits);
  }
  if (!turbo::is_value_bits(value_bits)) {
    fail("[kv_codec] turbo values have 2, 3, 4, 5 or 8 bits, not {}",
         value_bits);
  }
  return {KvFormat(KvCodec::Kind::turbo, key_bits, value_bits, turbo::kGroup,
                   Number::f16)};
}

KvCodec parse_kv_codec(std::string_view scheme, std::string_view others) {
  if (scheme == "raw" || scheme == "off") return raw_kv();
  if (scheme == "4") return affine_kv(4);
  if (scheme == "8") return affine_kv(8);
  if (scheme == "turbo") return turbo_kv();
  for (std::string_view prefix : {"turbo:", "turbo-"}) {
    if (!scheme.starts_with(prefix)) continue;
    std::string_view rest = scheme.substr(prefix.size());
    const auto key_bits = take_bits(rest, 'k');
    const auto value_bits = take_bits(rest, 'v');
    if (key_bits && value_bits && rest.empty()) {
      return turbo_kv(*key_bits, *value_bits);
    }
  }
  fail("[kv_codec] no KV scheme {}: expected one of {}, {}, {}{}{}",
       in_quotes(scheme), kKinds[0].scheme, kKinds[1].scheme, kKinds[2].scheme,
       others.empty() ? "" : ", ", others);
}

const KvCodec& KvScheme::codec(int layer, bool is_ring) const {
  const auto own = layers.find(layer);
  if (own != layers.end()) return own->second;
  return is_ring ? ring : full;
}

std::string KvScheme::name() const {
  return layers.empty() ? full.name() : "config";
}

KvScheme KvScheme::with(Number raw) const {
  KvScheme scheme = *this;
  const auto set = [&](KvCodec& codec) {
    if (codec.raw()) codec.number = raw;
  };
  set(scheme.full);
  set(scheme.ring);
  for (auto& [layer, codec] : scheme.layers) set(codec);
  return scheme;
}

}  // namespace quern
