"""The turbo KV codec in NumPy, written from docs/formats/turbo.md: f32 arrays
of rows [R, D] to planes and back."""

import numpy as np

import make_turbo_tables as tables

F = np.float32
GROUP = 32
EPSILON = F(1e-8)


def signs(dim):
    words = [int(w, 16) for w in tables.SIGNS[dim].split()]
    return np.array([F(-1) if words[i // 32] >> i % 32 & 1 else F(1)
                     for i in range(dim)])


def value_tables(bits):
    return [np.array(t, F) for t in tables.tables(bits)]


def fwht(x):
    x = x.astype(F)
    dim = x.shape[-1]
    step = 1
    while step < dim:
        pairs = x.reshape(-1, dim // (2 * step), 2, step)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([a + b, a - b], axis=2).reshape(-1, dim)
        step *= 2
    return x * F(1 / np.sqrt(dim))


def pack(codes, bits):
    planes = codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(planes.reshape(len(codes), -1), axis=1,
                       bitorder="little")


def unpack(packed, bits):
    flat = np.unpackbits(packed, axis=1, bitorder="little")
    planes = flat.reshape(len(packed), -1, bits)
    return (planes << np.arange(bits, dtype=np.uint8)).sum(-1).astype(np.uint8)


def bf16(x):
    bits = x.astype(F).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def half(x):
    return np.where(np.isnan(x), np.uint16(0x7E00),
                    x.astype(np.float16).view(np.uint16))


def from_half(bits):
    return bits.view(np.float16).astype(F)


def extremes(x):
    """Minimum and maximum of each group; -0 is less than +0."""
    low, high = x.min(-1), x.max(-1)
    minus = ((x == 0) & np.signbit(x)).any(-1)
    plus = ((x == 0) & ~np.signbit(x)).any(-1)
    low = np.where(low == 0, np.where(minus, F(-0.0), F(0)), low)
    high = np.where(high == 0, np.where(plus, F(0), F(-0.0)), high)
    return low, high


def encode_keys(rows, bits):
    x = rows.reshape(len(rows), -1, GROUP)
    least, most = (-127, 127) if bits == 8 else (0, (1 << bits) - 1)
    low, high = extremes(x)
    scale = (high - low) / F(most - least)
    step = scale + EPSILON
    zero = np.rint((high + low) / (F(2) * step) if bits == 8 else low / step)
    codes = np.rint(x / step[..., None] - zero[..., None])
    finite = np.isfinite(x).all(-1)
    usable = finite & np.isfinite(zero)
    codes = np.where(usable[..., None], np.clip(codes, least, most), 0)
    codes = codes.astype(np.int8 if bits == 8 else np.uint8)
    codes = codes.reshape(len(rows), -1)
    return (codes.view(np.uint8) if bits == 8 else pack(codes, bits),
            half(np.where(finite, scale, F(np.nan))),
            half(np.where(finite, zero, F(np.nan))))


def decode_keys(packed, scales, zeros, bits):
    codes = packed.view(np.int8) if bits == 8 else unpack(packed, bits)
    q = codes.astype(F).reshape(len(codes), -1, GROUP)
    x = (q + from_half(zeros)[..., None]) * from_half(scales)[..., None]
    return x.reshape(len(codes), -1)


def encode_values(rows, bits):
    y = fwht(rows * signs(rows.shape[1])).reshape(len(rows), -1, GROUP)
    squares = np.zeros(y.shape[:2], F)
    for i in range(GROUP):  # in order
        squares = squares + y[..., i] * y[..., i]
    scale = np.sqrt(squares * F(1 / GROUP))
    t = y / (scale + EPSILON)[..., None]
    finite = np.isfinite(y).all(-1)
    t = np.where(finite[..., None], t, F(-np.inf))
    codes = np.searchsorted(value_tables(bits)[1], t, side="left")
    codes = codes.astype(np.uint8).reshape(len(rows), -1)
    return (codes if bits == 8 else pack(codes, bits),
            half(np.where(finite, scale, F(np.nan))))


def decode_values(packed, scales, bits):
    """Still rotated."""
    codes = packed if bits == 8 else unpack(packed, bits)
    c = value_tables(bits)[0][codes].reshape(len(codes), -1, GROUP)
    return (c * from_half(scales)[..., None]).reshape(len(codes), -1)


def unrotate(rows):
    return fwht(rows) * signs(rows.shape[1])
