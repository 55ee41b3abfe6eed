"""Writes goldens.json: what mlx-lm's processors and filters make of rows.

Run with mlx-lm 0.32.2 installed:  python tests/sample/make_goldens.py
"""

import json
import pathlib

import mlx.core as mx
import numpy as np
from mlx_lm import sample_utils

PROCESSED = [  # vocabulary 16, so that 20 log-probabilities show all of it
    {},
    {"logit_bias": {"3": 2.5, "15": -4.0, "0": 0.25}},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7, "repetition_context": 4},
    {"repetition_penalty": 1.5, "repetition_context": 0},
    {"presence_penalty": 0.75},
    {"presence_penalty": -0.5, "presence_context": 3},
    {"frequency_penalty": 0.4},
    {"frequency_penalty": 0.4, "frequency_context": 0},
    {"frequency_penalty": -0.3, "frequency_context": 5},
    {
        "logit_bias": {"1": -3.0, "7": 1.5},
        "repetition_penalty": 1.2,
        "repetition_context": 8,
        "presence_penalty": 0.6,
        "presence_context": 0,
        "frequency_penalty": 0.2,
        "frequency_context": 10,
    },
]

TRUNCATED = [  # vocabulary 200, no two logits equal
    {"top_p": 0.05},
    {"top_p": 0.5},
    {"top_p": 0.95},
    {"top_p": 0.999},
    {"min_p": 0.02},
    {"min_p": 0.5},
    {"min_p": 1.0},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": 199},
    {"xtc_threshold": 0.1},
    {"xtc_threshold": 0.01},
    {"xtc_threshold": 0.45},
    {"xtc_threshold": 0.02, "xtc_exempt": True},
    {"top_p": 0.9, "min_p": 0.05},
    {"top_p": 0.8, "top_k": 5},
    {"top_p": 0.9, "xtc_threshold": 0.08, "top_k": 7},
    {"min_p": 0.01, "xtc_threshold": 0.03, "top_k": 3},
    {"top_p": 0.97, "min_p": 0.02, "xtc_threshold": 0.05, "top_k": 12},
]


def processed_case(rng, params):
    logits = np.round(rng.normal(0, 2.5, 16) * 16) / 16
    history = rng.integers(0, 16, 30).tolist()
    kwargs = {k.replace("_context", "_context_size"): v
              for k, v in params.items()}
    if "logit_bias" in kwargs:
        kwargs["logit_bias"] = {int(k): v
                                for k, v in kwargs["logit_bias"].items()}
    row = mx.array(logits, mx.float32)[None]
    for process in sample_utils.make_logits_processors(**kwargs):
        row = process(mx.array(history), row)
    logprobs = row - mx.logsumexp(row, axis=-1, keepdims=True)
    return {"params": params, "logits": logits.tolist(), "history": history,
            "logprobs": logprobs[0].tolist()}


def truncated_case(rng, params, spread):
    grid = rng.choice(4000, 200, replace=False) / 4000  # distinct
    logits = np.float32(np.round(spread * np.log(grid + 1e-3) * 256) / 256)
    logits += np.float32(np.arange(200) / 65536)
    row = mx.array(logits)[None]
    row = row - mx.logsumexp(row, axis=-1, keepdims=True)
    exempt = []
    if params.get("xtc_exempt"):
        exempt = sorted(np.argsort(-logits)[[0, 2]].tolist())
    if "top_p" in params:
        row = sample_utils.apply_top_p(row, params["top_p"])
    if "min_p" in params:
        row = sample_utils.apply_min_p(row, params["min_p"])
    if "xtc_threshold" in params:
        row = sample_utils.apply_xtc(row, 1.0, params["xtc_threshold"], exempt)
    if "top_k" in params:
        row = sample_utils.apply_top_k(row, params["top_k"])
    kept = [i for i, x in enumerate(row[0].tolist()) if x != -float("inf")]
    return {"params": {**params, "xtc_exempt": exempt},
            "logits": logits.tolist(), "kept": kept}


def main():
    rng = np.random.default_rng(2026)
    goldens = {
        "processed": [processed_case(rng, p) for p in PROCESSED],
        "truncated": [truncated_case(rng, p, spread)
                      for p in TRUNCATED for spread in (-0.5, -1.5)],
    }
    path = pathlib.Path(__file__).with_name("goldens.json")
    path.write_text(json.dumps(goldens, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
