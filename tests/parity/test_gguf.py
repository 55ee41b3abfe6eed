"""Tiny random GGUFs of every weight type against NumPy on the values that
gguf-py decodes."""

import os
import tempfile
import unittest

from models import tiny_ggufs
from parity import checks
from parity.reference import Model, spec_from_gguf
from parity.weights import read_gguf


class TinyGgufs(unittest.TestCase):

    def check_files(self, files):
        for name, write in files:
            with self.subTest(model=name), \
                    tempfile.TemporaryDirectory() as scratch:
                path = os.path.join(scratch, name + ".gguf")
                write(path)
                fields, weights = read_gguf(path)
                reference = Model(spec_from_gguf(fields, weights), weights)
                checks.check_model(self, path, reference, checks.test_ids(100))

    def test_llama(self):
        self.check_files(tiny_ggufs.every_type("llama"))

    def test_qwen2(self):
        self.check_files(tiny_ggufs.every_type("qwen2"))

    def test_qwen3(self):
        self.check_files(tiny_ggufs.every_type("qwen3"))

    def test_gemma3(self):
        self.check_files(tiny_ggufs.every_type("gemma3"))

    def test_ropes(self):
        self.check_files(tiny_ggufs.ropes())


if __name__ == "__main__":
    unittest.main()
