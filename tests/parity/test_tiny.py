"""Tiny random directories of every family, type and width against NumPy and
mlx-lm, which have to agree with each other first."""

import os
import tempfile
import unittest

from models.tiny_configs import CONFIGS, NUMPY_ONLY, PLAIN, forms_of
from models.tiny_weights import random_weights
from models.write_hf import write_directory
from parity import checks, mlx_lm_oracle
from parity.reference import Model, spec_from_config
from parity.weights import read_directory

LONG = 300  # tokens: past a block of the prefill grid


class TinyDirectories(unittest.TestCase):

    def check_directory(self, name, form, tokens, check):
        """Writes the model, checks the oracles, then quern with check."""
        config = CONFIGS[name]
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "model")
            write_directory(path, config, random_weights(name, config), form)
            config, weights = read_directory(path)
            reference = Model(spec_from_config(config), weights)
            ids = checks.test_ids(tokens)
            if name not in NUMPY_ONLY:
                checks.check_close(
                    self, reference.logits(ids),
                    mlx_lm_oracle.logits(config, weights, ids),
                    checks.REFERENCES)
            check(path, reference, ids)

    def check_family(self, family):
        for name in (n for n in CONFIGS if n.startswith(family)):
            for form in forms_of(name):
                with self.subTest(model=name, form=form.name):
                    self.check_directory(
                        name, form, 100, lambda path, reference, ids:
                        checks.check_model(self, path, reference, ids))
            with self.subTest(model=name, form="long"):
                self.check_directory(
                    name, PLAIN[0], LONG, lambda path, reference, ids:
                    checks.check_exact(self, path, ids, reference.logits(ids)))

    def test_llama(self):
        self.check_family("llama")

    def test_mistral(self):
        self.check_family("mistral")

    def test_qwen2(self):
        self.check_family("qwen2")

    def test_qwen3(self):
        self.check_family("qwen3")

    def test_gemma3(self):
        self.check_family("gemma3")


if __name__ == "__main__":
    unittest.main()
