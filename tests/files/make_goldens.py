#!/usr/bin/env python3
"""Makes goldens/ with the reference libraries of both formats.

usage: make_goldens.py [MODELS]     (default: ~/.cache/quern/models)
  small.safetensors, small.gguf  one tensor of each type, by the references
  *.json                         what the references read back, types.json the
                                 block and byte sizes of gguf-py
  matrix.npy, vector.npy, scalar.npy  by numpy
  <model>.json                   names, types, shapes, first and last bytes and
                                 metadata of the real models in MODELS
needs: numpy, gguf 0.19.0, safetensors 0.8.0
"""
import json
import os
import sys

import gguf
import numpy as np
import safetensors
from gguf import GGMLQuantizationType as Q
from gguf import GGUFReader, GGUFWriter, GGUFValueType

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens")
MODELS = sys.argv[1] if len(sys.argv) > 1 else os.path.expanduser("~/.cache/quern/models")


def path(name):
    return os.path.join(OUT, name)


def save(name, value):
    """One line for each entry of the outer lists: small diffs."""
    def rows(v):
        if isinstance(v, dict):
            return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(x)}" for k, x in v.items()) + "\n}"
        return "[\n" + ",\n".join(json.dumps(x) for x in v) + "\n]"
    with open(path(name), "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {rows(v)}" for k, v in value.items()) + "\n}\n")


def pattern(count):
    return bytes((i * 37 + 11) % 251 for i in range(count))


def entry(name, kind, shape, data):
    data = bytes(data)
    return {"name": name, "type": kind, "shape": [int(x) for x in shape], "bytes": len(data),
            "head": data[:8].hex(), "tail": data[-8:].hex()}


def safetensors_entries(file):
    with open(file, "rb") as f:
        data = f.read()
    return sorted((entry(n, t["dtype"], t["shape"], t["data"]) for n, t in safetensors.deserialize(data)),
                  key=lambda e: e["name"])


def small_safetensors():
    sizes = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2,
             "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "float8_e4m3fn": 1,
             "float8_e5m2": 1}
    data = np.frombuffer(pattern(48), np.uint8)

    def spec(kind, shape, size):
        return safetensors.TensorSpec(dtype=kind, shape=shape, data_ptr=data.ctypes.data, data_len=size)
    tensors = {f"t.{k}": spec(k, [2, 3], 6 * n) for k, n in sizes.items()}
    tensors["scalar"] = spec("float32", [], 4)
    tensors["empty"] = spec("float32", [3, 0], 0)
    tensors["näme \u4e2d"] = spec("uint8", [1, 1, 5], 5)
    safetensors.serialize_file(tensors, path("small.safetensors"), {"format": "mlx", "note": "a \"b\"\n"})
    save("small.safetensors.json", {"tensors": safetensors_entries(path("small.safetensors"))})


def gguf_value(field):
    """[type, value] or [type, element, count, first three, last]"""
    kinds = [t.name for t in field.types]
    if kinds[0] != "ARRAY":
        return [kinds[0], field.contents()]
    values = field.contents()
    return [kinds[0], kinds[-1], len(values), values[:3], values[-1]]


def gguf_golden(file, name):
    r = GGUFReader(file)
    metadata = {k: gguf_value(f) for k, f in r.fields.items() if not k.startswith("GGUF.")}
    tensors = sorted((entry(t.name, t.tensor_type.name, reversed(t.shape), t.data.tobytes()) for t in r.tensors),
                     key=lambda e: e["name"])
    save(name, {"metadata": metadata, "tensors": tensors})


def small_gguf():
    w = GGUFWriter(path("small.gguf"), "llama")
    for t, v in [("UINT8", 200), ("INT8", -5), ("UINT16", 60000), ("INT16", -3000), ("UINT32", 4000000000),
                 ("INT32", -7), ("FLOAT32", 0.1), ("BOOL", True), ("STRING", "größe\n"), ("UINT64", 2**63 + 1),
                 ("INT64", -2**40), ("FLOAT64", 0.1)]:
        w.add_key_value(f"scalar.{t}", v, GGUFValueType[t])
    w.add_array("array.strings", ["", "a", "bc", "\u4e2d"])
    w.add_array("array.ints", [1, -2, 3])
    w.add_array("array.floats", [0.5, -1.25])
    w.add_array("array.bools", [True, False])
    for q, (block, size) in gguf.GGML_QUANT_SIZES.items():
        data = np.frombuffer(pattern(2 * 3 * size), np.uint8).reshape(3, 2 * size)
        w.add_tensor(f"t.{q.name}", data, raw_dtype=q)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    gguf_golden(path("small.gguf"), "small.gguf.json")
    save("types.json", {"gguf": {q.name: [int(q), *gguf.GGML_QUANT_SIZES[q]] for q in Q}})


def arrays():
    np.save(path("matrix.npy"), np.array([[0.5, -1.25, 3e-20], [4, 5e20, -0.0]], np.float32))
    np.save(path("vector.npy"), np.arange(5, dtype=np.float32))
    np.save(path("scalar.npy"), np.float32(7.5))


os.makedirs(OUT, exist_ok=True)
small_safetensors()
small_gguf()
arrays()
for name in ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m.Q4_K_M.gguf",
             "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"]:
    gguf_golden(os.path.join(MODELS, name), name + ".json")
save("all-MiniLM-L6-v2.json",
     {"tensors": safetensors_entries(os.path.join(MODELS, "all-MiniLM-L6-v2", "model.safetensors"))})
