#include "ops/norm/rms_norm.h"

#include <mlx/mlx.h>

#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

array reference(const array& x, const array& weight, float eps, float offset,
                const std::optional<array>& residual, mx::Stream s) {
  const array mean = mx::mean(mx::square(x, s), -1, true, s);
  array y = mx::multiply(x, mx::rsqrt(mx::add(mean, array(eps), s), s), s);
  y = mx::multiply(y, mx::add(weight, array(offset), s), s);
  return residual ? mx::add(y, *residual, s) : y;
}

}  // namespace

array rms_norm(const array& x_any, const array& weight_any, float eps,
               float offset, const std::optional<array>& residual,
               mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const array x = mx::astype(x_any, mx::float32, s);
  const array weight = mx::astype(weight_any, mx::float32, s);
  if (x.ndim() == 0 || weight.ndim() != 1 || weight.size() == 0 ||
      x.shape(-1) != weight.shape(0)) {
    fail(
        "[rms_norm] the weight must have as many numbers as x's last "
        "dimension");
  }
  if (residual && residual->shape() != x.shape()) {
    fail("[rms_norm] the residual must have the shape of x");
  }
  if (!on_cpu(s)) return reference(x, weight, eps, offset, residual, s);

  std::vector<array> inputs{x, weight};
  if (residual) inputs.push_back(mx::astype(*residual, mx::float32, s));
  auto run = [eps, offset](std::vector<array>& in, std::vector<array>& out) {
    const int size = in[1].shape(0);
    const float* x = in[0].data<float>();
    const float* weight = in[1].data<float>();
    const float* add = in.size() > 2 ? in[2].data<float>() : nullptr;
    float* y = out[0].data<float>();
    parallel_for(int(in[0].size() / size), std::max(1, 16384 / size),
                 [&](int begin, int end) {
                   for (int64_t at = int64_t(begin) * size;
                        at < int64_t(end) * size; at += size) {
                     kernels().rms_norm(x + at, weight, offset, eps, size,
                                        y + at);
                     if (!add) continue;
                     for (int i = 0; i < size; i++) y[at + i] += add[at + i];
                   }
                 });
  };
  return cpu_op("quern.rms_norm", s, x.shape(), mx::float32, std::move(inputs),
                std::move(run));
}

}  // namespace quern
