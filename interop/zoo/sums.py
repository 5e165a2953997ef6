"""Convolution sums in float32, each in an order that is written out.

x is [K,P], a column per pixel; w is [O,K]. Every function returns the [O,P]
sums of w[o,k] x[k,p] as a float32 device would form them that adds in this order.
Loops run over k and numpy over pixels, so each float32 operation is one of numpy's.
"""

import numpy as np

from formats import f32, toward_zero


def columns(x, k, pad="zeros"):
    """[N,C,H,W] to [C k k, N H W], the windows of a convolution of same size."""
    n, c, h, w = x.shape
    r = k // 2
    mode = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}[pad]
    p = np.pad(x, ((0, 0), (0, 0), (r, r), (r, r)), mode=mode)
    return windows(p, k, h, w)


def windows(padded, k, h, w):
    n, c = padded.shape[:2]
    v = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(2, 3))[:, :, :h, :w]
    return np.ascontiguousarray(v.transpose(1, 4, 5, 0, 2, 3)).reshape(c * k * k, n * h * w)


def sequential(x, w, fma=False, start=None):
    """One addition after another, in the order of k. Products round, or fuse.

    The fused sum is formed in float64 and rounded; that this rounds twice is
    seen once in 2^29 operations and stays within an ulp.
    """
    acc = np.zeros((w.shape[0], x.shape[1]), np.float32) if start is None else start.copy()
    if fma:
        x, w = x.astype(np.float64), w.astype(np.float64)
        for k in range(len(x)):
            acc = f32(w[:, k, None] * x[k] + acc)
        return acc
    product = np.empty_like(acc)
    for k in range(len(x)):
        np.multiply(w[:, k, None], x[k], out=product)
        acc += product
    return acc


def reverse(x, w):
    return sequential(x[::-1], w[:, ::-1])


def pairwise(x, w, leaf=8):
    """A tree over leaves of 8 terms."""
    if len(x) <= leaf:
        return sequential(x, w)
    m = (len(x) // leaf + 1) // 2 * leaf
    return pairwise(x[:m], w[:, :m], leaf) + pairwise(x[m:], w[:, m:], leaf)


def split(x, w, parts, store=None):
    """Split-K: partial sums (stored by store, if given), then their sum."""
    edges = np.linspace(0, len(x), parts + 1).astype(int)
    total = None
    for lo, hi in zip(edges, edges[1:]):
        if lo == hi:
            continue
        part = sequential(x[lo:hi], w[:, lo:hi])
        part = store(part) if store else part
        total = part if total is None else total + part
    return total


def blocked(x, w, size=16, to=f32):
    """Tensor-core-like: exact sums of size products and the accumulator, rounded once each."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    acc = np.zeros((w.shape[0], x.shape[1]), np.float32)
    for k in range(0, len(x), size):
        acc = to(w[:, k:k + size] @ x[k:k + size] + acc)
    return acc


def truncated(x, w, size=8):
    """As blocked, toward zero: at most twice the error of rounding."""
    return blocked(x, w, size, toward_zero)


def kahan(x, w):
    acc = np.zeros((w.shape[0], x.shape[1]), np.float32)
    lost = np.zeros_like(acc)
    for k in range(len(x)):
        y = w[:, k, None] * x[k] - lost
        t = acc + y
        lost = (t - acc) - y
        acc = t
    return acc


def wide(x, w):
    """Summed in float64, rounded once."""
    return f32(w.astype(np.float64) @ x.astype(np.float64))


def narrow(x, w, to, size=1):
    """An accumulator that is rounded by `to` after every block: a fault."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    acc = np.zeros((w.shape[0], x.shape[1]), np.float32)
    for k in range(0, len(x), size):
        acc = to(f32(w[:, k:k + size] @ x[k:k + size] + acc))
    return acc


def channels_last(k2, w):
    """The order of terms of a loop over (kh, kw, c) for columns in (c, kh, kw)."""
    return np.arange(w.shape[1]).reshape(-1, k2).T.ravel()


# Winograd's minimal filtering F(m x m, 3 x 3): B^T, G, A^T.
F2 = (np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64),
      np.array([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]], np.float64),
      np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64))
F4 = (np.array([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
                [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]], np.float64),
      np.array([[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
                [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]], np.float64),
      np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], np.float64))


def apply(m, a, axis):
    """m along an axis of a, in float32: one product and one addition after another."""
    a = np.moveaxis(a, axis, 0)
    out = []
    for row in m:
        acc = None
        for c, v in zip(row, a):
            if c:
                term = np.float32(c) * v
                acc = term if acc is None else acc + term
        out.append(acc)
    return np.moveaxis(np.stack(out), 0, axis)


def winograd(x, w, form, store=lambda v: v):
    """A 3x3 convolution with zeros around, x [N,C,H,W], w [O,C,3,3]; returns [N,O,H,W].

    All in float32; store rounds what is kept between the transforms.
    """
    bt, g, at = form
    m, n = at.shape
    b, c, h, wd = x.shape
    th, tw = -(-h // m), -(-wd // m)
    p = np.pad(x, ((0, 0), (0, 0), (1, 1 + th * m - h), (1, 1 + tw * m - wd)))
    d = np.lib.stride_tricks.sliding_window_view(p, (n, n), axis=(2, 3))[:, :, ::m, ::m]
    z = store(apply(bt, apply(bt, d, 4), 5))                     # [N,C,th,tw,n,n]
    u = store(apply(g, apply(g, w, 2), 3))                       # [O,C,n,n]
    z = z.transpose(1, 4, 5, 0, 2, 3).reshape(c, n * n, -1)      # [C,n n,tiles]
    acc = np.zeros((w.shape[0], n * n, z.shape[2]), np.float32)
    for k in range(c):
        acc += u[:, k].reshape(-1, n * n, 1) * z[k]
    y = store(acc).reshape(-1, n, n, b, th, tw)
    y = apply(at, apply(at, y, 1), 2)                            # [O,m,m,N,th,tw]
    return y.transpose(3, 0, 4, 1, 5, 2).reshape(b, -1, th * m, tw * m)[:, :, :h, :wd]
