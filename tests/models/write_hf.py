"""Writes Hugging Face and MLX model directories."""

import json
import os

import mlx.core as mx

from models import tiny_tokenizer


def _quantise(weights, form):
    """Replaces each matrix by MLX codes, scales and biases where asked."""
    out = {}
    for name, w in weights.items():
        module = name.removesuffix(".weight")
        how = form.overrides.get(
            module, {"bits": form.bits, "group_size": form.group})
        if not how or w.ndim != 2:
            out[name] = w
            continue
        codes, scales, biases = mx.quantize(w, how["group_size"], how["bits"])
        out[module + ".weight"] = codes
        out[module + ".scales"] = scales
        out[module + ".biases"] = biases
    return out


def save_weights(out_dir, weights, shards=1):
    """Saves {name: mx.array}: one file, or shards files and their index."""
    if shards == 1:
        mx.save_safetensors(os.path.join(out_dir, "model.safetensors"),
                            weights, {"format": "mlx"})
        return
    names, index = sorted(weights), {}
    for i in range(shards):
        part = names[len(names) * i // shards:len(names) * (i + 1) // shards]
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mx.save_safetensors(os.path.join(out_dir, file),
                            {n: weights[n] for n in part}, {"format": "mlx"})
        index.update({n: file for n in part})
    total = sum(w.nbytes for w in weights.values())
    write_json(out_dir, "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": index})


def write_json(out_dir, name, value):
    with open(os.path.join(out_dir, name), "w") as f:
        json.dump(value, f, indent=1)


def write_directory(out_dir, config, weights, form):
    """Writes config.json, weights and tokenizer. weights: {name: f32}."""
    os.makedirs(out_dir, exist_ok=True)
    dtype = getattr(mx, form.dtype)
    stored = {n: mx.array(w).astype(dtype) for n, w in weights.items()}
    config = {**config, "torch_dtype": form.dtype,
              "eos_token_id": tiny_tokenizer.TOKENS.index("<|end|>")}
    if form.bits:
        stored = _quantise(stored, form)
        config[form.key] = {"group_size": form.group, "bits": form.bits,
                            **form.overrides}
    save_weights(out_dir, stored, form.shards)
    write_json(out_dir, "config.json", config)
    write_json(out_dir, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|end|>", "clean_up_tokenization_spaces": False})
    tiny_tokenizer.build().save(os.path.join(out_dir, "tokenizer.json"))
