"""The oracles and tools checked among themselves; quern takes no part."""

import os
import tempfile
import unittest

import mlx.core as mx
import numpy as np
import to_mlx

from models import tiny_ggufs
from parity import checks, mlx_lm_oracle, weights
from parity.reference import Model, spec_from_gguf


class References(unittest.TestCase):

    def test_numpy_decodes_mlx_codes(self):
        values = np.random.default_rng(0).standard_normal((8, 256))
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                parts = mx.quantize(mx.array(values.astype(np.float32)),
                                    group, bits)
                want = np.array(mx.dequantize(*parts, group, bits))
                got = weights.dequantise(*map(np.array, parts), bits, group)
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)

    def test_converted_gguf_gives_the_same_logits(self):
        """to_mlx.py undoes what llama.cpp's converter does: names, row order,
        norms. Two readers and two graphs meet here."""
        ids = checks.test_ids(100)
        for arch in ("llama", "qwen2", "gemma3"):
            name, write = next(tiny_ggufs.every_type(arch))
            with self.subTest(model=name), \
                    tempfile.TemporaryDirectory() as scratch:
                source = os.path.join(scratch, "model.gguf")
                target = os.path.join(scratch, "model")
                write(source)
                to_mlx.convert(source, target, dtype="float32")
                fields, tensors = weights.read_gguf(source)
                spec = spec_from_gguf(fields, tensors)
                want = Model(spec, tensors).logits(ids)
                got = mlx_lm_oracle.logits(
                    *weights.read_directory(target), ids)
                checks.check_close(self, got, want, checks.REFERENCES)


if __name__ == "__main__":
    unittest.main()
