"""Roundings of float32 arrays, by their bits. Results are float32 arrays."""

import numpy as np

BITS = {"float16": 11, "bfloat16": 8, "tf32": 11, "float32": 24}


def f32(x):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x, np.float32)


def significand(x, bits, how="even"):
    """x to so many significant bits (2 to 24), exponents as in float32."""
    x = f32(x)
    drop = 24 - bits
    if drop <= 0:
        return x
    b = x.view(np.uint32)
    low = np.uint32((1 << drop) - 1)
    if how == "truncate":
        r = b
    elif how == "away":
        r = b + np.uint32(1 << (drop - 1))
    else:
        r = b + np.uint32((1 << (drop - 1)) - 1) + ((b >> np.uint32(drop)) & np.uint32(1))
    return np.where(np.isfinite(x), (r & ~low).view(np.float32), x)


def tf32(x, how="even"):
    return significand(x, 11, how)


def half(x, kind):
    """x rounded to nearest even to float16 or bfloat16."""
    if kind == "bfloat16":
        return significand(x, 8)
    with np.errstate(over="ignore", invalid="ignore"):
        return f32(x).astype(np.float16).astype(np.float32)


def half_truncated(x, kind):
    """x rounded toward zero to float16 or bfloat16."""
    if kind == "bfloat16":
        return significand(x, 8, "truncate")
    h = half(x, kind)
    over = np.abs(h) > np.abs(f32(x))
    h16 = h.astype(np.float16)
    return np.where(over, np.nextafter(h16, np.float16(0)).astype(np.float32), h)


def toward_zero(x):
    """float64 to float32, toward zero."""
    y = f32(x)
    return np.where(np.abs(y.astype(np.float64)) > np.abs(x), np.nextafter(y, np.float32(0)), y)


def ulp(x, kind):
    """The distance from |x| to the next number of the format (1 at zero's least)."""
    p = BITS[kind]
    low = {"float16": -14, "bfloat16": -126, "tf32": -126, "float32": -126}[kind]
    e = np.maximum(np.frexp(np.where(np.isfinite(x), x, 0).astype(np.float64))[1] - 1, low)
    return np.ldexp(1.0, e - (p - 1))
