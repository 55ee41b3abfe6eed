"""Runs the quern binary that QUERN_BINARY names."""

import json
import os
import subprocess
import tempfile

import numpy as np

BINARY = os.environ.get("QUERN_BINARY", "")
TIMEOUT_S = 300


def run(*arguments):
    """The finished process: returncode, stdout and stderr as text."""
    return subprocess.run([BINARY, *map(str, arguments)], text=True,
                          capture_output=True, timeout=TIMEOUT_S, check=False)


def _checked(*arguments):
    done = run(*arguments)
    if done.returncode != 0:
        raise AssertionError(f"quern {arguments[0]} {arguments[1]}: exit code "
                             f"{done.returncode}, {done.stderr.strip()}")
    return done.stdout


def logits(model, ids, exact=True, kv="raw"):
    """[T, V] f32"""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "logits.npy")
        _checked("logits", model, "--ids", ",".join(map(str, ids)),
                 "--out", out, "--kv", kv, *(["--exact"] if exact else []))
        return np.load(out)


def generate(model, prompt, tokens, exact=True):
    """The ids of a greedy continuation of the bare prompt."""
    out = _checked("generate", model, "--prompt", prompt, "--raw",
                   "--max-tokens", tokens, "--temp", 0, "--json",
                   *(["--exact"] if exact else []))
    return json.loads(out)["ids"]


def tokenize(model, text):
    return json.loads(_checked("tokenize", model, "--text", text, "--json"))


def perplexity(model, file, exact=False):
    return perplexity_of(model, file, *(["--exact"] if exact else []))[
        "perplexity"]


def perplexity_of(model, file, *options):
    """All that it says."""
    return json.loads(
        _checked("perplexity", model, "--file", file, "--json", *options))
