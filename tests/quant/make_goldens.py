#!/usr/bin/env python3
"""Makes goldens/<type>.bin with gguf-py: a matrix of random valid blocks, then
its f32 values as gguf-py dequantises them, row by row. 17 x 512 elements, the
plain types 17 x 45.

needs: numpy, gguf 0.19.0
"""
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens")
ROWS = 17
# Where the f16 numbers of a block lie.
HALVES = {
    Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0],
    Q.Q2_K: [80, 82], Q.Q3_K: [108], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208],
}


def halves(random, count):
    """Scales as checkpoints have them, of both signs, and a few odd ones."""
    x = (random.uniform(0.001, 0.1, count) * random.choice([-1, 1], count)).astype(np.float16)
    x[:3] = [0, 6e-8, 100]  # zero, subnormal, large
    return x


def random_blocks(random, kind):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ROWS * 512 // block, size), dtype=np.uint8)
    for at in HALVES[kind]:
        blocks[:, at:at + 2] = halves(random, len(blocks)).view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def plain(random, kind):
    x = random.normal(0, 1, (ROWS, 45)).astype(np.float32)
    return gguf.quants.quantize(x, kind).view(np.uint8).reshape(ROWS, -1)


def main():
    os.makedirs(OUT, exist_ok=True)
    for i, kind in enumerate([Q.F32, Q.F16, Q.BF16, *HALVES]):
        random = np.random.default_rng(i)
        data = random_blocks(random, kind) if kind in HALVES else plain(random, kind)
        if kind in (Q.F32, Q.F16):
            data = data.view(np.float32 if kind == Q.F32 else np.float16)
        values = gguf.quants.dequantize(data, kind).astype("<f4")
        with open(os.path.join(OUT, f"{kind.name}.bin"), "wb") as f:
            f.write(data.tobytes() + values.tobytes())


main()
