"""Models that quern has to refuse: exit code 1 or 2 and one line on stderr
that names the fault, whatever is wrong with the files."""

import json
import os
import struct
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from models import tiny_configs, tiny_ggufs
from models.tiny_weights import random_weights
from models.write_gguf import write_gguf
from models.write_hf import write_directory
from parity import quern

Q_PROJ = "model.layers.1.self_attn.q_proj.weight"
SUPPORTED = ("llama", "mistral", "qwen2", "qwen3", "gemma3")


class Directory:
    """A tiny model directory to be spoiled."""

    def __init__(self, path, form=tiny_configs.PLAIN[0]):
        self.path = path
        config = tiny_configs.CONFIGS["llama-untied"]
        write_directory(path, config, random_weights("refusals", config), form)

    def file(self, name):
        return os.path.join(self.path, name)

    def configure(self, **changes):
        """Changes keys of config.json; None removes one."""
        with open(self.file("config.json")) as f:
            config = {**json.load(f), **changes}
        with open(self.file("config.json"), "w") as f:
            json.dump({k: v for k, v in config.items() if v is not None}, f)

    def tensors(self, change):
        """Rewrites model.safetensors after change(tensors)."""
        path = self.file("model.safetensors")
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    def write(self, name, data):
        with open(self.file(name), "wb") as f:
            f.write(data)

    def cut(self, name, size):
        os.truncate(self.file(name), size)


def _set(name, value):
    return lambda tensors: tensors.__setitem__(name, value)


# What is done to a plain directory, words that the refusal has to hold.
CONFIG_FAULTS = {
    "model type": (dict(model_type="mamba"), ("mamba", *SUPPORTED)),
    "no model type": (dict(model_type=None), ("model_type",)),
    "rope type": (dict(rope_scaling={"rope_type": "spiral", "factor": 2.0}),
                  ("spiral",)),
    "no rope factor": (dict(rope_scaling={"rope_type": "linear"}),
                       ("factor",)),
    "no hidden size": (dict(hidden_size=None), ("hidden_size",)),
    "text for a number": (dict(num_hidden_layers="two"),
                          ("num_hidden_layers",)),
    "negative size": (dict(intermediate_size=-1), ("intermediate_size",)),
    "huge layer count": (dict(num_hidden_layers=10 ** 12),
                         ("num_hidden_layers",)),
    "heads": (dict(num_key_value_heads=3), ("num_key_value_heads",)),
    "no heads": (dict(num_attention_heads=0), ("num_attention_heads",)),
    "one layer more": (dict(num_hidden_layers=3), ("model.layers.2.",)),
    "other vocabulary": (dict(vocab_size=300), ("embed_tokens",)),
    "odd head": (dict(head_dim=33), ("head_dim",)),
}
TENSOR_FAULTS = {
    "missing": (lambda t: t.pop(Q_PROJ), (Q_PROJ,)),
    "missing head": (lambda t: t.pop("lm_head.weight"), ("lm_head",)),
    "shape": (_set(Q_PROJ, np.zeros((128, 64), np.float32)),
              (Q_PROJ.removesuffix(".weight"), "[128, 128]", "[128, 64]")),
    "rank": (_set(Q_PROJ, np.zeros(128 * 128, np.float32)), (Q_PROJ,)),
    "empty": (_set(Q_PROJ, np.zeros((0, 128), np.float32)), (Q_PROJ,)),
    "norm shape": (_set("model.norm.weight", np.ones(64, np.float32)),
                   ("model.norm.weight",)),
    "integer type": (_set(Q_PROJ, np.zeros((128, 128), np.int32)), (Q_PROJ,)),
    "double type": (_set(Q_PROJ, np.zeros((128, 128))), (Q_PROJ,)),
}
FILE_FAULTS = {
    "no config": (lambda d: os.remove(d.file("config.json")),
                  ("config.json",)),
    "config is no JSON": (lambda d: d.write("config.json", b"{"),
                          ("config.json",)),
    "config is a list": (lambda d: d.write("config.json", b"[]"),
                         ("config.json",)),
    "no weights": (lambda d: os.remove(d.file("model.safetensors")),
                   ("safetensors",)),
    "data cut": (lambda d: d.cut("model.safetensors", 100000),
                 ("model.safetensors",)),
    "header cut": (lambda d: d.cut("model.safetensors", 20),
                   ("model.safetensors",)),
    "empty file": (lambda d: d.cut("model.safetensors", 0),
                   ("model.safetensors",)),
    "header length": (lambda d: d.write("model.safetensors",
                                        struct.pack("<Q", 2 ** 63)),
                      ("model.safetensors",)),
}

Q4_CODES = "model.layers.0.mlp.up_proj.weight"
Q4_SCALES = "model.layers.0.mlp.up_proj.scales"
QUANTISED_FAULTS = {
    "no scales": (lambda d: d.tensors(lambda t: t.pop(Q4_SCALES)),
                  ("model.layers.0.mlp.up_proj",)),
    "scales shape": (lambda d: d.tensors(
        _set(Q4_SCALES, np.zeros((256, 3), np.float32))),
                     ("model.layers.0.mlp.up_proj", "scales")),
    "codes type": (lambda d: d.tensors(
        _set(Q4_CODES, np.zeros((256, 16), np.int64))), (Q4_CODES,)),
    "bits": (lambda d: d.configure(
        quantization={"group_size": 64, "bits": 7}), ("7 bits",)),
    "group": (lambda d: d.configure(
        quantization={"group_size": 48, "bits": 4}), ("groups of 48",)),
    "other bits": (lambda d: d.configure(
        quantization={"group_size": 64, "bits": 8}), ("model.",)),
}

GGUF_FAULTS = {
    "architecture": (b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
                     b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0mamba",
                     ("mamba", *SUPPORTED)),
    "magic": (b"GGUF", b"GGUX", ("GGUF",)),
    "tensor name": (b"blk.1.attn_k.weight", b"blk.1.attn_j.weight",
                    ("model.gguf",)),
    "no layer count": (b"llama.block_count", b"llama.block_kount",
                       ("model.gguf",)),
}


class Refusals(unittest.TestCase):

    def check_refused(self, path, words, ids="1,2,3"):
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "logits.npy")
            done = quern.run("logits", path, "--ids", ids, "--out", out)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertFalse(os.path.exists(out))

    def check_directory(self, spoil, words, form=tiny_configs.PLAIN[0]):
        with tempfile.TemporaryDirectory() as scratch:
            directory = Directory(os.path.join(scratch, "model"), form)
            spoil(directory)
            self.check_refused(directory.path, words)

    def test_config(self):
        for name, (changes, words) in CONFIG_FAULTS.items():
            with self.subTest(fault=name):
                self.check_directory(lambda d: d.configure(**changes), words)

    def test_tensors(self):
        for name, (change, words) in TENSOR_FAULTS.items():
            with self.subTest(fault=name):
                self.check_directory(lambda d: d.tensors(change), words)

    def test_files(self):
        for name, (spoil, words) in FILE_FAULTS.items():
            with self.subTest(fault=name):
                self.check_directory(spoil, words)

    def test_quantised(self):
        form = tiny_configs.Form("q4", "float32", bits=4)
        for name, (spoil, words) in QUANTISED_FAULTS.items():
            with self.subTest(fault=name):
                self.check_directory(spoil, words, form)

    def test_missing_shard(self):
        form = tiny_configs.Form("sharded", "float32", shards=3)
        shard = "model-00002-of-00003.safetensors"
        self.check_directory(lambda d: os.remove(d.file(shard)), (shard,),
                             form)

    def test_gguf(self):
        config = tiny_ggufs.EVERY_TYPE["llama"]
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "model.gguf")
            write_gguf(path, "llama", config,
                       random_weights("refusals", config), "Q8_0")
            with open(path, "rb") as f:
                whole = f.read()
            for name, (old, new, words) in GGUF_FAULTS.items():
                with self.subTest(fault=name):
                    self.assertIn(old, whole)
                    with open(path, "wb") as f:
                        f.write(whole.replace(old, new, 1))
                    self.check_refused(path, words)
            for size in (0, 3, 20, 500, len(whole) // 2, len(whole) - 40):
                with self.subTest(size=size):
                    with open(path, "wb") as f:
                        f.write(whole[:size])
                    self.check_refused(path, ("model.gguf",))

    def test_gguf_type(self):
        config = tiny_ggufs.EVERY_TYPE["llama"]
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "model.gguf")
            write_gguf(path, "llama", config,
                       random_weights("refusals", config), "TQ2_0")
            self.check_refused(path, ("token_embd.weight", "TQ2_0"))

    def test_no_model(self):
        with tempfile.TemporaryDirectory() as scratch:
            self.check_refused(scratch, ("config.json",))
            self.check_refused(os.path.join(scratch, "nothing"), ("nothing",))

    def test_token_ids(self):
        with tempfile.TemporaryDirectory() as scratch:
            directory = Directory(os.path.join(scratch, "model"))
            for ids in ("1,288", "-1", "1,x", "", "99999999999999999999"):
                with self.subTest(ids=ids):
                    self.check_refused(directory.path, ("ids",), ids)


if __name__ == "__main__":
    unittest.main()
