"""Reads model files as f32 arrays with NumPy alone: the oracle's own readers.

Quantised values are decoded in f32 from scales and biases widened to f32
(codes * scale + bias), which is what quern's exact mode means by a weight.
"""

import json
import os
import struct

import gguf
import numpy as np

_PLAIN = {"F32": np.float32, "F16": np.float16, "U32": np.uint32}


def read_safetensors(path):
    """{name: array}; bfloat16 comes back as f32."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + o for o in t["data_offsets"])
        if t["dtype"] == "BF16":
            wide = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32)
            values = (wide << 16).view(np.float32)
        else:
            values = np.frombuffer(data[begin:end], _PLAIN[t["dtype"]])
        tensors[name] = values.reshape(t["shape"])
    return tensors


def unpack_codes(words, bits):
    """u32 [rows, n * bits / 32] -> codes [rows, n], lowest bits first."""
    octets = words.view(np.uint8).reshape(-1, bits)  # eight codes each
    wide = np.zeros((len(octets), 8), np.uint8)
    wide[:, :bits] = octets
    shifts = np.arange(0, 8 * bits, bits, dtype=np.uint64)
    codes = wide.view("<u8") >> shifts & np.uint64(2 ** bits - 1)
    return codes.astype(np.uint8).reshape(words.shape[0], -1)


def dequantise(words, scales, biases, bits, group):
    """MLX affine codes -> f32 [rows, n]."""
    codes = unpack_codes(words, bits).astype(np.float32)
    codes = codes.reshape(codes.shape[0], -1, group)
    scales, biases = (x.astype(np.float32)[..., None]
                      for x in (scales, biases))
    return (codes * scales + biases).reshape(codes.shape[0], -1)


def read_directory(path):
    """(config, {Hugging Face name: f32}) of an MLX or HF directory."""
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    tensors = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            tensors.update(read_safetensors(os.path.join(path, file)))
    how = config.get("quantization") or config.get("quantization_config")
    weights = {}
    for name, values in tensors.items():
        module = name.removesuffix(".weight")
        if module + ".scales" in tensors:
            part = how.get(module, how)
            values = dequantise(values, tensors[module + ".scales"],
                                tensors[module + ".biases"], part["bits"],
                                part["group_size"])
        elif name.endswith((".scales", ".biases")):
            continue
        weights[name] = values.astype(np.float32)
    return config, weights


def read_gguf(path):
    """(fields, {GGUF name: f32}), weights decoded by gguf-py."""
    reader = gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in reader.fields.items()
              if not key.startswith("tokenizer.ggml.")}
    weights = {}
    for t in reader.tensors:
        values = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        weights[t.name] = values.reshape([int(n) for n in t.shape][::-1])
    return fields, weights
