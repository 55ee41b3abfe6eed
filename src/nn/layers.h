// The blocks that model files are made of. Values: const after loading.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/row.h"
#include "nn/rope.h"
#include "nn/weights.h"
#include "ops/activation/gated.h"
#include "ops/qmm/qmm.h"

namespace quern {

// One row of a forward pass and how many of its tokens are in it.
struct StepRow {
  Row* row;
  int count;
};

// What every layer of one forward pass shares. The tokens of the rows lie one
// after the other, T in all.
struct Step {
  std::span<const StepRow> rows;
  mx::array positions;  // int32 [T]
  Precision precision;
};
Step make_step(std::span<const StepRow> rows, Precision precision);

struct Linear {
  Weight weight;
  std::optional<mx::array> bias;  // f32 [N]

  Linear(Weights& weights, const std::string& path, int n, int k);

  // x [T, K] -> [T, N], plus `residual` [T, N].
  mx::array operator()(const mx::array& x, Precision precision,
                       std::optional<mx::array> residual = {}) const;
};

// Several linears of one input [T, K] in one pass: [T, N] of each.
std::vector<mx::array> together(const mx::array& x,
                                std::initializer_list<const Linear*> linears,
                                Precision precision);

struct Norm {
  mx::array weight;  // f32 [D]
  float eps, offset;

  Norm(Weights& weights, const std::string& name, int size, float eps,
       float offset = 0);
  // x [T, D] -> [T, D], plus `residual` [T, D].
  mx::array operator()(const mx::array& x,
                       const std::optional<mx::array>& residual = {}) const;
};

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

// Grouped-query attention (Ainslie et al., 2023) of layer `layer`, whose state
// in each row is a Cache.
class Attention {
 public:
  Attention(Weights& weights, const std::string& path,
            const AttentionShape& shape, int layer);

  // x [T, hidden] -> [T, hidden], plus `residual`. `table` is the rope of the
  // step's positions.
  mx::array operator()(const mx::array& x, const Step& step,
                       const mx::array& table,
                       std::optional<mx::array> residual = {}) const;

  // An empty cache of this layer.
  std::unique_ptr<LayerState> make_state(qmm::Number number) const;
  const AttentionShape& shape() const { return shape_; }

 private:
  AttentionShape shape_;
  int layer_;
  Linear q_, k_, v_, o_;
  std::optional<Norm> q_norm_, k_norm_;
};

// down(act(gate(x)) * up(x)): x [T, hidden] -> [T, hidden], plus `residual`.
class GatedMlp {
 public:
  GatedMlp(Weights& weights, const std::string& path, int hidden,
           int intermediate, Gate gate);
  mx::array operator()(const mx::array& x, Precision precision,
                       std::optional<mx::array> residual = {}) const;

 private:
  Gate kind_;
  Linear gate_, up_, down_;
};

// Token embedding and the head that turns hidden states into logits: one
// matrix where tied.
class Vocabulary {
 public:
  Vocabulary(Weights& weights, int size, int hidden, bool tied,
             float scale = 1);

  mx::array embed(const mx::array& tokens) const;  // int32 [T] -> [T, hidden]
  // [T, hidden] -> [T, vocabulary]
  mx::array logits(const mx::array& hidden, Precision precision) const;
  // Bytes of the embedding matrix if a step only looks rows up in it, else 0.
  size_t looked_up_bytes() const;

 private:
  Weight embedding_;
  std::optional<Weight> head_;
  float scale_;
};

}  // namespace quern
