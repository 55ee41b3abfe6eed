#!/usr/bin/env python3
"""Makes an MLX or Hugging Face model directory from a GGUF.

usage: to_mlx.py MODEL.gguf OUT_DIR [--dtype bfloat16|float16|float32]
                 [--bits N [--group 64]] [--override MODULE=BITS[:GROUP]]...
                 [--shards N]

Reads llama, qwen2, qwen3 and gemma3. Weights are decoded and stored as dtype,
or with --bits as MLX affine codes with scales and biases of dtype. --override
gives modules whose path ends in MODULE other bits, `MODULE=false` keeps them
plain: `--override lm_head=8 --override down_proj=6:32`. --shards N writes N
files and their index. The tokenizer comes from the GGUF's vocabulary.

needs: mlx, numpy, gguf, tokenizers
"""

import argparse
import json
import os

import mlx.core as mx
import numpy as np
from gguf import GGUFReader, dequantize
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers)

ARCHITECTURES = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
}
GEMMA3_LOCAL_BASE = 10000.0
GEMMA3_PATTERN = 6  # every sixth layer sees everything

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm",
         "output": "lm_head"}
INNER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA3_INNER = {**INNER, "ffn_norm": "pre_feedforward_layernorm",
                "post_attention_norm": "post_attention_layernorm",
                "post_ffw_norm": "post_feedforward_layernorm"}

# The pre-tokenizer regex of Qwen2: words, single digits, punctuation, space.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TOKEN_CONTROL, TOKEN_USER_DEFINED = 3, 4


class Source:
    """A GGUF: fields by key, tensors decoded to f32 one at a time."""

    def __init__(self, path):
        self._reader = GGUFReader(path)
        self.fields = {k: f.contents()
                       for k, f in self._reader.fields.items()}
        self.arch = self.fields["general.architecture"]
        if self.arch not in ARCHITECTURES:
            raise SystemExit(f"to_mlx: {self.arch} is not one of "
                             + ", ".join(ARCHITECTURES))

    def get(self, key, default=None):
        return self.fields.get(f"{self.arch}.{key}", default)

    def token(self, key, default=None):
        return self.fields.get(f"tokenizer.ggml.{key}", default)

    def tensors(self):
        """(GGUF name, f32 array) of each tensor."""
        for t in self._reader.tensors:
            w = dequantize(t.data, t.tensor_type).astype(np.float32)
            yield t.name, w.reshape([int(n) for n in t.shape][::-1])


def hf_name(arch, name):
    module, kind = name.rsplit(".", 1)
    if not module.startswith("blk."):
        if module not in OUTER:
            raise SystemExit(f"to_mlx: no place for tensor {name}")
        return f"{OUTER[module]}.{kind}"
    _, layer, part = module.split(".")
    inner = GEMMA3_INNER if arch == "gemma3" else INNER
    return f"model.layers.{layer}.{inner[part]}.{kind}"


def halves(w, heads):
    """Rows of each head from rotary pairs (llama GGUF) to halves."""
    pairs = w.reshape(heads, w.shape[0] // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(w.shape)


def read_weights(source, dtype):
    """{Hugging Face name: mx.array of dtype}"""
    heads = {"attn_q": source.get("attention.head_count"),
             "attn_k": source.get("attention.head_count_kv")}
    weights = {}
    for name, w in source.tensors():
        part = name.split(".")[-2]
        if source.arch == "llama" and part in heads:
            w = halves(w, heads[part])
        if source.arch == "gemma3" and part.endswith("norm"):
            w = w - np.float32(1)  # the GGUF holds 1 + weight
        weights[hf_name(source.arch, name)] = mx.array(w).astype(dtype)
    return weights


def rope_scaling(source):
    kind = source.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    scaling = {"rope_type": kind, "factor": source.get("rope.scaling.factor")}
    trained = source.get("rope.scaling.original_context_length")
    if trained:
        scaling["original_max_position_embeddings"] = trained
    return scaling


def make_config(source, tied, dtype):
    model_type, architecture = ARCHITECTURES[source.arch]
    heads = source.get("attention.head_count")
    hidden = source.get("embedding_length")
    head_dim = source.get("attention.key_length", hidden // heads)
    config = {
        "model_type": model_type, "architectures": [architecture],
        "vocab_size": len(source.token("tokens")), "hidden_size": hidden,
        "intermediate_size": source.get("feed_forward_length"),
        "num_hidden_layers": source.get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": source.get("attention.layer_norm_rms_epsilon"),
        "rope_theta": source.get("rope.freq_base", 10000.0),
        "max_position_embeddings": source.get("context_length"),
        "tie_word_embeddings": tied, "torch_dtype": dtype,
        "bos_token_id": source.token("bos_token_id"),
        "eos_token_id": source.token("eos_token_id"),
    }
    if source.arch == "gemma3":
        config.update({
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": head_dim,
            "sliding_window": source.get("attention.sliding_window"),
            "sliding_window_pattern": GEMMA3_PATTERN,
            "rope_local_base_freq": GEMMA3_LOCAL_BASE,
        })
    if scaling := rope_scaling(source):
        config["rope_scaling"] = scaling
    return config


def parse_override(text):
    """MODULE=BITS[:GROUP] or MODULE=false -> (module, (bits, group) or None)"""
    module, _, value = text.partition("=")
    if value == "false":
        return module, None
    bits, _, group = value.partition(":")
    return module, (int(bits), int(group) if group else 0)


def quantise(weights, bits, group, overrides):
    """Codes for matrices; returns the config's quantisation block."""
    block = {"group_size": group, "bits": bits}
    for name in [n for n, w in weights.items() if w.ndim == 2]:
        module = name.removesuffix(".weight")
        how = (bits, group)
        for suffix, other in overrides:
            if ("." + module).endswith("." + suffix):
                how = other and (other[0], other[1] or group)
        if not how or weights[name].shape[-1] % how[1]:
            block[module] = False
            continue
        if how != (bits, group):
            block[module] = {"bits": how[0], "group_size": how[1]}
        codes, scales, biases = mx.quantize(weights[name], how[1], how[0])
        weights.update({name: codes, module + ".scales": scales,
                        module + ".biases": biases})
    return block


def save_weights(out_dir, weights, shards):
    """One file, or shards files of about equal size and their index."""
    if shards == 1:
        mx.save_safetensors(os.path.join(out_dir, "model.safetensors"),
                            weights, {"format": "mlx"})
        return
    total = sum(w.nbytes for w in weights.values())
    parts, seen = [{} for _ in range(shards)], 0
    for name, w in weights.items():
        parts[min(seen * shards // total, shards - 1)][name] = w
        seen += w.nbytes
    weight_map = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mx.save_safetensors(os.path.join(out_dir, file), part,
                            {"format": "mlx"})
        weight_map.update({name: file for name in part})
    write_json(out_dir, "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": weight_map})


def merges_from_scores(tokens, scores):
    """The merge list of a SentencePiece vocabulary: each way to build a token
    from two others, best score of the result first."""
    ids = {t: i for i, t in enumerate(tokens)}
    found = []
    for token, score in zip(tokens, scores):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                found.append((-score, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def sentencepiece_tokenizer(source, tokens, vocab):
    tokenizer = Tokenizer(models.BPE(
        vocab=vocab, merges=merges_from_scores(tokens, source.token("scores")),
        unk_token=tokens[source.token("unknown_token_id")], fuse_unk=True,
        byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(),
        decoders.Fuse()])
    return tokenizer


def byte_level_tokenizer(source, vocab):
    merges = [tuple(m.split(" ")) for m in source.token("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    first = []
    if source.token("pre") == "qwen2":
        first = [pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated")]
        byte_level.use_regex = False
    elif source.token("pre") == "smollm":
        first = [pre_tokenizers.Digits(individual_digits=True)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_tokenizer(source):
    tokens = source.token("tokens")
    vocab = {t: i for i, t in enumerate(tokens)}
    if source.token("model") == "llama":
        tokenizer = sentencepiece_tokenizer(source, tokens, vocab)
    else:
        tokenizer = byte_level_tokenizer(source, vocab)
    kinds = source.token("token_type")
    for kind, special in ((TOKEN_CONTROL, True), (TOKEN_USER_DEFINED, False)):
        added = [AddedToken(t, special=special, normalized=False)
                 for t, k in zip(tokens, kinds) if k == kind]
        if special:
            tokenizer.add_special_tokens(added)
        else:
            tokenizer.add_tokens(added)
    return tokenizer


def make_tokenizer_config(source):
    config = {"tokenizer_class": "PreTrainedTokenizerFast",
              "clean_up_tokenization_spaces": False,
              "add_bos_token": source.token("add_bos_token", False)}
    for name in ("bos", "eos"):
        token = source.token(f"{name}_token_id")
        if token is not None:
            config[f"{name}_token"] = source.token("tokens")[token]
    template = source.fields.get("tokenizer.chat_template")
    if template:
        config["chat_template"] = template
    return config


def write_json(out_dir, name, value):
    with open(os.path.join(out_dir, name), "w") as f:
        json.dump(value, f, indent=1)


def convert(gguf_path, out_dir, dtype="bfloat16", bits=None, group=64,
            overrides=(), shards=1):
    source = Source(gguf_path)
    weights = read_weights(source, getattr(mx, dtype))
    config = make_config(source, "lm_head.weight" not in weights, dtype)
    if bits:
        config["quantization"] = quantise(weights, bits, group, overrides)
    os.makedirs(out_dir, exist_ok=True)
    save_weights(out_dir, weights, shards)
    write_json(out_dir, "config.json", config)
    write_json(out_dir, "tokenizer_config.json", make_tokenizer_config(source))
    make_tokenizer(source).save(os.path.join(out_dir, "tokenizer.json"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("gguf")
    parser.add_argument("out_dir")
    parser.add_argument("--dtype", default="bfloat16",
                        choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--bits", type=int, choices=[2, 3, 4, 5, 6, 8])
    parser.add_argument("--group", type=int, default=64,
                        choices=[32, 64, 128])
    parser.add_argument("--override", type=parse_override, action="append",
                        default=[], metavar="MODULE=BITS[:GROUP]")
    parser.add_argument("--shards", type=int, default=1)
    a = parser.parse_args()
    if a.override and not a.bits:
        parser.error("--override needs --bits")
    convert(a.gguf, a.out_dir, a.dtype, a.bits, a.group, a.override, a.shards)


if __name__ == "__main__":
    main()
