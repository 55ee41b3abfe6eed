"""Seeded random weights of a configuration, under Hugging Face names."""

import zlib

import numpy as np

from models import tiny_tokenizer


def text_config(config):
    return config.get("text_config", config)


def head_dim(text):
    return (text.get("head_dim")
            or text["hidden_size"] // text["num_attention_heads"])


def _layer_shapes(text):
    d, inner = text["hidden_size"], text["intermediate_size"]
    hd = head_dim(text)
    q = text["num_attention_heads"] * hd
    kv = text.get("num_key_value_heads", text["num_attention_heads"]) * hd
    family = text["model_type"]
    shapes = {
        "self_attn.q_proj.weight": (q, d),
        "self_attn.k_proj.weight": (kv, d),
        "self_attn.v_proj.weight": (kv, d),
        "self_attn.o_proj.weight": (d, q),
        "mlp.gate_proj.weight": (inner, d),
        "mlp.up_proj.weight": (inner, d),
        "mlp.down_proj.weight": (d, inner),
        "input_layernorm.weight": (d,),
        "post_attention_layernorm.weight": (d,),
    }
    biased = []
    if family == "qwen2":
        biased = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
    if text.get("attention_bias"):
        biased += [f"self_attn.{p}_proj" for p in "qkvo"]
    if text.get("mlp_bias"):
        biased += [f"mlp.{p}_proj" for p in ("gate", "up", "down")]
    for module in biased:
        shapes[module + ".bias"] = shapes[module + ".weight"][:1]
    if family in ("qwen3", "gemma3_text"):
        shapes["self_attn.q_norm.weight"] = (hd,)
        shapes["self_attn.k_norm.weight"] = (hd,)
    if family == "gemma3_text":
        shapes["pre_feedforward_layernorm.weight"] = (d,)
        shapes["post_feedforward_layernorm.weight"] = (d,)
    return shapes


def shapes_of(config):
    """Tensor name -> shape, names as in the checkpoints of the family."""
    text = text_config(config)
    d, vocab = text["hidden_size"], text["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, d),
              "model.norm.weight": (d,)}
    for i in range(text["num_hidden_layers"]):
        for name, shape in _layer_shapes(text).items():
            shapes[f"model.layers.{i}.{name}"] = shape
    if not text.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (vocab, d)
    if "text_config" in config:
        shapes = {"language_model." + k: v for k, v in shapes.items()}
    return shapes


def _draw(rng, name, shape, gemma):
    values = rng.standard_normal(shape, dtype=np.float32)
    if "norm" in name:
        return 0.1 * values + np.float32(0 if gemma else 1)
    if name.endswith(".bias"):
        return 0.5 * values
    if "embed_tokens" in name or "lm_head" in name:
        values *= np.float32(0.02 if gemma else 0.25)
        values[tiny_tokenizer.END] = 0  # never the best: no early end
        return values
    return values / np.float32(np.sqrt(shape[-1]))


def random_weights(name, config):
    """Weights of the configuration called name: {tensor name: f32 array}."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    gemma = text_config(config)["model_type"].startswith("gemma3")
    return {tensor: _draw(rng, tensor, shape, gemma)
            for tensor, shape in shapes_of(config).items()}
