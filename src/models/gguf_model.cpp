#include "models/gguf_model.h"

#include <cmath>

namespace quern {
namespace {

struct Renaming {
  std::string_view from, to;
};

// Of blk.<i>. tensors, without .weight or .bias.
constexpr Renaming kBlock[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr Renaming kWhole[] = {{"token_embd", "model.embed_tokens"},
                               {"output_norm", "model.norm"},
                               {"output", "lm_head"}};

std::string hf_name(std::string_view name, bool sandwich_norms) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return std::string(name);
  const std::string_view stem = name.substr(0, dot), kind = name.substr(dot);
  if (stem.starts_with("blk.")) {
    const size_t end = stem.find('.', 4);
    if (end == stem.npos) return std::string(name);
    const std::string_view index = stem.substr(4, end - 4);
    const std::string_view part = stem.substr(end + 1);
    for (const auto& [from, to] : kBlock) {
      if (part != from) continue;
      const std::string_view hf = sandwich_norms && part == "ffn_norm"
                                      ? "pre_feedforward_layernorm"
                                      : to;
      return fmt::format("model.layers.{}.{}{}", index, hf, kind);
    }
    return std::string(name);
  }
  for (const auto& [from, to] : kWhole) {
    if (stem == from) return fmt::format("{}{}", to, kind);
  }
  return std::string(name);
}

}  // namespace

Result<Json> gguf_config(const Gguf& file, std::string_view where) {
  const auto arch = file.str("general.architecture");
  if (!arch) return failure("{}: general.architecture is missing", where);
  const std::string prefix = std::string(*arch) + ".";
  Json config{{"model_type", *arch}, {"from_gguf", true}};
  auto integer = [&](const char* key, const char* hf) {
    if (auto value = file.integer(prefix + key)) config[hf] = *value;
  };
  auto real = [&](const char* key, const char* hf) {
    if (auto value = file.real(prefix + key)) config[hf] = *value;
  };
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    if (!file.real(prefix + key)) {
      return failure("{}: {}{} is missing or not a number", where, prefix, key);
    }
  }
  integer("block_count", "num_hidden_layers");
  integer("embedding_length", "hidden_size");
  integer("feed_forward_length", "intermediate_size");
  integer("attention.head_count", "num_attention_heads");
  integer("attention.head_count_kv", "num_key_value_heads");
  integer("attention.key_length", "head_dim");
  integer("context_length", "max_position_embeddings");
  integer("attention.sliding_window", "sliding_window");
  real("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  real("rope.freq_base", "rope_theta");
  real("rope.freq_base_swa", "rope_local_base_freq");
  real("attn_logit_softcapping", "attn_logit_softcapping");
  real("final_logit_softcapping", "final_logit_softcapping");

  if (auto type = file.str(prefix + "rope.scaling.type");
      type && *type != "none") {
    Json scaling{{"rope_type", *type}};
    if (auto v = file.real(prefix + "rope.scaling.factor")) {
      scaling["factor"] = *v;
    }
    if (auto v =
            file.integer(prefix + "rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] = *v;
    }
    if (auto v = file.real(prefix + "rope.scaling.attn_factor")) {
      scaling["attention_factor"] = *v;
    }
    config["rope_scaling"] = std::move(scaling);
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() ||
      embedding->second.shape.size() != 2) {
    return failure("{}: tensor token_embd.weight is missing or not a matrix",
                   where);
  }
  config["vocab_size"] = embedding->second.shape[0];
  config["tie_word_embeddings"] = !file.tensors().contains("output.weight");
  config["rope_interleaved"] = *arch == "llama";
  if (*arch == "gemma3" && config["num_hidden_layers"] == 62 &&
      config["num_attention_heads"] > 0) {
    // 27B scales queries by hidden_size / heads, the others by head_dim.
    config["query_pre_attn_scalar"] =
        config["hidden_size"].get<double>() /
        config["num_attention_heads"].get<double>();
  }
  return config;
}

TensorSet gguf_tensors(const Gguf& file) {
  bool sandwich = false;
  for (const auto& [name, tensor] : file.tensors()) {
    sandwich |= name.ends_with(".post_ffw_norm.weight");
  }
  TensorSet renamed;
  for (const auto& [name, tensor] : file.tensors()) {
    renamed.insert_or_assign(hf_name(name, sandwich), tensor);
  }
  return renamed;
}

}  // namespace quern
