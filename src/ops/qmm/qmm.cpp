#include "ops/qmm/qmm.h"

#include <mlx/mlx.h>

#include <cmath>
#include <limits>

#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

constexpr int kTilesAtLeast = 4;  // tiles worth a claim of a thread

// Int8Rows over memory of the calling thread, kept for its next matmul.
Int8Rows int8_scratch(int rows, int k) {
  const size_t units = size_t(rows) * (k / 32);
  thread_local std::vector<int8_t> q;
  thread_local std::vector<float> scale, sum;
  thread_local std::vector<int32_t> half_sums;
  q.resize(size_t(rows) * k);
  scale.resize(units);
  sum.resize(units);
  half_sums.resize(units * 2);
  return {k, q.data(), scale.data(), sum.data(), half_sums.data()};
}

struct Part {
  Tiles tiles;
  MatmulOut out;
  int tile_count;
};

void run_parts(std::span<const Part> parts, const float* x, int rows, int k,
               Precision precision) {
  const Kernels& kernel = kernels();
  Int8Rows int8{};
  bool needs_int8 = false;
  int tiles = 0;
  for (const Part& part : parts) {
    tiles += part.tile_count;
    needs_int8 |= precision == Precision::fast && !part.tiles.format.dense();
  }
  if (needs_int8) {
    int8 = int8_scratch(rows, k);
    parallel_for(rows, std::max(1, 32768 / k), [&](int begin, int end) {
      kernel.quantize_rows(x, k, begin, end, int8);
    });
  }
  parallel_for(tiles, kTilesAtLeast, [&](int begin, int end) {
    for (const Part& part : parts) {
      const int from = std::max(begin, 0);
      const int to = std::min(end, part.tile_count);
      if (from < to) {
        if (precision == Precision::fast && !part.tiles.format.dense()) {
          kernel.matmul_int8(part.tiles, from, to, int8, 0, rows, part.out);
        } else {
          kernel.matmul_f32(part.tiles, from, to, x, k, 0, rows, part.out);
        }
      }
      begin -= part.tile_count;
      end -= part.tile_count;
    }
  });
}

void check(const array& x, std::span<const Weight> weights,
           const MatmulExtras& extras) {
  if (weights.empty()) fail("[matmul] needs a weight");
  for (const Weight& w : weights) {
    if (x.ndim() == 0 || x.shape(-1) != w.k) {
      fail("[matmul] the last dimension of x must be {}, got {}", w.k,
           x.ndim() ? x.shape(-1) : 0);
    }
  }
  if (!extras.biases.empty() && extras.biases.size() != weights.size()) {
    fail("[matmul] {} biases for {} weights", extras.biases.size(),
         weights.size());
  }
  for (size_t i = 0; i < extras.biases.size(); i++) {
    const auto& bias = extras.biases[i];
    if (bias && int(bias->size()) != weights[i].n) {
      fail("[matmul] bias must have {} numbers, got {}", weights[i].n,
           bias->size());
    }
  }
  if (extras.residual &&
      (weights.size() != 1 || extras.residual->ndim() == 0 ||
       extras.residual->shape(-1) != weights[0].n ||
       extras.residual->size() / weights[0].n != x.size() / weights[0].k)) {
    fail("[matmul] the residual must have the shape of the one result");
  }
}

std::vector<array> reference(const array& x, std::span<const Weight> weights,
                             const MatmulExtras& extras, mx::Stream s) {
  auto f32 = [&](const array& a) { return mx::astype(a, mx::float32, s); };
  std::vector<array> out;
  for (size_t i = 0; i < weights.size(); i++) {
    array y = mx::matmul(x, mx::transpose(dequantize(weights[i], s), s), s);
    if (!extras.biases.empty() && extras.biases[i]) {
      y = mx::add(y, f32(*extras.biases[i]), s);
    }
    if (extras.residual) y = mx::add(y, f32(*extras.residual), s);
    out.push_back(y);
  }
  return out;
}

}  // namespace

std::vector<array> matmul(const array& x_any, std::span<const Weight> weights,
                          Precision precision, const MatmulExtras& extras,
                          mx::StreamOrDevice where) {
  check(x_any, weights, extras);
  const mx::Stream s = stream_of(where);
  auto f32 = [&](const array& a) { return mx::astype(a, mx::float32, s); };
  const array x = f32(x_any);
  if (!on_cpu(s)) return reference(x, weights, extras, s);

  std::vector<array> inputs{x};
  std::vector<mx::Shape> shapes;
  struct Layout {
    qmm::Format format;
    int n, k, bias;  // input index of the bias, 0 = none
  };
  std::vector<Layout> layouts;
  for (const Weight& w : weights) {
    inputs.push_back(w.tiles);
    layouts.push_back({w.format, w.n, w.k, 0});
    mx::Shape shape = x.shape();
    shape.back() = w.n;
    shapes.push_back(std::move(shape));
  }
  for (size_t i = 0; i < extras.biases.size(); i++) {
    if (!extras.biases[i]) continue;
    layouts[i].bias = int(inputs.size());
    inputs.push_back(f32(*extras.biases[i]));
  }
  const int residual = extras.residual ? int(inputs.size()) : 0;
  if (extras.residual) inputs.push_back(f32(*extras.residual));

  auto run = [layouts, precision, residual](std::vector<array>& in,
                                            std::vector<array>& out) {
    const int k = layouts[0].k;
    std::vector<Part> parts;
    parts.reserve(layouts.size());
    for (size_t i = 0; i < layouts.size(); i++) {
      const Layout& w = layouts[i];
      parts.push_back(
          {.tiles = {w.format, in[1 + i].data<uint8_t>(), w.n, w.k},
           .out = {.y = out[i].data<float>(),
                   .stride = w.n,
                   .bias = w.bias ? in[w.bias].data<float>() : nullptr,
                   .residual = residual ? in[residual].data<float>() : nullptr,
                   .residual_stride = w.n},
           .tile_count = qmm::round_up(w.n, qmm::kTileRows) / qmm::kTileRows});
    }
    run_parts(parts, in[0].data<float>(), int(in[0].size() / k), k, precision);
  };
  return cpu_ops("quern.matmul", s, std::move(shapes),
                 std::vector<mx::Dtype>(weights.size(), mx::float32),
                 std::move(inputs), std::move(run));
}

array matmul(const array& x, const Weight& w, Precision precision,
             const MatmulExtras& extras, mx::StreamOrDevice s) {
  return matmul(x, std::span(&w, 1), precision, extras, s)[0];
}

array embedding(const array& ids_any, const Weight& w, float factor,
                mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const array ids = mx::astype(ids_any, mx::int32, s);
  if (!on_cpu(s)) {
    const array rows = mx::take(dequantize(w, s), ids, 0, s);
    return mx::multiply(rows, array(factor), s);
  }
  mx::Shape shape = ids.shape();
  shape.push_back(w.k);
  auto run = [format = w.format, n = w.n, k = w.k, factor](
                 std::vector<array>& in, std::vector<array>& out) {
    const Tiles tiles{format, in[1].data<uint8_t>(), n, k};
    const int32_t* id = in[0].data<int32_t>();
    float* y = out[0].data<float>();
    parallel_for(int(in[0].size()), 8, [&](int begin, int end) {
      for (int i = begin; i < end; i++) {
        float* row = y + int64_t(i) * k;
        if (id[i] < 0 || id[i] >= n) {
          std::fill_n(row, k, std::numeric_limits<float>::quiet_NaN());
          continue;
        }
        kernels().dequantize_row(tiles, id[i], row);
        if (factor != 1) kernels().scale(row, factor, k, row);
      }
    });
  };
  return cpu_op("quern.embedding", s, std::move(shape), mx::float32,
                {ids, w.tiles}, std::move(run));
}

}  // namespace quern
