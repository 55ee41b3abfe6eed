// The blocks that model files are made of. Values: const after loading.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/step_rows.h"
#include "nn/rope.h"
#include "nn/weights.h"
#include "ops/layer/layer.h"

namespace quern {

// What every layer of one forward pass shares. The tokens of the rows lie one
// after the other, T in all.
struct Step {
  std::shared_ptr<StepRows> rows;
  mx::array positions;  // int32 [T]
  Precision precision;
};
Step make_step(std::span<const StepRow> rows, Precision precision);
// The next token of each row.
Step make_step(MergedRows& rows, Precision precision);

// Loads what an RMS norm is made of.
RmsNorm load_norm(Weights& weights, const std::string& path, int size,
                  float eps, float offset = 0);

// A linear layer in the files: y [T, n] of x [T, k].
struct Module {
  std::string path;
  int n, k;
};
// Loads modules of one input, with the biases that the files hold for them.
Projection load(Weights& weights, const std::vector<Module>& modules,
                ProjectionOptions options = {});

struct AttentionShape {
  int hidden, heads, kv_heads, head_dim;
  float scale;
  int window = 0;  // sliding window, 0 = all
  float soft_cap = 0;
  bool interleaved_rope = false;
  // Norm of each head of q and k, before the rotation.
  bool head_norms = false;
  float eps = 1e-6f, norm_offset = 0;
};

// The norms of a layer; those `after` a block only where a model has them.
struct LayerNorms {
  RmsNorm attention, mlp;
  std::optional<RmsNorm> after_attention = {}, after_mlp = {};
};

// Grouped-query attention (Ainslie et al., 2023) and a gated feed-forward
// block: h = after(attention(norm(x))) + x, y = after(mlp(norm(h))) + h.
class DecoderLayer {
 public:
  DecoderLayer(Weights& weights, const std::string& path,
               const AttentionShape& shape, int intermediate, Gate gate,
               const LayerNorms& norms, int layer);

  // x [T, hidden] -> [T, hidden]. `table` is the rope of the step's positions.
  mx::array operator()(const mx::array& x, const Step& step,
                       const mx::array& table) const;

  // An empty cache of this layer.
  std::unique_ptr<LayerState> make_state(const KvScheme& scheme) const;
  const AttentionShape& shape() const { return shape_; }

 private:
  AttentionShape shape_;
  int layer_;
  LayerWeights weights_;
  AttendOptions attend_;
};

// Token embedding and the head that turns hidden states into logits: one
// matrix where tied.
class Vocabulary {
 public:
  // `norm` is the model's last.
  Vocabulary(Weights& weights, int size, int hidden, bool tied,
             const RmsNorm& norm, float scale = 1);

  mx::array embed(const mx::array& tokens) const;  // int32 [T] -> [T, hidden]
  // [T, hidden] -> [T, vocabulary]
  mx::array logits(const mx::array& hidden, Precision precision) const;
  // Bytes of the embedding matrix if a step only looks rows up in it, else 0.
  size_t looked_up_bytes() const;

 private:
  Weight embedding_;
  Projection head_;
  float scale_;
};

}  // namespace quern
