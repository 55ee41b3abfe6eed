#include "ops/layer/layer.h"

#include <cmath>

#include "ops/rope/rope.h"
#include "ops/support.h"
#include "ops/weights.h"

namespace quern {
namespace {

using test::normal_floats;
using test::to_array;
using test::to_floats;

constexpr int kHidden = 64, kHeads = 6, kKvHeads = 2, kDim = 16, kInner = 96;

mx::array numbers(mx::Shape shape, int seed) {
  size_t count = 1;
  for (int n : shape) count *= n;
  return to_array(normal_floats(count, seed), shape);
}

RmsNorm norm(int size, int seed) { return {numbers({size}, seed), 1e-5f, 1}; }

// `after` as Gemma has it: norms after the blocks.
LayerWeights weights(const qmm::Format& format, bool after) {
  auto weight = [&](int n, int k, int seed) {
    return test::random_weight(format, n, k, seed);
  };
  const int q = kHeads * kDim, kv = kKvHeads * kDim;
  ProjectionOptions out, down;
  if (after) {
    out.out_norm = norm(kHidden, 10);
    down.out_norm = norm(kHidden, 11);
  }
  return {
      .qkv = {{weight(q, kHidden, 1), weight(kv, kHidden, 2),
               weight(kv, kHidden, 3)},
              {.norm = norm(kHidden, 8),
               .biases = {numbers({q}, 12), std::nullopt, numbers({kv}, 13)}}},
      .out = {weight(kHidden, q, 4), out},
      .gate_up = {{weight(kInner, kHidden, 5), weight(kInner, kHidden, 6)},
                  {.norm = norm(kHidden, 9),
                   .gate = after ? Gate::gelu_tanh : Gate::silu}},
      .down = {weight(kHidden, kInner, 7), down}};
}

class Layer : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Layer);

// One node gives what the ops give one after the other, bit for bit, for rows
// that decode, rows that are fed, and both together.
TEST_P(Layer, IsItsParts) {
  const auto formats = test::main_formats();
  AttendOptions options{.kv = {qmm::Number::f16, kKvHeads, kDim},
                        .scale = 1 / std::sqrt(float(kDim))};
  options.q_norm = norm(kDim, 14);
  const auto freq = numbers({kDim / 2}, 15);
  for (size_t format : {size_t(0), size_t(3)}) {
    for (bool after : {false, true}) {
      const LayerWeights w = weights(formats[format], after);
      for (Precision precision : {Precision::fast, Precision::exact}) {
        for (int threads : {1, 3}) {
          set_threads(threads);
          SCOPED_TRACE(testing::Message()
                       << formats[format].name() << " after " << after
                       << " exact " << int(precision) << " threads "
                       << threads);
          const mx::array none = mx::zeros({0});
          std::vector<AttendRow> rows{{0, 70, 0, 128, none},
                                      {70, 3, 0, 64, none}};
          std::vector<AttendRow> parts = rows;
          for (int step = 0; step < 3; step++) {
            const int T = rows.back().begin + rows.back().count;
            const mx::array x = numbers({T, kHidden}, 20 + step);
            const mx::array table =
                rope_table(mx::arange(step, step + T, mx::int32), freq);
            const LayerResult one =
                decoder_layer(x, w, precision, rows, options, table);
            const LayerResult each =
                decoder_layer_parts(x, w, precision, parts, options, table);
            EXPECT_TRUE(
                test::same_bits(to_floats(one.out), to_floats(each.out)))
                << "step " << step;
            mx::eval(one.done, each.done);
            for (size_t i = 0; i < rows.size(); i++) {
              for (AttendRow* row : {&rows[i], &parts[i]}) {
                row->start += row->count;
                row->begin = int(i);
                row->count = 1;
              }
              rows[i].planes = one.planes[i];
              parts[i].planes = each.planes[i];
            }
          }
        }
      }
    }
  }
}

TEST(LayerErrors, SayWhatWasExpected) {
  const LayerWeights w = weights(test::main_formats()[0], false);
  const AttendOptions options{.kv = {qmm::Number::f16, kKvHeads, kDim}};
  auto error = [](mx::Shape x, const LayerWeights& w, const AttendOptions& o) {
    return test::error_of([&] {
      decoder_layer(mx::zeros(x), w, Precision::fast, {}, o, std::nullopt);
    });
  };
  EXPECT_EQ(error({2, 64}, w, options), "");
  EXPECT_EQ(error({2, 63}, w, options), "[layer] expected x [T, 64]");
  EXPECT_EQ(error({64}, w, options), "[layer] expected x [T, 64]");
  AttendOptions other = options;
  other.kv.kv_heads = 3;
  EXPECT_EQ(error({2, 64}, w, other),
            "[layer] q, k, v and out do not fit 3 KV heads of 16");
  LayerWeights bad = w;
  bad.gate_up = w.qkv;
  EXPECT_EQ(error({2, 64}, bad, options),
            "[layer] gate, up and down do not fit x [T, 64]");
}

}  // namespace
}  // namespace quern
