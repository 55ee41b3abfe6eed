// Matrix products with packed weights.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <vector>

#include "ops/activation/gated.h"
#include "ops/cpu_op.h"
#include "ops/norm/rms_norm.h"
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

// What a projection does besides the products, in this order.
struct ProjectionOptions {
  std::optional<RmsNorm> norm;  // of x
  std::vector<std::optional<mx::array>>
      biases;                // [N], one for each weight, or empty
  std::optional<Gate> gate;  // of two weights of one shape: gate(y_0) * y_1
  std::optional<RmsNorm> out_norm;  // of the one result
  // Fast mode takes x in two int8 terms, the second of what the first leaves:
  // as good as 15 bits, for little where the weight's bytes set the time.
  bool fine = false;
};

// Weights that share an input, and what goes with them: constants, checked and
// evaluated here so that a step only has to point at them. Throws Error on
// shapes that do not fit. A value: copies share everything.
class Projection {
 public:
  Projection(std::vector<Weight> weights, ProjectionOptions options = {});
  Projection(const Weight& weight, ProjectionOptions options = {})
      : Projection(std::vector{weight}, std::move(options)) {}

  const std::vector<Weight>& weights() const { return parts_->weights; }
  const ProjectionOptions& options() const { return parts_->options; }
  int k() const { return weights()[0].k; }
  // Widths of the results.
  const std::vector<int>& widths() const { return parts_->widths; }

 private:
  struct Parts {
    std::vector<Weight> weights;
    ProjectionOptions options;
    std::vector<int> widths;
  };
  std::shared_ptr<const Parts> parts_;
};

// x . w_i^T + bias_i of normalised x [..., K], one result for each weight, or
// gate(y_0) * y_1. One result may be normalised again, and gets `residual`
// [..., N]. x is prepared once and one pass of the threads serves all weights.
// Returns f32 [..., N_i]. Throws Error on shapes that do not fit.
std::vector<mx::array> matmul_each(
    const mx::array& x, const Projection& projection, Precision precision,
    const std::optional<mx::array>& residual = {}, mx::StreamOrDevice s = {});

// The same, of a projection with one result.
mx::array matmul(const mx::array& x, const Projection& projection,
                 Precision precision,
                 const std::optional<mx::array>& residual = {},
                 mx::StreamOrDevice s = {});

// The weight as f32 [N, K], in plain MLX ops: what the codes mean.
mx::array dequantize(const Weight& w, mx::StreamOrDevice s = {});

// Rows `ids` (int32 [...]) of w as f32 [..., K], times `factor`.
// Ids out of range give rows of NaN.
mx::array embedding(const mx::array& ids, const Weight& w, float factor = 1,
                    mx::StreamOrDevice s = {});

}  // namespace quern
