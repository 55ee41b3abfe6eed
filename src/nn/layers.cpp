#include "nn/layers.h"

#include <mlx/mlx.h>

#include "ops/norm/rms_norm.h"

namespace quern {

using mx::array;

Step make_step(std::span<const StepRow> rows, Precision precision) {
  std::vector<int32_t> positions;
  for (const StepRow& row : rows) {
    const int start = row.row->length();
    for (int i = 0; i < row.count; i++) positions.push_back(start + i);
  }
  return {rows, array(positions.data(), {int(positions.size())}, mx::int32),
          precision};
}

Linear::Linear(Weights& weights, const std::string& path, int n, int k)
    : weight(weights.matrix(path, n, k)),
      bias(weights.vector_if(path + ".bias", n)) {}

array Linear::operator()(const array& x, Precision precision,
                         std::optional<array> residual) const {
  return matmul(x, weight, precision, {{bias}, std::move(residual)});
}

std::vector<array> together(const array& x,
                            std::initializer_list<const Linear*> linears,
                            Precision precision) {
  std::vector<Weight> weights;
  MatmulExtras extras;
  for (const Linear* linear : linears) {
    weights.push_back(linear->weight);
    extras.biases.push_back(linear->bias);
  }
  return matmul(x, weights, precision, extras);
}

Norm::Norm(Weights& weights, const std::string& name, int size, float eps,
           float offset)
    : weight(weights.vector(name + ".weight", size)),
      eps(eps),
      offset(offset) {}

array Norm::operator()(const array& x,
                       const std::optional<array>& residual) const {
  return rms_norm(x, weight, eps, offset, residual);
}

Attention::Attention(Weights& weights, const std::string& path,
                     const AttentionShape& s, int layer)
    : shape_(s),
      layer_(layer),
      q_(weights, path + ".q_proj", s.heads * s.head_dim, s.hidden),
      k_(weights, path + ".k_proj", s.kv_heads * s.head_dim, s.hidden),
      v_(weights, path + ".v_proj", s.kv_heads * s.head_dim, s.hidden),
      o_(weights, path + ".o_proj", s.hidden, s.heads * s.head_dim) {
  if (s.head_norms) {
    q_norm_.emplace(weights, path + ".q_norm", s.head_dim, s.eps,
                    s.norm_offset);
    k_norm_.emplace(weights, path + ".k_norm", s.head_dim, s.eps,
                    s.norm_offset);
  }
}

array Attention::operator()(const array& x, const Step& step,
                            const array& table,
                            std::optional<array> residual) const {
  auto qkv = together(x, {&q_, &k_, &v_}, step.precision);
  auto rotated = [&](const array& heads, const std::optional<Norm>& norm) {
    RopeOptions options{.head_dim = shape_.head_dim,
                        .interleaved = shape_.interleaved_rope};
    if (norm) {
      options.norm = norm->weight;
      options.norm_eps = norm->eps;
      options.norm_offset = norm->offset;
    }
    return rope(heads, table, options);
  };
  const array q = rotated(qkv[0], q_norm_);
  const array k = rotated(qkv[1], k_norm_);

  std::vector<CacheRow> rows;
  rows.reserve(step.rows.size());
  int begin = 0;
  for (const StepRow& row : step.rows) {
    rows.push_back(
        {static_cast<Cache*>(&row.row->layer(layer_)), begin, row.count});
    begin += row.count;
  }
  const array out = attend(q, k, qkv[2], rows, shape_.scale, shape_.soft_cap);
  return o_(out, step.precision, std::move(residual));
}

std::unique_ptr<LayerState> Attention::make_state(qmm::Number number) const {
  const KvShape kv{number, shape_.kv_heads, shape_.head_dim};
  return std::make_unique<Cache>(
      kv, shape_.window > 0 ? Layout::ring(shape_.window) : Layout::append());
}

GatedMlp::GatedMlp(Weights& weights, const std::string& path, int hidden,
                   int intermediate, Gate gate)
    : kind_(gate),
      gate_(weights, path + ".gate_proj", intermediate, hidden),
      up_(weights, path + ".up_proj", intermediate, hidden),
      down_(weights, path + ".down_proj", hidden, intermediate) {}

array GatedMlp::operator()(const array& x, Precision precision,
                           std::optional<array> residual) const {
  const auto parts = together(x, {&gate_, &up_}, precision);
  return down_(gated(kind_, parts[0], parts[1]), precision,
               std::move(residual));
}

Vocabulary::Vocabulary(Weights& weights, int size, int hidden, bool tied,
                       float scale)
    : embedding_(weights.matrix("model.embed_tokens", size, hidden)),
      scale_(scale) {
  if (!tied) head_ = weights.matrix("lm_head", size, hidden);
}

array Vocabulary::embed(const array& tokens) const {
  return embedding(tokens, embedding_, scale_);
}

array Vocabulary::logits(const array& hidden, Precision precision) const {
  return matmul(hidden, head_ ? *head_ : embedding_, precision);
}

size_t Vocabulary::looked_up_bytes() const {
  return head_ ? embedding_.tiles.nbytes() : 0;
}

}  // namespace quern
