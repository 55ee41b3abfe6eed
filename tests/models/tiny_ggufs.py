"""The tiny GGUF models: rows of 256 values, which K types ask for."""

import numpy as np

from models.tiny_configs import tiny_config
from models.tiny_weights import random_weights
from models.write_gguf import TYPES, write_gguf


def _wide(family, **keys):
    return tiny_config(family, **{
        "hidden_size": 256, "num_attention_heads": 4,
        "num_key_value_heads": 1, **keys})


_GEMMA3 = _wide("gemma3_text", num_hidden_layers=6, head_dim=64,
                rms_norm_eps=1e-6, rope_theta=1e6, sliding_window=16)
_YARN = {"rope_type": "yarn", "factor": 4.0,
         "original_max_position_embeddings": 64}

# GGUF architecture -> configuration, written in every type.
EVERY_TYPE = {
    "llama": _wide("llama", tie_word_embeddings=False),
    "qwen2": _wide("qwen2", rope_theta=1e6),
    "qwen3": _wide("qwen3", head_dim=128, num_attention_heads=2,
                   rms_norm_eps=1e-6, rope_theta=1e6),
    "gemma3": _GEMMA3,
}

# Name -> architecture, configuration, divisors of the rope frequencies: the
# ways a GGUF states a longer context. Written in f32.
ROPES = {
    "llama-linear": ("llama", _wide("llama", rope_scaling={
        "rope_type": "linear", "factor": 2.5}), None),
    "llama-factors": ("llama", _wide("llama"),
                      np.geomspace(1, 8, 32, dtype=np.float32)),
    "qwen2-yarn": ("qwen2", _wide("qwen2", rope_scaling=_YARN), None),
    "llama-biases": ("llama", _wide("llama", attention_bias=True), None),
}


def every_type(arch):
    """(name, writer of a path) of each weight type."""
    config = EVERY_TYPE[arch]
    weights = random_weights(arch + "-gguf", config)
    for kind in TYPES:
        yield f"{arch}-{kind}", lambda path, kind=kind: write_gguf(
            path, arch, config, weights, kind)


def ropes():
    """(name, writer of a path) of each row of ROPES."""
    for name, (arch, config, divisors) in ROPES.items():
        weights = random_weights(name, config)
        yield name, lambda path, row=(arch, config, weights, divisors): (
            write_gguf(path, *row[:3], "F32", row[3]))
