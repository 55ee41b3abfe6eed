#include "ops/rope/rope.h"

#include <mlx/mlx.h>

#include <cmath>
#include <cstring>

#include "ops/kernels.h"
#include "ops/norm/rms_norm.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

array reference(const array& flat, const array& table,
                const RopeOptions& options, mx::Stream s) {
  const int T = flat.shape(0), D = options.head_dim, H = flat.shape(1) / D;
  const int R = table.shape(2);
  const array x = mx::reshape(flat, {T, H, D}, s);
  auto angles = [&](int i) {  // [T, 1, R]
    return mx::slice(table, {0, i, 0}, {T, i + 1, R}, s);
  };
  const array cos = angles(0), sin = angles(1);
  const array head = options.norm ? rms_norm(x, *options.norm, options.norm_eps,
                                             options.norm_offset, {}, s)
                                  : x;
  auto cut = [&](const array& a, int from, int to, int step) {
    return mx::slice(a, {0, 0, from}, {T, H, to}, {1, 1, step}, s);
  };
  const bool pairs = options.interleaved;
  const array a = pairs ? cut(head, 0, 2 * R, 2) : cut(head, 0, R, 1);
  const array b = pairs ? cut(head, 1, 2 * R, 2) : cut(head, R, 2 * R, 1);
  const array x0 =
      mx::subtract(mx::multiply(a, cos, s), mx::multiply(b, sin, s), s);
  const array x1 = mx::add(mx::multiply(a, sin, s), mx::multiply(b, cos, s), s);
  array rotated =
      pairs ? mx::reshape(mx::stack({x0, x1}, -1, s), {T, H, 2 * R}, s)
            : mx::concatenate({x0, x1}, -1, s);
  if (2 * R < D) {
    rotated = mx::concatenate({rotated, cut(head, 2 * R, D, 1)}, -1, s);
  }
  return mx::reshape(rotated, flat.shape(), s);
}

}  // namespace

array rope_table(const array& positions_any, const array& inv_freq_any,
                 float factor, mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const array positions = mx::astype(positions_any, mx::int32, s);
  const array inv_freq = mx::astype(inv_freq_any, mx::float32, s);
  const int T = int(positions.size()), R = int(inv_freq.size());
  if (!on_cpu(s)) {
    const array angle = mx::multiply(
        mx::reshape(mx::astype(positions, mx::float32, s), {T, 1}, s),
        mx::reshape(inv_freq, {1, R}, s), s);
    return mx::multiply(mx::stack({mx::cos(angle, s), mx::sin(angle, s)}, 1, s),
                        array(factor), s);
  }
  auto run = [R, factor](std::vector<array>& in, std::vector<array>& out) {
    const int32_t* position = in[0].data<int32_t>();
    const float* freq = in[1].data<float>();
    float* table = out[0].data<float>();
    parallel_for(int(in[0].size()), 8, [&](int begin, int end) {
      for (int t = begin; t < end; t++) {
        float* row = table + int64_t(t) * 2 * R;
        for (int i = 0; i < R; i++) {
          const double angle = double(position[t]) * double(freq[i]);
          row[i] = float(std::cos(angle)) * factor;
          row[R + i] = float(std::sin(angle)) * factor;
        }
      }
    });
  };
  return cpu_op("quern.rope_table", s, {T, 2, R}, mx::float32,
                {positions, inv_freq}, std::move(run));
}

array rope(const array& x_any, const array& table_any,
           const RopeOptions& options, mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  const array x = mx::astype(x_any, mx::float32, s);
  const array table = mx::astype(table_any, mx::float32, s);
  const int D = options.head_dim;
  if (x.ndim() != 2 || D < 2 || x.shape(1) < D || x.shape(1) % D ||
      table.ndim() != 3 || table.shape(0) != x.shape(0) ||
      table.shape(1) != 2 || 2 * table.shape(2) > D) {
    fail("[rope] expected x [T, H * D] and a table [T, 2, R] with 2 R <= D");
  }
  if (options.norm && int(options.norm->size()) != D) {
    fail("[rope] the norm must have {} numbers, got {}", D,
         options.norm->size());
  }
  if (!on_cpu(s)) return reference(x, table, options, s);

  std::vector<array> inputs{x, table};
  if (options.norm) {
    inputs.push_back(mx::astype(*options.norm, mx::float32, s));
  }
  auto run = [D, interleaved = options.interleaved, eps = options.norm_eps,
              offset = options.norm_offset](std::vector<array>& in,
                                            std::vector<array>& out) {
    const int H = in[0].shape(1) / D, R = in[1].shape(2);
    const float* x = in[0].data<float>();
    const float* table = in[1].data<float>();
    const float* norm = in.size() > 2 ? in[2].data<float>() : nullptr;
    float* y = out[0].data<float>();
    parallel_for(
        in[0].shape(0), std::max(1, 8192 / (H * D)), [&](int begin, int end) {
          for (int64_t t = begin; t < end; t++) {
            const int64_t at = t * H * D;
            if (norm) {
              for (int h = 0; h < H; h++) {
                kernels().rms_norm(x + at + h * D, norm, offset, eps, D,
                                   y + at + h * D);
              }
            } else {
              std::memcpy(y + at, x + at, size_t(H) * D * sizeof(float));
            }
            const float* angles = table + t * 2 * R;
            kernels().rope(y + at, H, D, 2 * R, interleaved, angles,
                           angles + R);
          }
        });
  };
  return cpu_op("quern.rope", s, x.shape(), mx::float32, std::move(inputs),
                std::move(run));
}

}  // namespace quern
