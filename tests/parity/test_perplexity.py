"""`quern perplexity` and its comparison of KV schemes, against NumPy on what
`quern logits` gives."""

import os
import tempfile
import unittest

import numpy as np

from parity import quern
from parity.test_real import GEMMA3, SMOLLM2, TESTS

SCHEMES = ("8", "turbo:k2v2")


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


class Perplexity(unittest.TestCase):

    def check(self, path, tokens, size, skip):
        with open(os.path.join(TESTS, "data", "prose.txt"),
                  encoding="utf-8") as f:
            text = f.read(8 * tokens)
        ids = np.array(quern.tokenize(path, text))[:tokens]
        # Windows overlap by one token; a bos begins each of them.
        windows = [ids[begin:begin + size].copy()
                   for begin in range(0, tokens - skip, size - 1)]
        bos = quern.tokenize(path, "")
        for window in windows:
            window[:len(bos)] = bos
        want = {scheme: np.concatenate(
            [log_softmax(quern.logits(path, window[:-1], False, scheme))
             [skip - 1:] for window in windows]) for scheme in ("raw", *SCHEMES)}
        targets = np.concatenate([window[skip:] for window in windows])

        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            got = quern.perplexity_of(
                path, file.name, "--tokens", tokens, "--context", size,
                "--skip", skip, *(f"--compare={s}" for s in SCHEMES))
        self.assertEqual(got["tokens"], len(targets))
        base = want["raw"]
        nll = self.check_nll(got, base, targets)
        for scheme, result in zip(SCHEMES, got["compared"], strict=True):
            self.assertEqual(result["kv"], scheme.replace(":", "-"))
            other = want[scheme]
            change = self.check_nll(result, other, targets) - nll
            self.assertAlmostEqual(
                result["nll_change_error"],
                change.std() / len(targets) ** 0.5, delta=1e-6)
            kl = (np.exp(base) * (base - other)).sum(1).mean()
            self.assertAlmostEqual(result["kl"], kl, delta=1e-6)
            self.assertAlmostEqual(
                result["same_top"],
                (base.argmax(1) == other.argmax(1)).mean(), delta=1e-9)

    def check_nll(self, result, log_probabilities, targets):
        nll = -log_probabilities[np.arange(len(targets)), targets]
        self.assertAlmostEqual(result["nll"], nll.mean(), delta=1e-6)
        self.assertAlmostEqual(result["perplexity"] / np.exp(nll.mean()), 1,
                               delta=1e-6)
        return nll

    def test_smollm2(self):
        self.check(SMOLLM2, 200, 90, 31)

    def test_gemma3_begins_with_bos(self):
        self.check(GEMMA3, 60, 40, 1)


if __name__ == "__main__":
    unittest.main()
