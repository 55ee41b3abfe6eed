#include "quant/pack.h"

#include <mlx/mlx.h>

#include <cstring>
#include <limits>

#include "ops/huge_pages.h"
#include "ops/thread_pool.h"
#include "quant/gguf_blocks.h"

namespace quern {
namespace {

using qmm::kTileRows;
using qmm::kUnit;

// The codes of one row (K bytes) into the code part of a tile.
void put_codes(const uint8_t* q, int k, int bits, int row, uint8_t* out) {
  for (int at = 0; at < k; at += kUnit, out += 64 * bits) {
    qmm::put_unit(q + at, bits, row, out);
  }
}

// A weight [n, k] whose tiles are yet to be filled; `t` is for the reason.
Result<Weight> unfilled(const TensorView& t, const qmm::Format& format,
                        int64_t n, int64_t k) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (n < 1 || k < 1 || n > kMost - kTileRows || k > kMost - kUnit ||
      format.tile_bytes(int(k)) > size_t(kMost)) {
    return failure("{}: a weight of {} x {} is out of range", t.name, n, k);
  }
  // Two-dimensional, so that no dimension passes 2^31 - 1.
  const size_t tile = format.tile_bytes(int(k));
  const size_t bytes = format.bytes(int(n), int(k));
  mx::array tiles(weight_memory(bytes),
                  {mx::ShapeElem(bytes / tile), mx::ShapeElem(tile)},
                  mx::uint8);
  return Weight{format, int(n), int(k), std::move(tiles)};
}

// Fills the weight tile by tile: fill(row, n, tile) for each row n of [0, N).
template <class Fill>
void fill_tiles(Weight& w, const Fill& fill) {
  const size_t tile_bytes = w.format.tile_bytes(w.k);
  auto* tiles = w.tiles.data<uint8_t>();
  const int count = qmm::round_up(w.n, kTileRows) / kTileRows;
  parallel_for(count, 4, [&](int begin, int end) {
    for (int t = begin; t < end; t++) {
      uint8_t* tile = tiles + t * tile_bytes;
      const int rows = std::min(kTileRows, w.n - t * kTileRows);
      // Padding: of N, of a dense K, of the scales to a whole line.
      if (rows < kTileRows || w.format.dense()) {
        std::memset(tile, 0, tile_bytes);
      } else {
        std::memset(tile + w.format.scale_bytes(w.k) - 64, 0, 64);
      }
      for (int row = 0; row < rows; row++) fill(row, t * kTileRows + row, tile);
    }
  });
}

template <class Word>
void put_dense(const uint8_t* from, int k, int row, uint8_t* tile) {
  for (int i = 0; i < k; i++) {
    std::memcpy(tile + (size_t(i) * kTileRows + row) * sizeof(Word),
                from + size_t(i) * sizeof(Word), sizeof(Word));
  }
}

const uint8_t* data_of(const TensorView& t) {
  return reinterpret_cast<const uint8_t*>(t.bytes.data());
}

void forget(const TensorView& t) {
  if (t.file) t.file->forget(t.bytes);
}

// One row of MLX's affine codes: a little-endian stream of `bits` each.
void unpack_stream(const uint8_t* from, int k, int bits, uint8_t* q) {
  if (bits == 8) {
    std::memcpy(q, from, k);
    return;
  }
  if (bits == 4) {  // a loop that compilers turn into vectors
    for (int i = 0; i < k / 2; i++) {
      q[2 * i] = from[i] & 15;
      q[2 * i + 1] = from[i] >> 4;
    }
    return;
  }
  const uint32_t mask = (1u << bits) - 1;
  for (int i = 0; i < k; i += 8, from += bits) {  // 8 codes in `bits` bytes
    uint64_t word = 0;
    std::memcpy(&word, from, bits);
    for (int j = 0; j < 8; j++) q[i + j] = uint8_t(word >> (j * bits) & mask);
  }
}

}  // namespace

Result<Weight> pack_weight(const TensorView& t) {
  if (auto status = require_supported(t); !status) return status.failure();
  if (t.shape.size() != 2) {
    return failure("{}: expected a matrix, got {} dimensions", t.name,
                   t.shape.size());
  }
  const TypeInfo& info = type_info(t.type);
  const bool dense = t.type == TensorType::F32 || t.type == TensorType::F16 ||
                     t.type == TensorType::BF16;
  if (!dense && info.block == 1) {
    return failure("{}: a weight of type {} is not supported", t.name,
                   info.name);
  }
  auto w = unfilled(t, format_of(t.type), t.shape[0], t.shape[1]);
  if (!w) return w;
  const int k = w->k;
  const size_t row_bytes = size_t(k) / info.block * info.bytes;
  const uint8_t* data = data_of(t);
  fill_tiles(*w, [&](int row, int n, uint8_t* tile) {
    const uint8_t* from = data + n * row_bytes;
    if (dense) {
      t.type == TensorType::F32 ? put_dense<uint32_t>(from, k, row, tile)
                                : put_dense<uint16_t>(from, k, row, tile);
      return;
    }
    thread_local std::vector<uint8_t> codes;
    codes.resize(k);
    block_codes(t.type, from, k, codes.data());
    block_scales(t.type, from, k, row, tile);
    put_codes(codes.data(), k, w->format.bits, row,
              tile + w->format.scale_bytes(k));
  });
  forget(t);
  return w;
}

Result<Weight> pack_affine(const TensorView& codes, const TensorView& scales,
                           const TensorView& biases, int bits, int group) {
  if (!(bits >= 2 && bits <= 8 && bits != 7) ||
      !(group == 32 || group == 64 || group == 128)) {
    return failure(
        "{}: {} bits in groups of {} are not supported (bits 2, 3, "
        "4, 5, 6, 8; groups 32, 64, 128)",
        codes.name, bits, group);
  }
  const auto bad_shape = [&] {
    return failure(
        "{}: codes, scales and biases do not fit {} bits in groups "
        "of {}",
        codes.name, bits, group);
  };
  if (codes.type != TensorType::U32 || codes.shape.size() != 2 ||
      scales.shape.size() != 2 || scales.shape != biases.shape ||
      scales.shape[0] != codes.shape[0]) {
    return bad_shape();
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t words = codes.shape[1], groups = scales.shape[1];
  if (words > kMost || groups > kMost || words * 32 != groups * group * bits) {
    return bad_shape();
  }
  const int64_t k = groups * group;
  qmm::Format format{bits, qmm::Scales::pair, group, 0, qmm::Number::f32};
  switch (scales.type) {
    case TensorType::F32: break;
    case TensorType::F16: format.number = qmm::Number::f16; break;
    case TensorType::BF16: format.number = qmm::Number::bf16; break;
    default:
      return failure("{}: expected F32, F16 or BF16, got {}", scales.name,
                     type_info(scales.type).name);
  }
  if (biases.type != scales.type) {
    return failure("{}: expected the type of the scales, got {}", biases.name,
                   type_info(biases.type).name);
  }
  auto w = unfilled(codes, format, codes.shape[0], k);
  if (!w) return w;
  const int size = qmm::number_bytes(format.number);
  const size_t line = size_t(kTileRows) * size;
  fill_tiles(*w, [&](int row, int n, uint8_t* tile) {
    thread_local std::vector<uint8_t> q;
    q.resize(k);
    unpack_stream(data_of(codes) + size_t(n) * words * 4, int(k), bits,
                  q.data());
    put_codes(q.data(), int(k), bits, row, tile + format.scale_bytes(int(k)));
    for (int64_t g = 0; g < groups; g++) {
      const size_t from = (size_t(n) * groups + g) * size;
      uint8_t* at = tile + g * 2 * line + size_t(row) * size;
      std::memcpy(at, data_of(scales) + from, size);
      std::memcpy(at + line, data_of(biases) + from, size);
    }
  });
  for (const TensorView* t : {&codes, &scales, &biases}) forget(*t);
  return w;
}

Result<mx::array> to_f32(const TensorView& t) {
  mx::Dtype dtype = mx::float32;
  switch (t.type) {
    case TensorType::F32: break;
    case TensorType::F16: dtype = mx::float16; break;
    case TensorType::BF16: dtype = mx::bfloat16; break;
    default:
      return failure("{}: expected F32, F16 or BF16, got {}", t.name,
                     type_info(t.type).name);
  }
  mx::Shape shape;
  for (int64_t size : t.shape) {
    if (size > std::numeric_limits<int32_t>::max()) {
      return failure("{}: a dimension of {} is out of range", t.name, size);
    }
    shape.push_back(mx::ShapeElem(size));
  }
  mx::array raw(allocate(std::max<size_t>(t.bytes.size(), 1)), shape, dtype);
  std::memcpy(raw.data<uint8_t>(), t.bytes.data(), t.bytes.size());
  mx::array f32 = mx::astype(raw, mx::float32);
  mx::eval(f32);
  return f32;
}

}  // namespace quern
