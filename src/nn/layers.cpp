#include "nn/layers.h"

#include <mlx/mlx.h>

namespace quern {

using mx::array;

namespace {

Step step_of(std::shared_ptr<StepRows> rows, Precision precision) {
  const std::vector<int32_t> positions = rows->positions();
  return {std::move(rows),
          array(positions.data(), {int(positions.size())}, mx::int32),
          precision};
}

}  // namespace

Step make_step(std::span<const StepRow> rows, Precision precision) {
  return step_of(ragged_step(rows), precision);
}

Step make_step(MergedRows& rows, Precision precision) {
  return step_of(merged_step(rows), precision);
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

DecoderLayer::DecoderLayer(Weights& weights, const std::string& path,
                           const AttentionShape& s, int intermediate, Gate gate,
                           const LayerNorms& norms, int layer)
    : shape_(s),
      layer_(layer),
      weights_{
          .qkv = load(
              weights,
              {{path + ".self_attn.q_proj", s.heads * s.head_dim, s.hidden},
               {path + ".self_attn.k_proj", s.kv_heads * s.head_dim, s.hidden},
               {path + ".self_attn.v_proj", s.kv_heads * s.head_dim, s.hidden}},
              {.norm = norms.attention}),
          .out = load(
              weights,
              {{path + ".self_attn.o_proj", s.hidden, s.heads * s.head_dim}},
              {.out_norm = norms.after_attention}),
          .gate_up = load(weights,
                          {{path + ".mlp.gate_proj", intermediate, s.hidden},
                           {path + ".mlp.up_proj", intermediate, s.hidden}},
                          {.norm = norms.mlp, .gate = gate}),
          .down =
              load(weights, {{path + ".mlp.down_proj", s.hidden, intermediate}},
                   {.out_norm = norms.after_mlp})},
      attend_{.scale = s.scale,
              .soft_cap = s.soft_cap,
              .interleaved_rope = s.interleaved_rope} {
  if (s.head_norms) {
    auto norm = [&](const char* name) {
      return load_norm(weights, path + name, s.head_dim, s.eps, s.norm_offset);
    };
    attend_.q_norm = norm(".self_attn.q_norm");
    attend_.k_norm = norm(".self_attn.k_norm");
  }
}

array DecoderLayer::operator()(const array& x, const Step& step,
                               const array& table) const {
  return step.rows->decoder_layer(layer_, x, weights_, step.precision, attend_,
                                  table);
}

std::unique_ptr<LayerState> DecoderLayer::make_state(
    const KvScheme& scheme) const {
  const bool ring = shape_.window > 0;
  const KvCodec& codec = scheme.codec(layer_, ring);
  codec.require(shape_.head_dim);
  return std::make_unique<Cache>(
      KvShape{codec, shape_.kv_heads, shape_.head_dim},
      ring ? Layout::ring(shape_.window) : Layout::append());
}

Vocabulary::Vocabulary(Weights& weights, int size, int hidden, bool tied,
                       const RmsNorm& norm, float scale)
    : embedding_(weights.matrix("model.embed_tokens", size, hidden)),
      head_(tied ? embedding_ : weights.matrix("lm_head", size, hidden),
            {.norm = norm, .fine = true}),  // its errors reach the logits
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
