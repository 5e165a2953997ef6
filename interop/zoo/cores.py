"""Matrix units of GPUs, as convolution sums: x is [K,P], w is [O,K], both in the unit's input format.

NVIDIA's rule is that of Khattak and Mikaitis (arXiv 2512.07004) and MMA-Sim (arXiv 2511.10909): a block's products and
the accumulator are each cut toward zero at F bits below the largest exponent, a product's being the sum of its
operands', and added exactly. The recordings of real devices in ../../tensorcore/testdata are the test of this file.
"""

import numpy as np

from formats import f32, half, toward_zero

TINY = -1 << 20      # the exponent of zero

# Products of a block, bits of a term, and bits that a result keeps.
NVIDIA = {
    ("v100", "float16"): (4, 23, 23),
    ("a100", "float16"): (8, 24, 23), ("a100", "bfloat16"): (8, 24, 23), ("a100", "tf32"): (4, 24, 23),
    ("h100", "float16"): (16, 25, 23), ("h100", "bfloat16"): (16, 25, 23), ("h100", "tf32"): (8, 25, 23),
    ("fp8", "float16"): (32, 13, 13), ("fp8", "bfloat16"): (32, 13, 13),
}


def exponent(x, low):
    """The exponent of each number's first digit, at least low."""
    return np.where(x == 0, TINY, np.maximum(np.frexp(x)[1] - 1, low))


def cut(x, e):
    """x toward zero to a multiple of 2^e."""
    return np.ldexp(np.trunc(np.ldexp(x, -e)), e)


def nvidia(x, w, rule, low, to=None, start=None):
    """Sums by NVIDIA's rule; to rounds a block's sum where it is not float32 toward zero."""
    terms, bits, keep = rule
    x, w = x.astype(np.float64), w.astype(np.float64)
    ex, ew = exponent(x, low), exponent(w, low)
    acc = np.zeros((w.shape[0], x.shape[1])) if start is None else start.astype(np.float64)
    for k in range(0, len(x), terms):
        s = slice(k, k + terms)
        p = w[:, s, None] * x[None, s]
        e = np.maximum((ew[:, s, None] + ex[None, s]).max(1), np.maximum(exponent(acc, -126), -133))
        total = cut(p, (e - bits)[:, None]).sum(1) + cut(acc, e - bits)
        acc = (to or toward_zero)(total).astype(np.float64)
        if keep < 23:
            acc = cut(acc, exponent(acc, -126) - keep)
    return f32(acc)


def flushed(x, low):
    return np.where(np.abs(x) < 2.0 ** low, 0, x)


def mi200(x, w, low):
    """(p0+p1) + (p2+p3), then the accumulator, each rounded to float32 and without subnormal numbers."""
    near = lambda v: flushed(f32(v), -126).astype(np.float64)
    x, w = flushed(x.astype(np.float64), low), flushed(w.astype(np.float64), low)
    pad = -len(x) % 4
    x, w = np.pad(x, ((0, pad), (0, 0))), np.pad(w, ((0, 0), (0, pad)))
    acc = np.zeros((w.shape[0], x.shape[1]))
    for k in range(0, len(x), 4):
        p = [near(w[:, k + i, None] * x[k + i]) for i in range(4)]
        acc = near(acc + near(near(p[0] + p[1]) + near(p[2] + p[3])))
    return f32(acc)


def mi300(x, w, low, terms=8):
    """Products cut at 24 bits; their sum floored at 31 bits and the accumulator at 24, of the larger exponent; nearest."""
    floor = lambda v, e: np.ldexp(np.floor(np.ldexp(v, -e)), e)
    x, w = x.astype(np.float64), w.astype(np.float64)
    ex, ew = exponent(x, low), exponent(w, low)
    acc = np.zeros((w.shape[0], x.shape[1]))
    for k in range(0, len(x), terms):
        s = slice(k, k + terms)
        e = np.maximum((ew[:, s, None] + ex[None, s]).max(1), -300)
        total = cut(w[:, s, None] * x[None, s], (e - 24)[:, None]).sum(1)
        both = np.maximum(e, exponent(acc, -126))
        acc = f32(floor(total, both - 31) + floor(acc, both - 24)).astype(np.float64)
    return f32(acc)


def total(name, mode, x, w):
    """Sums as the unit of a device adds them, for operands of a mode."""
    low = -14 if mode == "float16" else -126
    if name == "mi200":
        return mi200(x, w, low)
    if name == "mi300":
        return mi300(x, w, low, 4 if mode == "tf32" else 8)
    return nvidia(x, w, NVIDIA[name, mode], low)


def halved(name, mode, x, w):
    """The same with a float16 accumulator, rounded to nearest after each block: no unit for a float32 claim."""
    return nvidia(x, w, NVIDIA[name, mode], -14, lambda v: half(f32(v), "float16"))
