#include "ops/layer/layer.h"

#include <mlx/mlx.h>

#include <memory>

#include "ops/attention/run.h"
#include "ops/qmm/run.h"

namespace quern {
namespace {

using mx::array;

void check(const array& x, const LayerWeights& w, const AttendOptions& o) {
  const int D = o.kv.head_dim, K = w.qkv.k();
  const auto& qkv = w.qkv.widths();
  if (x.ndim() != 2 || x.shape(1) != K) {
    fail("[layer] expected x [T, {}]", K);
  }
  if (qkv.size() != 3 || D < 1 || qkv[1] != o.kv.kv_heads * D ||
      qkv[2] != qkv[1] || qkv[1] == 0 || qkv[0] % qkv[1] != 0 ||
      w.out.k() != qkv[0] || w.out.widths() != std::vector{K}) {
    fail("[layer] q, k, v and out do not fit {} KV heads of {}", o.kv.kv_heads,
         D);
  }
  if (w.gate_up.k() != K || w.gate_up.widths() != std::vector{w.down.k()} ||
      w.down.widths() != std::vector{K}) {
    fail("[layer] gate, up and down do not fit x [T, {}]", K);
  }
}

// What lies between the ops of a layer, for `tokens` tokens, in memory that
// the stream's thread keeps.
class Scratch {
 public:
  Scratch(const LayerWeights& w, int tokens) {
    const auto& qkv = w.qkv.widths();
    const int widths[] = {qkv[0], qkv[1],    qkv[2],
                          qkv[0], w.qkv.k(), w.down.k()};
    size_t all = 0;
    for (int width : widths) all += size_t(width) * tokens;
    thread_local std::vector<float> memory;
    if (memory.size() < all) {
      memory = {};  // not the old and the new at the same time
      memory.resize(all);
    }
    float** parts[] = {&q, &k, &v, &mixed, &h, &gated};
    float* next = memory.data();
    for (int i = 0; i < 6; i++) {
      *parts[i] = next;
      next += size_t(widths[i]) * tokens;
    }
  }

  float *q, *k, *v;  // [T, heads * D], [T, kv_heads * D] twice
  float* mixed;      // [T, heads * D]
  float* h;          // [T, K]
  float* gated;      // [T, I]
};

// Inputs x, the rope's table if any, then what the planes wait for; outputs
// the result and `done`.
class LayerPrimitive final : public CpuPrimitive {
 public:
  LayerPrimitive(mx::Stream s, LayerWeights weights, Precision precision,
                 AttendPlan plan, bool rope)
      : CpuPrimitive(s, "quern.layer"),
        all_(std::make_shared<const All>(
            All{std::move(weights), precision, std::move(plan), rope})) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    for (array& a : outputs) a.set_data(allocate(a.nbytes()));
    const array& table = inputs[all_->rope ? 1 : 0];
    mx::cpu::get_command_encoder(stream()).dispatch(
        [all = all_, x = array::unsafe_weak_copy(inputs[0]),
         table = array::unsafe_weak_copy(table),
         out = array::unsafe_weak_copy(outputs[0])]() mutable {
          run(*all, x, table, out.data<float>());
        });
  }

 private:
  struct All {
    LayerWeights weights;
    Precision precision;
    AttendPlan plan;
    bool rope;
  };

  static void run(const All& all, const array& x_in, const array& table,
                  float* y) {
    const LayerWeights& w = all.weights;
    const int T = x_in.shape(0);
    const float* x = x_in.data<float>();
    const Scratch s(w, T);
    auto project = [&](const Projection& projection, const float* from,
                       const float* residual,
                       std::initializer_list<float*> to) {
      run_projection(projection, all.precision, from, T, residual,
                     {to.begin(), to.size()});
    };
    project(w.qkv, x, nullptr, {s.q, s.k, s.v});
    run_attend(all.plan, w.out.k() / all.plan.options.kv.head_dim, s.q, s.k,
               s.v, all.rope ? table.data<float>() : nullptr,
               all.rope ? 2 * table.shape(2) : 0, s.mixed);
    project(w.out, s.mixed, x, {s.h});
    project(w.gate_up, s.h, nullptr, {s.gated});
    project(w.down, s.gated, s.h, {y});
  }

  std::shared_ptr<const All> all_;
};

}  // namespace

LayerResult decoder_layer(const array& x_any, const LayerWeights& weights,
                          Precision precision, std::vector<AttendRow> rows,
                          AttendOptions options,
                          const std::optional<array>& rope_table,
                          mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  options.precision = precision;
  check(x_any, weights, options);
  check_attend(rows, options, x_any.shape(0), rope_table);
  if (!on_cpu(s)) {
    return decoder_layer_parts(x_any, weights, precision, std::move(rows),
                               options, rope_table, s);
  }
  auto f32 = [&](const array& a) {
    return in_row_order(mx::astype(a, mx::float32, s), s);
  };
  std::vector<array> inputs{f32(x_any)};
  if (rope_table) inputs.push_back(f32(*rope_table));
  AttendPlan plan(std::move(rows), options, inputs);
  std::vector<array> planes = plan.planes();
  const mx::Shape shape = inputs[0].shape();
  auto out = array::make_arrays(
      {shape, {1}}, {mx::float32, mx::bool_},
      std::make_shared<LayerPrimitive>(s, weights, precision, std::move(plan),
                                       rope_table.has_value()),
      inputs);
  return {std::move(out[0]), std::move(out[1]), std::move(planes)};
}

array layer_around(const array& x, const LayerWeights& weights,
                   Precision precision, const AttendFunction& attend,
                   mx::StreamOrDevice s) {
  const auto qkv = matmul_each(x, weights.qkv, precision, {}, s);
  const array mixed = attend(qkv[0], qkv[1], qkv[2]);
  const array h = matmul(mixed, weights.out, precision, x, s);
  const array g = matmul(h, weights.gate_up, precision, {}, s);
  return matmul(g, weights.down, precision, h, s);
}

LayerResult decoder_layer_parts(const array& x, const LayerWeights& weights,
                                Precision precision,
                                std::vector<AttendRow> rows,
                                AttendOptions options,
                                const std::optional<array>& rope_table,
                                mx::StreamOrDevice s) {
  options.precision = precision;
  std::optional<Attended> attended;
  const array out = layer_around(
      x, weights, precision,
      [&](const array& q, const array& k, const array& v) {
        attended = attend(q, k, v, std::move(rows), options, rope_table, s);
        return attended->out;
      },
      s);
  return {out, std::move(attended->done), std::move(attended->planes)};
}

}  // namespace quern
