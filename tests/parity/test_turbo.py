"""The turbo codec's rows against NumPy, byte for byte: 10^5 rows in all."""

import os
import subprocess
import unittest

import numpy as np

from parity import turbo_codec as codec

ROWS = os.environ.get("QUERN_TURBO_ROWS", "")
CHUNK = 4000
COUNTS = {64: 40000, 128: 32000, 256: 20000, 512: 8000}


def as_bf16(x):
    return (codec.bf16(x).astype(np.uint32) << 16).view(np.float32)


def odd_rows(random, count, dim):
    """Rows of every kind, in turn; f32 or rounded to bf16."""
    x = random.standard_normal((count, dim)).astype(np.float32)
    kind = np.arange(count) % 16
    x[kind == 1] *= np.float32(1e-3)
    x[kind == 2] *= random.choice(
        [1e-40, 1e-20, 1e-8, 1e4, 1e18, 1e30], (np.sum(kind == 2), 1)
    ).astype(np.float32)
    x[kind == 3] = 0
    x[kind == 4] = random.standard_normal((np.sum(kind == 4), 1))
    x[kind == 5, random.integers(dim)] = 1000
    x[kind == 6] = x[kind == 6] * np.float32(0.01)
    x[kind == 6, ::32] = 1000
    far = random.choice([1, -20, 50, 300, 1e5], (np.sum(kind == 7), 1))
    x[kind == 7] = x[kind == 7] * np.float32(0.5) + far.astype(np.float32)
    x[kind == 8] = np.rint(x[kind == 8] * 4)  # ties
    x[kind == 9] = np.where(x[kind == 9] > 1, x[kind == 9], -0.0)
    x[kind == 10, :32] = 0.5
    x[kind == 11, 7] = random.choice([np.inf, -np.inf, np.nan])
    x[kind >= 12] = as_bf16(x[kind >= 12])
    return x


class Planes:
    """What turbo_rows wrote, taken off from the front."""

    def __init__(self, name, rows):
        self.count, dim = rows.shape
        self.data = subprocess.run(
            [ROWS, str(dim), name], input=rows.tobytes(), capture_output=True,
            check=True, timeout=300).stdout

    def take(self, width, dtype):
        size = self.count * width * np.dtype(dtype).itemsize
        head, self.data = self.data[:size], self.data[size:]
        return np.frombuffer(head, dtype).reshape(self.count, width)


class Turbo(unittest.TestCase):

    def same(self, got, want, what):
        if np.array_equal(got, want):
            return
        row, at = np.argwhere(got != want)[0]
        self.fail(f"{what}: row {row} [{at}] is {got[row, at]:#x}, "
                  f"NumPy has {want[row, at]:#x}")

    def check_rows(self, name, rows):
        planes = Planes(name, rows)
        dim = rows.shape[1]
        for bits in (2, 4, 5, 8):
            want = codec.encode_keys(rows, bits)
            back = codec.bf16(codec.decode_keys(*want, bits))
            for part, width, plane in (
                    ("codes", dim * bits // 8, want[0]),
                    ("scales", dim // 32, want[1]),
                    ("zeros", dim // 32, want[2]), ("decoded", dim, back)):
                self.same(planes.take(width, plane.dtype), plane,
                          f"{name} {dim} k{bits} {part}")
        for bits in (2, 3, 4, 5, 8):
            want = codec.encode_values(rows, bits)
            rotated = codec.decode_values(*want, bits)
            for part, width, plane in (
                    ("codes", dim * bits // 8, want[0]),
                    ("scales", dim // 32, want[1]),
                    ("rotated", dim, codec.bf16(rotated)),
                    ("eager", dim, codec.bf16(codec.unrotate(rotated)))):
                self.same(planes.take(width, plane.dtype), plane,
                          f"{name} {dim} v{bits} {part}")
        self.assertEqual(planes.data, b"")

    def check_head_dim(self, dim):
        random = np.random.default_rng(dim)
        with np.errstate(all="ignore"):
            for _ in range(COUNTS[dim] // CHUNK):
                self.check_rows("plain", odd_rows(random, CHUNK, dim))

    def test_head_64(self):
        self.check_head_dim(64)

    def test_head_128(self):
        self.check_head_dim(128)

    def test_head_256(self):
        self.check_head_dim(256)

    def test_head_512(self):
        self.check_head_dim(512)

    def test_kernels(self):
        random = np.random.default_rng(1)
        with np.errstate(all="ignore"):
            for name in available():
                for dim in COUNTS:
                    self.check_rows(name, odd_rows(random, 1000, dim))

    def test_tables_are_written_by_the_tool(self):
        tool = os.path.join(os.path.dirname(codec.tables.__file__),
                            "make_turbo_tables.py")
        subprocess.run([tool, "--check"], check=True)


def available():
    """The instruction sets this machine has."""
    return [name for name in ("avx512", "avx2", "neon", "portable")
            if subprocess.run([ROWS, "64", name], input=b"", check=False,
                              capture_output=True).returncode == 0]
