#include "ops/activation/gated.h"

#include <mlx/mlx.h>

#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

array reference(Gate kind, const array& gate, const array& up, mx::Stream s) {
  if (kind == Gate::silu) {
    return mx::multiply(mx::multiply(gate, mx::sigmoid(gate, s), s), up, s);
  }
  const array cube = mx::multiply(mx::square(gate, s), gate, s);
  const array inner =
      mx::multiply(mx::add(gate, mx::multiply(cube, array(0.044715f), s), s),
                   array(0.7978845608f), s);
  const array half = mx::multiply(gate, array(0.5f), s);
  const array gelu =
      mx::multiply(half, mx::add(mx::tanh(inner, s), array(1.f), s), s);
  return mx::multiply(gelu, up, s);
}

}  // namespace

array gated(Gate kind, const array& gate_any, const array& up_any,
            mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const array gate = mx::astype(gate_any, mx::float32, s);
  const array up = mx::astype(up_any, mx::float32, s);
  if (gate.shape() != up.shape()) {
    fail("[gated] gate and up must have one shape");
  }
  if (!on_cpu(s)) return reference(kind, gate, up, s);
  auto run = [kind](std::vector<array>& in, std::vector<array>& out) {
    const float* gate = in[0].data<float>();
    const float* up = in[1].data<float>();
    float* y = out[0].data<float>();
    const auto kernel =
        kind == Gate::silu ? kernels().silu_mul : kernels().gelu_tanh_mul;
    constexpr int kAtOnce = 1024;
    const int size = int(in[0].size());
    parallel_for((size + kAtOnce - 1) / kAtOnce, 4, [&](int begin, int end) {
      const int from = begin * kAtOnce, to = std::min(end * kAtOnce, size);
      kernel(gate + from, up + from, to - from, y + from);
    });
  };
  return cpu_op("quern.gated", s, gate.shape(), mx::float32, {gate, up},
                std::move(run));
}

}  // namespace quern
