"""Real models: logits, greedy text and perplexity.

GGUFs are compared with goldens (tests/goldens/logits); MLX directories are
made from them here and compared with NumPy, and a few tokens with mlx-lm.
"""

import os
import tempfile
import unittest

import numpy as np
import to_mlx

from parity import checks, mlx_lm_oracle, quern
from parity.reference import Model, spec_from_config
from parity.weights import read_directory

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODELS = os.environ.get("QUERN_MODELS",
                        os.path.expanduser("~/.cache/quern/models"))
SMOLLM2 = os.path.join(MODELS, "SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA3 = os.path.join(MODELS, "gemma-3-270m.Q4_K_M.gguf")
QWEN = os.path.join(MODELS, "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf")

PROSE_BYTES = 18000  # 4k tokens or a little more
PERPLEXITY = 0.005   # fast against exact, relative


def golden(name):
    path = os.path.join(TESTS, "goldens", "logits", name + ".npz")
    with np.load(path) as data:
        return dict(data)


class RealModel(unittest.TestCase):

    def check_logits(self, path, want):
        got = quern.logits(path, want["ids"])
        tolerance = checks.EXACT * want["max_abs"]
        top = np.take_along_axis(got, want["top_ids"], 1)
        self.assertLessEqual(np.abs(top - want["top_values"]).max(), tolerance)
        drawn = got[:, want["columns"]]
        self.assertLessEqual(np.abs(drawn - want["values"]).max(), tolerance)
        np.testing.assert_array_equal(got.argmax(1), want["top_ids"][:, 0])
        checks.check_fast(self, path, want["ids"], got)

    def check_greedy(self, path, want):
        prompt = str(want["prompt"])
        self.assertEqual(quern.generate(path, prompt, checks.GREEDY_TOKENS),
                         want["greedy_ids"].tolist())
        ids = np.concatenate([want["prompt_ids"], want["greedy_ids"]])
        best = quern.logits(path, ids[:-1]).argmax(1)
        np.testing.assert_array_equal(
            best[len(want["prompt_ids"]) - 1:], want["greedy_ids"])

    def check_perplexity(self, path):
        with tempfile.TemporaryDirectory() as scratch:
            text = os.path.join(scratch, "prose.txt")
            with open(os.path.join(TESTS, "data", "prose.txt"), "rb") as f:
                head = f.read(PROSE_BYTES)
            with open(text, "wb") as f:
                f.write(head)
            exact = quern.perplexity(path, text, exact=True)
            fast = quern.perplexity(path, text)
        self.assertLessEqual(abs(fast / exact - 1), PERPLEXITY,
                             f"fast {fast}, exact {exact}")

    def check_gguf(self, path, name):
        want = golden(name)
        with self.subTest("logits"):
            self.check_logits(path, want)
        with self.subTest("greedy"):
            self.check_greedy(path, want)
        with self.subTest("perplexity"):
            self.check_perplexity(path)

    def check_directory(self, gguf, ids, mlx_tokens, **how):
        """A directory made with how against NumPy on all ids and mlx-lm on
        the first mlx_tokens."""
        with tempfile.TemporaryDirectory() as path:
            to_mlx.convert(gguf, path, **how)
            exact = quern.logits(path, ids)
            checks.check_fast(self, path, ids, exact)
            config, weights = read_directory(path)
        want = Model(spec_from_config(config), weights).logits(ids)
        checks.check_close(self, exact, want, checks.EXACT)
        np.testing.assert_array_equal(exact.argmax(1), want.argmax(1))
        other = mlx_lm_oracle.logits(config, weights, ids[:mlx_tokens])
        checks.check_close(self, want[:mlx_tokens], other,
                           checks.REAL_REFERENCES)

    def test_smollm2(self):
        self.check_gguf(SMOLLM2, "smollm2")

    def test_gemma3(self):
        self.check_gguf(GEMMA3, "gemma3")

    def test_qwen_coder(self):
        self.check_gguf(QWEN, "qwen-coder")

    def test_smollm2_directories(self):
        ids = golden("smollm2")["ids"].tolist()
        with self.subTest("4 bits"):
            self.check_directory(SMOLLM2, ids, 16, bits=4)
        with self.subTest("bfloat16"):
            self.check_directory(SMOLLM2, ids, 16, shards=2)

    def test_gemma3_directory(self):
        ids = golden("gemma3")["ids"].tolist()
        self.check_directory(GEMMA3, ids, 8, bits=4)

    def test_qwen_coder_directories(self):
        ids = golden("qwen-coder")["ids"].tolist()
        with self.subTest("4 bits"):
            self.check_directory(QWEN, ids, 4, bits=4,
                                 overrides=[("lm_head", (8, 64))])
        with self.subTest("bfloat16"):
            self.check_directory(QWEN, ids, 4)


if __name__ == "__main__":
    unittest.main()
