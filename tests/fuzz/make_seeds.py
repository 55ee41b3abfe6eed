#!/usr/bin/env python3
"""Makes the first inputs of the file readers' fuzz targets under corpus/.

needs: numpy, gguf 0.19.0, safetensors 0.8.0
"""
import json
import os
import struct

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
from safetensors.numpy import save

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def path(target, name):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


def write(target, name, data):
    with open(path(target, name), "wb") as f:
        f.write(data)


def safetensors_file(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds():
    target = "fuzz_safetensors"
    write(target, "two", save({"a.weight": np.ones((2, 3), np.float32), "b": np.zeros((0, 4), np.int8)},
                              {"format": "mlx"}))
    write(target, "metadata", safetensors_file({"__metadata__": {"k": "v"}}))
    write(target, "types", safetensors_file(
        {t: {"dtype": t, "shape": [1], "data_offsets": [i, i + 1]}
         for i, t in enumerate(["BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"])}, bytes(5)))
    write(target, "overlap", safetensors_file(
        {n: {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]} for n in "ab"}, bytes(2)))


def gguf_seeds():
    target = "fuzz_gguf"
    w = GGUFWriter(path(target, "model"), "llama")
    w.add_array("tokenizer.ggml.tokens", ["<s>", "a", "\u4e2d"])
    w.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    w.add_array("bools", [True, False])
    for t, v in [("UINT8", 1), ("INT16", -3), ("UINT64", 2**63), ("FLOAT64", 0.1), ("BOOL", True)]:
        w.add_key_value(t, v, GGUFValueType[t])
    w.add_tensor("a", np.ones((2, 3), np.float32))
    for q, size in [("Q4_0", 18), ("IQ4_NL", 18)]:
        w.add_tensor(q, np.zeros((1, size), np.uint8), raw_dtype=GGMLQuantizationType[q])
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    array, u8 = 9, 0
    write(target, "nested", head + struct.pack("<IIQIQB", array, array, 1, u8, 1, 42))
    key = b"general.alignment"
    write(target, "alignment", b"GGUF" + struct.pack("<IQQQ", 2, 1, 1, len(key)) + key + struct.pack("<II", 4, 8)
          + struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 2, 0, 0) + bytes(16))


def index_seeds():
    target = "fuzz_shard_index"
    write(target, "two", json.dumps({"metadata": {"total_size": 2, "list": [1.5, None, {"a": True}]},
                                     "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}).encode())
    write(target, "parent", b'{"weight_map":{"a":"../x"}}')
    write(target, "escapes", b'{"weight_map":{"\\u4e2d\\ud83d\\ude00":"s\\u0000"}}')


safetensors_seeds()
gguf_seeds()
index_seeds()
