"""Kinds of input: what a function is asked at. Each makes numbers of a shape in float32, for the operand of a place."""

from __future__ import annotations

import torch

SHAPES = {"ones": (1, 1), "primes": (13, 23), "long": (3, 1031)}  # of two axes; those of all other kinds are 24 by 40


def some(special):
    """Numbers of which a few are others."""

    def kind(n, k):
        x = n()
        for first, number in enumerate(special):
            x.view(-1)[3 * first + k :: 37 + 2 * first] = number
        return x

    return kind


def mixed(n, k):
    """Large numbers among small ones, and zeros of either sign."""
    x = n() * 1e-3
    x[..., ::7] *= 1e6
    x[..., 1::5] = 0
    x[..., 2::11] = -0.0
    return x


def rows(n, k):
    x = n()
    return x[:1].expand(x.shape).contiguous()


KINDS = {
    "normal": lambda n, k: n(),
    "tenths": lambda n, k: (n() * 8).round().clamp(-20, 20) * (0.1, 0.5, 0.25)[k],
    "wide": lambda n, k: n() * torch.exp(3 * n()),
    "positive": lambda n, k: n().abs() + 0.01,
    "large": lambda n, k: n() * 1e4,
    "small": lambda n, k: n() * 1e-6,
    "subnormal": lambda n, k: n() * 1e-39,
    "integers": lambda n, k: (n() * 100).round(),
    "constant": lambda n, k: torch.full_like(n(), (0.3, -1.7, 2.9)[k]),
    "rows": rows,
    "sorted": lambda n, k: (x := n()).view(-1).sort().values.view(x.shape),
    "mixed": mixed,
    "infinite": some([torch.inf, -torch.inf]),
    "strided": lambda n, k: n().mT.contiguous().mT,
    "offset": lambda n, k: n() + 30,
    **dict.fromkeys(SHAPES, lambda n, k: n()),
}


def draw(kind, generator, shape, place=0):
    return KINDS[kind](lambda: torch.randn(shape, generator=generator), min(place, 2))


def make(kind, count, dtype, seed):
    g = torch.Generator().manual_seed(seed)
    return [draw(kind, g, SHAPES.get(kind, (24, 40)), k).to(dtype) for k in range(count)]
