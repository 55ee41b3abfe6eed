#include "quant/gguf_blocks.h"

#include <cstring>

#include "base/error.h"

namespace quern {
namespace {

using qmm::kTileRows;
using qmm::Number;
using qmm::Scales;

// Where the parts of a block lie, in bytes.
//   Q4_0  d qs[16]                      Q5_0  d qh[4] qs[16]
//   Q4_1  d m qs[16]                    Q5_1  d m qh[4] qs[16]
//   Q8_0  d qs[32]
//   Q2_K  scales[16] qs[64] d dmin      Q3_K  hmask[32] qs[64] scales[12] d
//   Q4_K  d dmin scales[12] qs[128]     Q5_K  d dmin scales[12] qh[32] qs[128]
//   Q6_K  ql[128] qh[64] scales[16] d

// Words of eight bytes: the parts of a large file are cut up at its loading.
constexpr uint64_t kEach = 0x0101010101010101u;

uint64_t load_word(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// The nibbles of `count` bytes, a multiple of 8.
void nibbles(const uint8_t* from, int count, uint8_t* low, uint8_t* high) {
  for (int i = 0; i < count; i += 8) {
    const uint64_t word = load_word(from + i);
    const uint64_t l = word & (15 * kEach), h = (word >> 4) & (15 * kEach);
    std::memcpy(low + i, &l, 8);
    std::memcpy(high + i, &h, 8);
  }
}

// 16 bytes hold 32 codes of 4 bits: the low nibbles, then the high ones.
void nibbles_of_32(const uint8_t* qs, uint8_t* q) {
  nibbles(qs, 16, q, q + 16);
}

// Bit i of a 32-bit word is bit 4 of code i.
void fifth_bits(const uint8_t* qh, uint8_t* q) {
  for (int i = 0; i < 4; i++, q += 8) {
    // Byte j keeps bit j, which then moves to bit 7 by a carry, and to bit 4.
    const uint64_t bits = (qh[i] * kEach) & 0x8040201008040201u;
    const uint64_t set = ((bits + 0x7f * kEach) & (0x80 * kEach)) >> 3;
    const uint64_t codes = load_word(q) | set;
    std::memcpy(q, &codes, 8);
  }
}

void codes_q8_0(const uint8_t* qs, uint8_t* q) {
  for (int i = 0; i < 32; i++) q[i] = qs[i] ^ 0x80;
}

// Two bits each: four codes of a byte lie 32 apart.
void codes_q2_k(const uint8_t* qs, uint8_t* q) {
  for (int half = 0; half < 2; half++, qs += 32) {
    for (int j = 0; j < 4; j++, q += 32) {
      for (int i = 0; i < 32; i++) q[i] = qs[i] >> (2 * j) & 3;
    }
  }
}

void codes_q3_k(const uint8_t* b, uint8_t* q) {
  codes_q2_k(b + 32, q);
  for (int j = 0; j < 8; j++, q += 32) {
    for (int i = 0; i < 32; i++) q[i] |= uint8_t((b[i] >> j & 1) << 2);
  }
}

void codes_q4_k(const uint8_t* qs, uint8_t* q) {
  for (int j = 0; j < 4; j++, qs += 32, q += 64) {
    nibbles(qs, 32, q, q + 32);
  }
}

void codes_q5_k(const uint8_t* b, uint8_t* q) {
  codes_q4_k(b + 48, q);
  const uint8_t* qh = b + 16;
  for (int j = 0; j < 8; j++, q += 32) {
    for (int i = 0; i < 32; i++) q[i] |= uint8_t((qh[i] >> j & 1) << 4);
  }
}

void codes_q6_k(const uint8_t* b, uint8_t* q) {
  const uint8_t *ql = b, *qh = b + 128;
  for (int half = 0; half < 2; half++, ql += 64, qh += 32, q += 128) {
    for (int i = 0; i < 32; i++) {
      q[i] = uint8_t((ql[i] & 15) | (qh[i] & 3) << 4);
      q[i + 32] = uint8_t((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4);
      q[i + 64] = uint8_t(ql[i] >> 4 | (qh[i] >> 4 & 3) << 4);
      q[i + 96] = uint8_t(ql[i + 32] >> 4 | (qh[i] >> 6) << 4);
    }
  }
}

// Scale and minimum of the 8 groups of Q4_K and Q5_K, 6 bits each.
void unpack_min_scales(const uint8_t* s, uint8_t* scale, uint8_t* min) {
  for (int i = 0; i < 4; i++) {
    scale[i] = s[i] & 63;
    min[i] = s[i + 4] & 63;
    scale[i + 4] = uint8_t((s[i + 8] & 15) | s[i] >> 6 << 4);
    min[i + 4] = uint8_t(s[i + 8] >> 4 | s[i + 4] >> 6 << 4);
  }
}

// The 16 signed scales of Q3_K, 6 bits each.
void unpack_q3_scales(const uint8_t* s, int8_t* scale) {
  for (int i = 0; i < 16; i++) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    const int high = s[8 + i % 4] >> (2 * (i / 4)) & 3;
    scale[i] = int8_t((low | high << 4) - 32);
  }
}

void copy_half(const uint8_t* from, uint8_t* line, int row) {
  std::memcpy(line + 2 * row, from, 2);
}

}  // namespace

qmm::Format format_of(TensorType type) {
  switch (type) {
    case TensorType::F32: return {32, Scales::none, 0, 0, Number::f32};
    case TensorType::F16: return {16, Scales::none, 0, 0, Number::f16};
    case TensorType::BF16: return {16, Scales::none, 0, 0, Number::bf16};
    case TensorType::Q4_0: return {4, Scales::single, 32, 8, Number::f16};
    case TensorType::Q4_1: return {4, Scales::pair, 32, 0, Number::f16};
    case TensorType::Q5_0: return {5, Scales::single, 32, 16, Number::f16};
    case TensorType::Q5_1: return {5, Scales::pair, 32, 0, Number::f16};
    case TensorType::Q8_0: return {8, Scales::single, 32, 128, Number::f16};
    case TensorType::Q2_K: return {2, Scales::k_nibble, 16, 0, Number::f16};
    case TensorType::Q3_K: return {3, Scales::k_signed, 16, 4, Number::f16};
    case TensorType::Q4_K: return {4, Scales::k_min, 32, 0, Number::f16};
    case TensorType::Q5_K: return {5, Scales::k_min, 32, 0, Number::f16};
    case TensorType::Q6_K: return {6, Scales::k_signed, 16, 32, Number::f16};
    default: break;
  }
  fail("[quant] {} has no tile format", type_info(type).name);
}

void block_codes(TensorType type, const uint8_t* b, int k, uint8_t* q) {
  const TypeInfo& info = type_info(type);
  for (int at = 0; at < k; at += info.block, b += info.bytes, q += info.block) {
    switch (type) {
      case TensorType::Q4_0: nibbles_of_32(b + 2, q); break;
      case TensorType::Q4_1: nibbles_of_32(b + 4, q); break;
      case TensorType::Q5_0:
        nibbles_of_32(b + 6, q);
        fifth_bits(b + 2, q);
        break;
      case TensorType::Q5_1:
        nibbles_of_32(b + 8, q);
        fifth_bits(b + 4, q);
        break;
      case TensorType::Q8_0: codes_q8_0(b + 2, q); break;
      case TensorType::Q2_K: codes_q2_k(b + 16, q); break;
      case TensorType::Q3_K: codes_q3_k(b, q); break;
      case TensorType::Q4_K: codes_q4_k(b + 16, q); break;
      case TensorType::Q5_K: codes_q5_k(b, q); break;
      case TensorType::Q6_K: codes_q6_k(b, q); break;
      default: fail("[quant] {} has no codes", info.name);
    }
  }
}

void block_scales(TensorType type, const uint8_t* b, int k, int row,
                  uint8_t* out) {
  const TypeInfo& info = type_info(type);
  for (int at = 0; at < k; at += info.block, b += info.bytes) {
    switch (type) {
      case TensorType::Q4_0:
      case TensorType::Q5_0:
      case TensorType::Q8_0:
        copy_half(b, out, row);
        out += 32;
        break;
      case TensorType::Q4_1:
      case TensorType::Q5_1:
        copy_half(b, out, row);
        copy_half(b + 2, out + 32, row);
        out += 64;
        break;
      case TensorType::Q2_K:
        copy_half(b + 80, out, row);
        copy_half(b + 82, out + 32, row);
        for (int i = 0; i < 16; i++) out[64 + i * kTileRows + row] = b[i];
        out += 320;
        break;
      case TensorType::Q4_K:
      case TensorType::Q5_K: {
        uint8_t scale[8], min[8];
        unpack_min_scales(b + 4, scale, min);
        copy_half(b, out, row);
        copy_half(b + 2, out + 32, row);
        for (int i = 0; i < 8; i++) {
          out[64 + (2 * i) * kTileRows + row] = scale[i];
          out[64 + (2 * i + 1) * kTileRows + row] = min[i];
        }
        out += 320;
        break;
      }
      case TensorType::Q3_K:
      case TensorType::Q6_K: {
        int8_t scale[16];
        if (type == TensorType::Q3_K) {
          unpack_q3_scales(b + 96, scale);
        } else {
          std::memcpy(scale, b + 192, 16);
        }
        copy_half(b + (type == TensorType::Q3_K ? 108 : 208), out, row);
        for (int i = 0; i < 16; i++) {
          out[32 + i * kTileRows + row] = uint8_t(scale[i]);
        }
        out += 288;
        break;
      }
      default: fail("[quant] {} has no scales", info.name);
    }
  }
}

}  // namespace quern
