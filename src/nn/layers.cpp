#include "nn/layers.h"

#include <mlx/mlx.h>

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

RmsNorm load_norm(Weights& weights, const std::string& path, int size,
                  float eps, float offset) {
  return {weights.vector(path + ".weight", size), eps, offset};
}

Projection load(Weights& weights, const std::vector<Module>& modules,
                ProjectionOptions options) {
  std::vector<Weight> matrices;
  for (const Module& m : modules) {
    matrices.push_back(weights.matrix(m.path, m.n, m.k));
    options.biases.push_back(weights.vector_if(m.path + ".bias", m.n));
  }
  return Projection(std::move(matrices), std::move(options));
}

Attention::Attention(Weights& weights, const std::string& path,
                     const AttentionShape& s, int layer,
                     const BlockNorms& norms)
    : shape_(s),
      layer_(layer),
      qkv_(load(weights,
                {{path + ".q_proj", s.heads * s.head_dim, s.hidden},
                 {path + ".k_proj", s.kv_heads * s.head_dim, s.hidden},
                 {path + ".v_proj", s.kv_heads * s.head_dim, s.hidden}},
                {.norm = norms.before})),
      out_(load(weights,
                {{path + ".o_proj", s.hidden, s.heads * s.head_dim}},
                {.out_norm = norms.after})),
      attend_{.scale = s.scale,
              .soft_cap = s.soft_cap,
              .interleaved_rope = s.interleaved_rope} {
  if (s.head_norms) {
    auto norm = [&](const char* name) {
      return load_norm(weights, path + name, s.head_dim, s.eps, s.norm_offset);
    };
    attend_.q_norm = norm(".q_norm");
    attend_.k_norm = norm(".k_norm");
  }
}

array Attention::operator()(const array& x, const Step& step,
                            const array& table) const {
  const auto qkv = matmul_each(x, qkv_, step.precision);
  std::vector<CacheRow> rows;
  rows.reserve(step.rows.size());
  int begin = 0;
  for (const StepRow& row : step.rows) {
    rows.push_back(
        {static_cast<Cache*>(&row.row->layer(layer_)), begin, row.count});
    begin += row.count;
  }
  const array mixed = attend(qkv[0], qkv[1], qkv[2], rows, attend_, table);
  return matmul(mixed, out_, step.precision, x);
}

std::unique_ptr<LayerState> Attention::make_state(qmm::Number number) const {
  const KvShape kv{number, shape_.kv_heads, shape_.head_dim};
  return std::make_unique<Cache>(
      kv, shape_.window > 0 ? Layout::ring(shape_.window) : Layout::append());
}

GatedMlp::GatedMlp(Weights& weights, const std::string& path, int hidden,
                   int intermediate, Gate gate, const BlockNorms& norms)
    : gate_up_(load(weights,
                    {{path + ".gate_proj", intermediate, hidden},
                     {path + ".up_proj", intermediate, hidden}},
                    {.norm = norms.before, .gate = gate})),
      down_(load(weights, {{path + ".down_proj", hidden, intermediate}},
                 {.out_norm = norms.after})) {}

array GatedMlp::operator()(const array& x, Precision precision) const {
  return matmul(matmul(x, gate_up_, precision), down_, precision, x);
}

Vocabulary::Vocabulary(Weights& weights, int size, int hidden, bool tied,
                       const RmsNorm& norm, float scale)
    : embedding_(weights.matrix("model.embed_tokens", size, hidden)),
      head_(tied ? embedding_ : weights.matrix("lm_head", size, hidden),
            {.norm = norm}),
      scale_(scale) {}

array Vocabulary::embed(const array& tokens) const {
  return embedding(tokens, embedding_, scale_);
}

array Vocabulary::logits(const array& hidden, Precision precision) const {
  return matmul(hidden, head_, precision);
}

size_t Vocabulary::looked_up_bytes() const {
  const bool tied = head_.weights()[0].tiles.id() == embedding_.tiles.id();
  return tied ? 0 : embedding_.tiles.nbytes();
}

}  // namespace quern
