#!/usr/bin/env python3
"""Writes a tiny llama checkpoint that answers with given tokens.

usage: scripted_model.py SCRIPTS.json OUT_DIR [MAX_POSITIONS]

SCRIPTS.json maps "@name" to a list of chunks. A chunk is a string (one added
token) or an integer 0..255 (one byte token). When the last user message ends
in "@name", the model emits the chunks, one token each, then <|im_end|>. After
n assistant turns "@name#n" is played instead, so that a list of scripts drives
an agent. On a completions route the prompt is "@name" itself. Any text, cut at
any token, comes out without a real model: stop strings over several tokens,
split characters, tool calls, reasoning tags.

A chunk string may occur once in all scripts, since its successor must be
unique: vary the white space if need be. MAX_POSITIONS defaults to 4096.

How it works: one layer whose attention and MLP weights are zero, norms of one
and an identity embedding pass the last token to the head, whose row `next`
is one in column `token`.

needs: numpy, safetensors, tokenizers
"""

import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import (AddedToken, Tokenizer, decoders, models,
                        pre_tokenizers)

END, START = "<|im_end|>", "<|im_start|>"
HEAD_DIM = 64
INNER = 64

# The comment names what tool parsers look for. The last user message's script
# is written behind the generation prompt, where the model continues it.
TEMPLATE = (
    "{# <tool_call> tool_call.name #}"
    "{%- if tools %}<|im_start|>system\n<tool_call>"
    "{% for t in tools %}{{ t | tojson }}{% endfor %}<|im_end|>{% endif -%}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.function.arguments | tojson }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- set users = messages | selectattr('role', 'equalto', 'user')"
    " | list -%}"
    "{%- set turns = messages | selectattr('role', 'equalto', 'assistant')"
    " | list -%}"
    "{%- set last = users[-1].content if users else '' -%}"
    "{%- if last is string and '@' in last -%}"
    "@{{ last.split('@')[-1].split()[0] }}"
    "{%- if turns %}#{{ turns | length }}{% endif -%}"
    "{%- endif -%}{% endif -%}"
)


def byte_symbols():
    """Byte -> its character in the byte-level alphabet."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return ({b: chr(b) for b in printable}
            | {b: chr(256 + i) for i, b in enumerate(others)})


def build_tokenizer(chains):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in (START, END)])
    for chain in chains:
        tokenizer.add_tokens(
            [AddedToken(c, special=False, normalized=False) for c in chain
             if isinstance(c, str) and c not in (START, END)])
    return tokenizer


def successors(chains, tokenizer):
    """Token id -> id of the token that follows it."""
    symbols = byte_symbols()

    def token_id(chunk):
        token = symbols[chunk] if isinstance(chunk, int) else chunk
        return tokenizer.token_to_id(token)

    follow = {}
    for chain in chains:
        for a, b in zip(chain, chain[1:]):
            if follow.setdefault(token_id(a), token_id(b)) != token_id(b):
                raise ValueError(f"chunk {a!r} has two successors")
    return follow


def build_weights(width, follow, end, layers, noise):
    head = np.zeros((width, width), np.float32)
    for token in range(width):
        head[follow.get(token, end), token] = 1
    ones = np.ones(width, np.float32)
    random = np.random.default_rng(1)
    weights = {
        "model.embed_tokens.weight": np.eye(width, dtype=np.float32),
        "model.norm.weight": ones,
        "lm_head.weight": head,
    }
    for i in range(layers):
        layer = f"model.layers.{i}."
        weights |= {
            layer + "input_layernorm.weight": ones,
            layer + "post_attention_layernorm.weight": ones,
            layer + "mlp.gate_proj.weight":
                np.zeros((INNER, width), np.float32),
            layer + "mlp.up_proj.weight": np.zeros((INNER, width), np.float32),
            layer + "mlp.down_proj.weight":
                np.zeros((width, INNER), np.float32),
            **{layer + f"self_attn.{p}_proj.weight":
               noise * random.standard_normal((width, width), np.float32)
               for p in "qkvo"},
        }
    return weights


def build(scripts, out_dir, positions=4096, layers=1, noise=0):
    """With noise, a logit depends on all tokens before it."""
    chains = [[name, *chunks, END] for name, chunks in scripts.items()]
    tokenizer = build_tokenizer(chains)
    end = tokenizer.token_to_id(END)
    width = -(-tokenizer.get_vocab_size() // HEAD_DIM) * HEAD_DIM
    weights = build_weights(width, successors(chains, tokenizer), end,
                            layers, np.float32(noise))
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": width, "hidden_size": width, "intermediate_size": INNER,
        "num_hidden_layers": layers, "num_attention_heads": width // HEAD_DIM,
        "num_key_value_heads": width // HEAD_DIM, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_position_embeddings": positions,
        "tie_word_embeddings": False, "torch_dtype": "float32",
        "bos_token_id": tokenizer.token_to_id(START), "eos_token_id": end,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START,
        "eos_token": END, "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    os.makedirs(out_dir, exist_ok=True)
    save_file(weights, os.path.join(out_dir, "model.safetensors"),
              metadata={"format": "pt"})
    for name, value in (("config.json", config),
                        ("tokenizer_config.json", tokenizer_config)):
        with open(os.path.join(out_dir, name), "w") as f:
            json.dump(value, f, indent=1)
    tokenizer.save(os.path.join(out_dir, "tokenizer.json"))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        build(json.load(f), sys.argv[2], *map(int, sys.argv[3:]))
