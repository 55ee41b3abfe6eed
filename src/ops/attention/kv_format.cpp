#include "ops/attention/kv_format.h"

#include <cstring>

#include "base/error.h"
#include "ops/affine/codec.h"
#include "ops/kernels.h"
#include "ops/turbo/codec.h"

namespace quern {
namespace {

constexpr int kMostDim = kMostPackedHead;

// The bit planes of codes but those of 3 bits: bits [low, low + width) of each,
// 8 / width quads to a line of 64 bytes, from line `line` of a unit on.
struct Plane {
  int low, width, line;
};
struct Planes {
  Plane plane[2];
  int count;
};
Planes planes_of(int bits) {
  switch (bits) {
    case 5: return {{{0, 4, 0}, {4, 1, 4}}, 2};
    default: return {{{0, bits, 0}, {}}, 1};
  }
}

// 1 in each byte of a word.
constexpr uint32_t kOnes = 0x01010101;

uint32_t load_word(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// The codes of a row's 32 d, one a byte.
template <int bits>
void spread(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 32; i += 8, packed += bits) {
    uint64_t word = 0;
    for (int j = 0; j < bits; j++) word |= uint64_t(packed[j]) << (8 * j);
    for (int j = 0; j < 8; j++) {
      codes[i + j] = uint8_t(word >> (j * bits) & ((1 << bits) - 1));
    }
  }
}
void spread(const uint8_t* packed, int bits, uint8_t* codes) {
  switch (bits) {
    case 2: return spread<2>(packed, codes);
    case 3: return spread<3>(packed, codes);
    case 4: return spread<4>(packed, codes);
    case 5: return spread<5>(packed, codes);
    default: std::memcpy(codes, packed, 32);
  }
}

void take_lane(const uint8_t* unit, int bits, int lane, uint8_t* codes) {
  const Planes planes = planes_of(bits);
  std::memset(codes, 0, 32);
  for (int p = 0; p < planes.count; p++) {
    const Plane plane = planes.plane[p];
    const uint32_t mask = ((1u << plane.width) - 1) * kOnes;
    for (int line = 0; line < plane.width; line++) {
      const uint32_t word =
          load_word(unit + 64 * (plane.line + line) + 4 * lane);
      for (int i = 0; i * plane.width < 8; i++) {
        uint8_t* quad = codes + 4 * (line + i * plane.width);
        const uint32_t all = load_word(quad) | (word >> i * plane.width & mask)
                                                   << plane.low;
        std::memcpy(quad, &all, 4);
      }
    }
  }
}

// Where some bits of a quad of values are: bits [low, low + width) of a code at
// bit `shift` of the bytes of a line.
struct Piece {
  int low, width, line, shift;
};
struct Pieces {
  Piece piece[2];
  int count;
};
Pieces pieces_of(int bits, int quad) {
  if (bits == 3 && quad < 6) return {{{0, 3, quad / 2, quad % 2 * 3}, {}}, 1};
  if (bits == 3) return {{{0, 2, quad - 6, 6}, {2, 1, 2, quad}}, 2};
  const Planes planes = planes_of(bits);
  Pieces pieces = {{}, planes.count};
  for (int p = 0; p < planes.count; p++) {
    const auto [low, width, line] = planes.plane[p];
    pieces.piece[p] = {low, width, line + quad % width, quad / width * width};
  }
  return pieces;
}

// The codes of 16 d of a token, one a byte, into byte `byte` of quad `quad` of
// a unit, which other tokens share the lines of.
void put_bytes(const uint8_t* codes, int bits, int quad, int byte,
               uint8_t* unit) {
  const Pieces pieces = pieces_of(bits, quad);
  for (int p = 0; p < pieces.count; p++) {
    const auto [low, width, line, shift] = pieces.piece[p];
    const int to = 8 * byte + shift;
    const uint32_t mask = ((1u << width) - 1) << to;
    uint8_t* word_at = unit + 64 * line;
    for (int d = 0; d < 16; d++, word_at += 4) {
      const uint32_t bit = uint32_t(codes[d]) >> low << to;
      const uint32_t word = (load_word(word_at) & ~mask) | (bit & mask);
      std::memcpy(word_at, &word, 4);
    }
  }
}

void take_bytes(const uint8_t* unit, int bits, int quad, int byte,
                uint8_t* codes) {
  const Pieces pieces = pieces_of(bits, quad);
  std::memset(codes, 0, 16);
  for (int p = 0; p < pieces.count; p++) {
    const Piece piece = pieces.piece[p];
    const int mask = (1 << piece.width) - 1;
    const uint8_t* line = unit + 64 * piece.line + byte;
    for (int d = 0; d < 16; d++) {
      codes[d] |= uint8_t((line[4 * d] >> piece.shift & mask) << piece.low);
    }
  }
}

// Calls fn(row of a plane, where its numbers begin in a block) for each.
template <class Fn>
void each_scale(const KvBlock& form, const KvToken& token, Fn fn) {
  fn(token.key_scales, form.key_scales);
  fn(token.key_zeros, form.key_zeros);
  fn(token.value_scales, form.value_scales);
  if (!form.turbo) fn(token.value_biases, form.value_biases);
}

// Whether 8-bit key codes are signed in the planes.
bool signed_keys(const KvBlock& form) {
  return form.turbo && form.key_bits == 8;
}
void flip(uint8_t* codes, int count) {
  for (int i = 0; i < count; i++) codes[i] ^= 0x80;
}

// Room for one token's planes.
struct TokenBuffer {
  uint8_t key_codes[kMostDim], value_codes[kMostDim];
  float numbers[4][kMostDim / 32];

  KvToken token() {
    return {key_codes,   numbers[0], numbers[1],
            value_codes, numbers[2], numbers[3]};
  }
};

}  // namespace

KvBlock block_of(const KvFormat& f, int head_dim) {
  const bool turbo = f.kind == KvFormat::Kind::turbo;
  const bool fits = turbo ? turbo::is_head_dim(head_dim)
                          : f.group > 0 && head_dim % f.group == 0;
  if (f.raw() || !fits || head_dim < 1 || head_dim > kMostDim) {
    fail("[kv] no block of {} and {} bits for heads of {}", f.key_bits,
         f.value_bits, head_dim);
  }
  const int numbers =
      head_dim / f.group * kKvBlock * qmm::number_bytes(f.number);
  KvBlock b{turbo,   head_dim, f.key_bits, f.value_bits,
            f.group, f.number, 0,          0,
            0,       0,        0,          0};
  b.key_scales = kKvBlock * head_dim * f.key_bits / 8;
  b.key_zeros = b.key_scales + numbers;
  b.value_codes = b.key_zeros + numbers;
  b.value_scales = b.value_codes + kKvBlock * head_dim * f.value_bits / 8;
  b.value_biases = b.value_scales + numbers;
  b.bytes = b.value_biases + (turbo ? 0 : numbers);
  return b;
}

void put_token(const KvBlock& form, const KvToken& from, int slot,
               uint8_t* block) {
  uint8_t codes[32];
  const int kb = form.key_bits, vb = form.value_bits;
  const int G = form.head_dim / 32;
  for (int g = 0; g < G; g++) {
    spread(from.key_codes + g * 4 * kb, kb, codes);
    if (signed_keys(form)) flip(codes, 32);
    qmm::put_unit(codes, kb, slot % 16, block + (slot / 16 * G + g) * 64 * kb);
    spread(from.value_codes + g * 4 * vb, vb, codes);
    for (int half = 0; half < 2; half++) {
      uint8_t* unit = block + form.value_codes +
                      ((g * 2 + half) * 2 + slot % 16 / 8) * 64 * vb;
      put_bytes(codes + 16 * half, vb, slot % 8, slot / 16, unit);
    }
  }
  const int width = qmm::number_bytes(form.number);
  each_scale(form, from, [&](const void* row, int at) {
    for (int g = 0; g < form.head_dim / form.group; g++) {
      std::memcpy(block + at + (g * kKvBlock + slot) * width,
                  static_cast<const uint8_t*>(row) + g * width, width);
    }
  });
}

void take_token(const KvBlock& form, const uint8_t* block, int slot,
                const KvToken& to) {
  uint8_t codes[32];
  const int kb = form.key_bits, vb = form.value_bits;
  const int G = form.head_dim / 32;
  for (int g = 0; g < G; g++) {
    take_lane(block + (slot / 16 * G + g) * 64 * kb, kb, slot % 16, codes);
    if (signed_keys(form)) flip(codes, 32);
    turbo::pack_bits(codes, 32, kb, to.key_codes + g * 4 * kb);
    for (int half = 0; half < 2; half++) {
      const uint8_t* unit = block + form.value_codes +
                            ((g * 2 + half) * 2 + slot % 16 / 8) * 64 * vb;
      take_bytes(unit, vb, slot % 8, slot / 16, codes + 16 * half);
    }
    turbo::pack_bits(codes, 32, vb, to.value_codes + g * 4 * vb);
  }
  const int width = qmm::number_bytes(form.number);
  each_scale(form, to, [&](void* row, int at) {
    for (int g = 0; g < form.head_dim / form.group; g++) {
      std::memcpy(static_cast<uint8_t*>(row) + g * width,
                  block + at + (g * kKvBlock + slot) * width, width);
    }
  });
}

void encode_token(const KvBlock& form, const float* k, const float* v, int slot,
                  uint8_t* block) {
  TokenBuffer buffer;
  const KvToken t = buffer.token();
  const int D = form.head_dim;
  if (form.turbo) {
    kernels().encode_turbo_keys(k, D, form.key_bits, t.key_codes,
                                static_cast<uint16_t*>(t.key_scales),
                                static_cast<uint16_t*>(t.key_zeros));
    kernels().encode_turbo_values(v, D, form.value_bits, t.value_codes,
                                  static_cast<uint16_t*>(t.value_scales));
  } else {
    kernels().encode_affine(k, D, form.key_bits, form.group, form.number,
                            t.key_codes, t.key_scales, t.key_zeros);
    kernels().encode_affine(v, D, form.value_bits, form.group, form.number,
                            t.value_codes, t.value_scales, t.value_biases);
  }
  put_token(form, t, slot, block);
}

void decode_token(const KvBlock& form, const uint8_t* block, int slot,
                  bool rotated, float* k, float* v) {
  TokenBuffer buffer;
  const KvToken t = buffer.token();
  take_token(form, block, slot, t);
  const int D = form.head_dim;
  if (!form.turbo) {
    affine::decode(t.key_codes, t.key_scales, t.key_zeros, D, form.key_bits,
                   form.group, form.number, k);
    affine::decode(t.value_codes, t.value_scales, t.value_biases, D,
                   form.value_bits, form.group, form.number, v);
    return;
  }
  turbo::decode_keys(t.key_codes, {t.key_scales}, {t.key_zeros}, D,
                     form.key_bits, k);
  turbo::decode_values(t.value_codes, {t.value_scales}, D, form.value_bits,
                       turbo::centroids(form.value_bits), v);
  if (!rotated) turbo::unrotate(v, D);
}

}  // namespace quern
