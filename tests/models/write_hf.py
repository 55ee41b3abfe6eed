"""Writes tiny models as Hugging Face and MLX directories."""

import os

import mlx.core as mx
from to_mlx import quantise, save_weights, write_json

from models import tiny_tokenizer


def write_directory(out_dir, config, weights, form):
    """Writes config.json, weights and tokenizer. weights: {name: f32}."""
    os.makedirs(out_dir, exist_ok=True)
    dtype = getattr(mx, form.dtype)
    stored = {n: mx.array(w).astype(dtype) for n, w in weights.items()}
    config = {**config, "torch_dtype": form.dtype,
              "eos_token_id": tiny_tokenizer.END}
    if form.bits:
        config[form.key] = quantise(stored, form.bits, form.group,
                                    form.overrides.items())
    save_weights(out_dir, stored, form.shards)
    write_json(out_dir, "config.json", config)
    write_json(out_dir, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": tiny_tokenizer.TOKENS[tiny_tokenizer.END],
                "clean_up_tokenization_spaces": False})
    tiny_tokenizer.build().save(os.path.join(out_dir, "tokenizer.json"))
