"""Writes tiny GGUF models of every weight type, as llama.cpp stores them."""

import zlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from models import tiny_tokenizer
from models.tiny_weights import head_dim

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
         "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]

# gguf-py cannot encode K types: their blocks are drawn at random. Bytes of a
# block, offset of its f16 scale and of its f16 minimum, and the mean code,
# which makes the mean of the decoded values zero where a minimum exists.
K_BLOCKS = {
    "Q2_K": (84, 80, 82, 1.5),
    "Q3_K": (110, 108, None, 0),
    "Q4_K": (144, 0, 2, 7.5),
    "Q5_K": (176, 0, 2, 15.5),
    "Q6_K": (210, 208, None, 0),
}

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
}
NORMS = {"post_attention_layernorm": "ffn_norm"}
GEMMA_NORMS = {"post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"}
OUTER = {"model.embed_tokens.weight": "token_embd.weight",
         "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def gguf_name(name, gemma=False):
    """The GGUF name of a tensor with a Hugging Face name."""
    if name in OUTER:
        return OUTER[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    module, kind = rest.rsplit(".", 1)
    part = {**NAMES, **(GEMMA_NORMS if gemma else NORMS)}[module]
    return f"blk.{layer}.{part}.{kind}"


def interleave(w, heads):
    """Rows of each head from halves to pairs: the order of a llama GGUF."""
    pairs = w.reshape(heads, 2, w.shape[0] // heads // 2, -1)
    return pairs.swapaxes(1, 2).reshape(w.shape)


def random_k_blocks(kind, shape, seed):
    """Random valid blocks, values of about 1 / sqrt(row) in size."""
    size, scale_at, minimum_at, mean = K_BLOCKS[kind]
    rng = np.random.default_rng(seed)
    count = shape[0] * shape[1] // 256
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    unit = rng.uniform(0.7, 1.3, (count, 1))

    def set_scales(step):
        d = (unit * step).astype(np.float16)
        blocks[:, scale_at:scale_at + 2] = d.view(np.uint8)
        if minimum_at is not None:
            m = (unit * step * mean).astype(np.float16)
            blocks[:, minimum_at:minimum_at + 2] = m.view(np.uint8)

    set_scales(1 / 64)
    std = gguf.dequantize(blocks, Type[kind]).std()
    set_scales(1 / 64 / std / np.sqrt(shape[1]))
    return blocks.reshape(shape[0], -1)


def encode(kind, w, seed):
    """The stored bytes of a matrix; K types ignore its values."""
    if kind in K_BLOCKS:
        return random_k_blocks(kind, w.shape, seed)
    return gguf.quantize(w, Type[kind])


def _add_config(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if "sliding_window" in config:
        writer.add_sliding_window(config["sliding_window"])
    scaling = config.get("rope_scaling")
    if scaling:
        writer.add_rope_scaling_type(
            gguf.RopeScalingType(scaling["rope_type"]))
        writer.add_rope_scaling_factor(scaling["factor"])
        if "original_max_position_embeddings" in scaling:
            writer.add_rope_scaling_orig_ctx_len(
                scaling["original_max_position_embeddings"])


def _add_tokenizer(writer):
    kind = [gguf.TokenType.NORMAL] * len(tiny_tokenizer.TOKENS)
    kind[-2:] = [gguf.TokenType.CONTROL] * 2
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tiny_tokenizer.TOKENS)
    writer.add_token_types(kind)
    writer.add_token_merges(["\u0120 t"])
    writer.add_eos_token_id(tiny_tokenizer.END)
    writer.add_add_bos_token(False)


def write_gguf(path, arch, config, weights, kind, rope_factors=None):
    """Writes one file. weights: {Hugging Face name: f32}; matrices become
    kind, vectors stay f32. rope_factors: divisors of the frequencies."""
    writer = gguf.GGUFWriter(path, arch)
    _add_config(writer, config)
    _add_tokenizer(writer)
    gemma = arch == "gemma3"
    heads = {"q_proj": config["num_attention_heads"],
             "k_proj": config["num_key_value_heads"]}
    for name, w in weights.items():
        target = gguf_name(name, gemma)
        if gemma and "norm" in name:
            w = w + np.float32(1)
        module = name.split(".")[-2]
        if arch == "llama" and module in heads:
            w = interleave(w, heads[module])
        if w.ndim == 1:
            writer.add_tensor(target, w)
            continue
        data = encode(kind, w, zlib.crc32(target.encode()))
        writer.add_tensor(target, data, raw_dtype=Type[kind])
    if rope_factors is not None:
        assert len(rope_factors) == head_dim(config) // 2
        writer.add_tensor("rope_freqs.weight", rope_factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
