// The form that keys and values of one KV head are kept in. Raw numbers lie as
// ops/attention/attention.h says; codes lie in blocks of 64 tokens, a lossless
// permutation of the planes of docs/formats (one row of codes, scales and zeros
// for each token). A block has, one after the other,
//   key codes           [4 x 16 tokens][D / 32] units
//   key scales, zeros   [D / group][64 tokens] each
//   value codes         [D / 16][2] units
//   value scales        [D / group][64 tokens], and biases of affine values
// with units as in ops/qmm/format.h: 8 quads of [16 lanes][4 bytes] cut into
// bit planes. Keys have tokens for lanes and 4 d in a quad, so that a score is
// a sum down the units of its lane. Values have 16 d for lanes; the four bytes
// of a column's quad i are those of tokens i, i + 16, i + 32 and i + 48. Three
// bits have an order of their own, which takes fewer steps to read: quads 0 to
// 5 are the low and middle bits of lines 0 to 2 (two a line), quads 6 and 7 the
// top two of lines 0 and 1 with bits 6 and 7 of line 2 above them. Codes
// are unsigned: 8-bit keys of turbo are stored plus 128.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/qmm/format.h"

namespace quern {

constexpr int kKvBlock = 64;          // tokens
constexpr int kMostPackedHead = 512;  // numbers of a head in codes

struct KvFormat {
  enum class Kind : uint8_t { raw, affine, turbo };

  Kind kind = Kind::raw;
  int key_bits = 0, value_bits = 0;  // of a code; raw has none
  int group = 0;                     // elements of head_dim that share a scale
  qmm::Number number = qmm::Number::f16;  // of scales; of raw's elements

  KvFormat() = default;
  KvFormat(qmm::Number raw) : number(raw) {}  // NOLINT: a raw form is its type
  KvFormat(Kind kind, int key_bits, int value_bits, int group,
           qmm::Number number)
      : kind(kind),
        key_bits(key_bits),
        value_bits(value_bits),
        group(group),
        number(number) {}

  bool raw() const { return kind == Kind::raw; }
  bool operator==(const KvFormat&) const = default;
};

// Where the parts of a block begin, and its bytes. Plain numbers, for kernels.
struct KvBlock {
  bool turbo;
  int head_dim, key_bits, value_bits, group;
  qmm::Number number;
  int key_scales, key_zeros;  // zeros of turbo keys, biases of affine ones
  int value_codes, value_scales, value_biases;  // biases: of affine
  int bytes;
};
// Of a form that is not raw; throws Error for a head_dim it cannot have.
KvBlock block_of(const KvFormat& format, int head_dim);

// One token's row of each plane, as docs/formats have them.
struct KvToken {
  uint8_t* key_codes;
  void *key_scales, *key_zeros;
  uint8_t* value_codes;
  void *value_scales, *value_biases;  // biases: of affine
};
// Into token `slot` of a block, and out of it; nothing else of it changes.
void put_token(const KvBlock& form, const KvToken& from, int slot,
               uint8_t* block);
void take_token(const KvBlock& form, const uint8_t* block, int slot,
                const KvToken& to);

// k and v [head_dim] as codes into token `slot` of a block.
void encode_token(const KvBlock& form, const float* k, const float* v, int slot,
                  uint8_t* block);
// The numbers that token `slot` of a block decodes to, in f32; values of turbo
// in the space they are stored in, or turned back.
void decode_token(const KvBlock& form, const uint8_t* block, int slot,
                  bool rotated, float* k, float* v);

}  // namespace quern
