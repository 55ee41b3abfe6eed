"""Writes rope_goldens.json: inverse frequencies and attention factor of each
rope type, by mlx-lm (its float32 periods, inverted).

usage: make_rope_goldens.py (needs mlx-lm)
"""
import json
import pathlib

from mlx_lm.models.rope_utils import initialize_rope

CASES = {
    "llama3": (64, 500000.0, {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    "yarn": (64, 10000.0, {
        "rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 4096}),
    "yarn_mscale": (32, 150000.0, {
        "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 0.707, "mscale_all_dim": 0.5,
        "original_max_position_embeddings": 4096}),
}

goldens = {}
for name, (dims, theta, scaling) in CASES.items():
    rope = initialize_rope(dims, theta, False, scaling, 131072)
    goldens[name] = {
        "dims": dims, "theta": theta, "scaling": scaling,
        "inv_freq": (1.0 / rope._freqs).tolist(),
        "factor": float(getattr(rope, "mscale", 1.0))}
path = pathlib.Path(__file__).with_name("rope_goldens.json")
path.write_text(json.dumps(goldens, indent=1) + "\n")
