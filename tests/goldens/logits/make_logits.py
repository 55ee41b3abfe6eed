#!/usr/bin/env python3
"""Makes the logits goldens of the real models with the NumPy reference.

usage: PYTHONPATH=tests:tools make_logits.py [MODEL...]

MODEL: smollm2, gemma3, qwen-coder (all without any), read from QUERN_MODELS
(default ~/.cache/quern/models). Takes about two minutes a model. Each .npz:
  ids         [128] first tokens of tests/data/prose.txt
  max_abs     largest |logit| of [128, V]
  top_ids, top_values   [128, 8] the best tokens of each position
  columns, values       [300], [128, 300] columns drawn over the vocabulary
  prompt, prompt_ids    a bare prompt
  greedy_ids            [64] its greedy continuation
Weights are decoded by gguf-py; the tokenizer is built by to_mlx.py.
"""

import os
import sys

import numpy as np
import to_mlx

from parity.reference import Model, spec_from_gguf
from parity.weights import read_gguf

HERE = os.path.dirname(os.path.abspath(__file__))
PROSE = os.path.join(HERE, "..", "..", "data", "prose.txt")
MODELS = os.environ.get("QUERN_MODELS",
                        os.path.expanduser("~/.cache/quern/models"))
# Name -> file, prompt. A prompt has to keep the two best tokens apart by
# SAFE_MARGIN at each step, or the greedy text would hang on rounding.
FILES = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf",
                "for i in range(10):\n    print(i)\n"),
    "gemma3": ("gemma-3-270m.Q4_K_M.gguf", "The days of the week are"),
    "qwen-coder": ("Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
                   "def fibonacci(n):\n"),
}
TOKENS, GREEDY, COLUMNS, TOP = 128, 64, 300, 8
SAFE_MARGIN = 2e-3  # of the largest |logit|: twice the tolerance


def encode(source, text):
    ids = to_mlx.make_tokenizer(source).encode(text).ids
    if source.token("add_bos_token", False):
        ids = [source.token("bos_token_id")] + ids
    return ids


def greedy(model, prompt_ids):
    """(continuation, smallest gap of the two best logits over the largest)"""
    ids, margin = list(prompt_ids), 1.0
    for _ in range(GREEDY):
        logits = model.logits(ids, last_only=True)[0]
        second, best = np.partition(logits, -2)[-2:]
        margin = min(margin, (best - second) / np.abs(logits).max())
        ids.append(int(logits.argmax()))
    return ids[len(prompt_ids):], margin


def make(name):
    file, prompt = FILES[name]
    path = os.path.join(MODELS, file)
    source = to_mlx.Source(path)
    fields, weights = read_gguf(path)
    model = Model(spec_from_gguf(fields, weights), weights)

    with open(PROSE, encoding="utf-8") as f:
        ids = encode(source, f.read(8 * TOKENS))[:TOKENS]
    prompt_ids = encode(source, prompt)
    greedy_ids, margin = greedy(model, prompt_ids)
    print(f"{name}: margin {margin:.1e}, {greedy_ids[:8]}...")
    if margin < SAFE_MARGIN or source.token("eos_token_id") in greedy_ids:
        raise SystemExit(f"{name}: the prompt is no safe one, take another")

    logits = model.logits(ids)
    top_ids = np.argsort(-logits, axis=1)[:, :TOP]
    columns = np.sort(np.random.default_rng(0).choice(
        logits.shape[1], COLUMNS, replace=False))
    np.savez_compressed(
        os.path.join(HERE, name + ".npz"), ids=np.int32(ids),
        max_abs=np.abs(logits).max(), top_ids=np.int32(top_ids),
        top_values=np.take_along_axis(logits, top_ids, 1),
        columns=np.int32(columns), values=logits[:, columns],
        prompt=prompt, prompt_ids=np.int32(prompt_ids),
        greedy_ids=np.int32(greedy_ids))


if __name__ == "__main__":
    for name in sys.argv[1:] or FILES:
        make(name)
