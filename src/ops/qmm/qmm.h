// Matrix products with packed weights.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <span>
#include <vector>

#include "ops/cpu_op.h"
#include "ops/qmm/format.h"

namespace quern {

// One matrix [N, K] as tiles (ops/qmm/format.h). A value: copies share bytes.
struct Weight {
  qmm::Format format;
  int n, k;
  mx::array tiles;  // uint8 [format.bytes(n, k)]
};

// fast:  int8 x (one scale for 32 k) times the weight's own codes, summed in
//        int32 and f32; dense weights in f32.
// exact: f32 throughout, on the dequantised weight.
// In both a row's result depends on that row of x alone.
enum class Precision { fast, exact };

struct MatmulExtras {
  std::vector<std::optional<mx::array>>
      biases;                         // one for each weight, or empty
  std::optional<mx::array> residual;  // [..., N], added; one weight only
};

// y_i = x . w_i^T + bias_i (+ residual), for weights that share x [..., K]:
// x is prepared once and one pass of the threads serves all of them.
// Returns f32 [..., N_i]. Throws Error on shapes that do not fit.
std::vector<mx::array> matmul(const mx::array& x, std::span<const Weight> w,
                              Precision precision,
                              const MatmulExtras& extras = {},
                              mx::StreamOrDevice s = {});

mx::array matmul(const mx::array& x, const Weight& w, Precision precision,
                 const MatmulExtras& extras = {}, mx::StreamOrDevice s = {});

// The weight as f32 [N, K], in plain MLX ops: what the codes mean.
mx::array dequantize(const Weight& w, mx::StreamOrDevice s = {});

// Rows `ids` (int32 [...]) of w as f32 [..., K], times `factor`.
// Ids out of range give rows of NaN.
mx::array embedding(const mx::array& ids, const Weight& w, float factor = 1,
                    mx::StreamOrDevice s = {});

}  // namespace quern
