#include "ops/qmm/qmm.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <limits>

#include "ops/kernels.h"
#include "ops/qmm/run.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

void check(const std::vector<Weight>& weights, const ProjectionOptions& o) {
  if (weights.empty()) fail("[matmul] needs a weight");
  for (const Weight& w : weights) {
    if (w.k != weights[0].k) {
      fail("[matmul] weights of one x must have one K, got {} and {}",
           weights[0].k, w.k);
    }
  }
  if (!o.biases.empty() && o.biases.size() != weights.size()) {
    fail("[matmul] {} biases for {} weights", o.biases.size(), weights.size());
  }
  for (size_t i = 0; i < o.biases.size(); i++) {
    if (o.biases[i] && int(o.biases[i]->size()) != weights[i].n) {
      fail("[matmul] bias must have {} numbers, got {}", weights[i].n,
           o.biases[i]->size());
    }
  }
  if (o.gate && (weights.size() != 2 || weights[0].n != weights[1].n)) {
    fail("[matmul] a gate takes two weights of one shape");
  }
  if (o.norm && int(o.norm->weight.size()) != weights[0].k) {
    fail("[matmul] the norm of x must have {} numbers, got {}", weights[0].k,
         o.norm->weight.size());
  }
  if (o.out_norm &&
      (weights.size() != 1 || int(o.out_norm->weight.size()) != weights[0].n)) {
    fail(
        "[matmul] the result's norm must have as many numbers as the one "
        "result");
  }
}

void check(const array& x, const Projection& projection,
           const std::optional<array>& residual) {
  const int k = projection.k();
  if (x.ndim() == 0 || x.shape(-1) != k) {
    fail("[matmul] the last dimension of x must be {}, got {}", k,
         x.ndim() ? x.shape(-1) : 0);
  }
  if (!residual) return;
  if (projection.options().gate) {
    fail("[matmul] a gated result takes no residual");
  }
  const std::vector<int>& widths = projection.widths();
  if (widths.size() != 1 || residual->ndim() == 0 ||
      residual->shape(-1) != widths[0] ||
      residual->size() / widths[0] != x.size() / k) {
    fail("[matmul] the residual must have the shape of the one result");
  }
}

std::vector<array> reference(array x, const Projection& projection,
                             const std::optional<array>& residual,
                             mx::Stream s) {
  const ProjectionOptions& o = projection.options();
  if (o.norm) x = rms_norm(x, *o.norm, s);
  std::vector<array> out;
  for (size_t i = 0; i < projection.weights().size(); i++) {
    const array w = dequantize(projection.weights()[i], s);
    array y = mx::matmul(x, mx::transpose(w, s), s);
    if (!o.biases.empty() && o.biases[i]) y = mx::add(y, *o.biases[i], s);
    out.push_back(y);
  }
  if (o.gate) out = {gated(*o.gate, out[0], out[1], s)};
  if (o.out_norm) out = {rms_norm(out[0], *o.out_norm, s)};
  if (residual) out = {mx::add(out[0], *residual, s)};
  return out;
}

// Evaluated, f32, in row order.
array constant(const array& a) {
  array f32 = mx::contiguous(mx::astype(a, mx::float32));
  mx::eval(f32);
  return f32;
}

}  // namespace

Projection::Projection(std::vector<Weight> weights, ProjectionOptions options) {
  check(weights, options);
  for (auto& bias : options.biases) {
    if (bias) bias = constant(*bias);
  }
  for (auto* norm : {&options.norm, &options.out_norm}) {
    if (*norm) (*norm)->weight = constant((*norm)->weight);
  }
  std::vector<int> widths;
  for (Weight& w : weights) {
    mx::eval(w.tiles);
    widths.push_back(w.n);
  }
  if (options.gate) widths.pop_back();
  parts_ = std::make_shared<const Parts>(
      Parts{std::move(weights), std::move(options), std::move(widths)});
}

std::vector<array> matmul_each(const array& x_any, const Projection& projection,
                               Precision precision,
                               const std::optional<array>& residual,
                               mx::StreamOrDevice where) {
  check(x_any, projection, residual);
  const mx::Stream s = stream_of(where);
  std::vector<array> inputs{mx::astype(x_any, mx::float32, s)};
  if (residual) inputs.push_back(mx::astype(*residual, mx::float32, s));
  if (!on_cpu(s)) {
    return reference(inputs[0], projection,
                     residual ? std::optional(inputs[1]) : std::nullopt, s);
  }
  std::vector<mx::Shape> shapes;
  for (int width : projection.widths()) {
    shapes.push_back(inputs[0].shape());
    shapes.back().back() = width;
  }
  const size_t results = shapes.size();
  auto run = [projection, precision](std::vector<array>& in,
                                     std::vector<array>& out) {
    std::vector<float*> results;
    for (array& a : out) results.push_back(a.data<float>());
    run_projection(projection, precision, in[0].data<float>(),
                   int(in[0].size() / projection.k()),
                   in.size() > 1 ? in[1].data<float>() : nullptr, results);
  };
  return cpu_ops("quern.matmul", s, std::move(shapes),
                 std::vector<mx::Dtype>(results, mx::float32),
                 std::move(inputs), std::move(run));
}

array matmul(const array& x, const Projection& projection, Precision precision,
             const std::optional<array>& residual, mx::StreamOrDevice s) {
  auto results = matmul_each(x, projection, precision, residual, s);
  if (results.size() != 1) {
    fail("[matmul] gives {} results, expected one", results.size());
  }
  return results[0];
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
