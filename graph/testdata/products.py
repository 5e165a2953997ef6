"""Writes products.json: what PyTorch's products and convolutions return in float64, for small
whole numbers, of which every sum is exact, or that they refuse.

    pip install torch==2.9.1
    python products.py

Number i of input k of a row is ((i + 1) (2 k + 7) mod 11) - 5, and results are whole numbers
or multiples of 1/8.
"""
import itertools
import json
import math

import torch
import torch.nn.functional as F

rows = []


def number(shape, k):
    n = math.prod(shape)
    return torch.tensor([(i + 1) * (2 * k + 7) % 11 - 5 for i in range(n)], dtype=torch.float64).reshape(shape)


def row(op, f, shapes, **attributes):
    inputs = [number(s, k) for k, s in enumerate(shapes)]
    try:
        y = f(*inputs, **attributes)
        shape, values = list(y.shape), [int(v) if v == int(v) else v for v in y.flatten().tolist()]
    except (RuntimeError, ValueError, IndexError) as e:
        shape, values = None, str(e).splitlines()[0][:80]
    rows.append([op, attributes, shapes, shape, values])


shapes = [[], [3], [2, 3], [3, 2], [1, 3], [3, 1], [2, 2, 3], [2, 3, 2], [1, 3, 2], [2, 1, 3, 2], [0, 3], [3, 0], [2, 0, 3]]
for a, b in itertools.product(shapes, repeat=2):
    row("matmul", torch.matmul, [a, b])
for a, b in itertools.product(shapes[2:8], repeat=2):
    row("mm", torch.mm, [a, b])
    row("bmm", torch.bmm, [a, b])
row("bmm", torch.bmm, [[1, 2, 3], [2, 3, 2]])
for x, w, *bias in [([4, 3], [2, 3], [2]), ([4, 3], [2, 3]), ([3], [2, 3], [2]), ([3], [2, 3]), ([2, 2, 3], [5, 3], [5]),
                    ([2, 1, 2, 3], [5, 3], [5]), ([0, 3], [5, 3], [5]), ([2, 0], [5, 0], [5]), ([4, 3], [3, 2]), ([4, 3], [2, 3], [3]),
                    ([2, 3], [0, 3], [0]), ([4, 3], [2, 3, 1])]:
    row("linear", F.linear, [x, w] + bias)
for c in [], [1], [3], [2, 1], [1, 3], [2, 3], [3, 3], [2], [1, 2, 3]:
    for attributes in {}, {"beta": 0.5, "alpha": 2.0}, {"beta": 0.0}, {"beta": -1.0, "alpha": 0.125}:
        row("addmm", torch.addmm, [c, [2, 4], [4, 3]], **attributes)
        row("baddbmm", torch.baddbmm, [c, [2, 2, 4], [2, 4, 3]], **attributes)
row("addmm", torch.addmm, [[3], [2, 0], [0, 3]])
row("baddbmm", torch.baddbmm, [[3], [1, 2, 4], [2, 4, 3]])
for equation, *operands in [
        ("ij,jk->ik", [2, 3], [3, 4]), ("bij,bjk->bik", [2, 2, 3], [2, 3, 2]), ("ii->i", [3, 3]), ("ii", [3, 3]), ("ij->ji", [2, 3]),
        ("ij->", [2, 3]), ("i,j->ij", [2], [3]), ("i,i", [3], [3]), ("...ij,...jk->...ik", [2, 1, 2, 3], [4, 3, 2]),
        ("bhqd,bhkd->bhqk", [1, 2, 2, 3], [1, 2, 4, 3]), ("nchw,oc->nohw", [1, 2, 2, 2], [3, 2]), ("ijk,kl->ijl", [2, 1, 3], [3, 2]),
        ("ij,jk,kl->il", [2, 3], [3, 2], [2, 2]), ("ij,jk,kl", [2, 3], [3, 2], [2, 2]), ("i,ij,j->", [2], [2, 3], [3]),
        ("ij,kl->il", [2, 3], [2, 2]), ("ji,jk", [2, 3], [2, 2]), ("b...,...->b...", [2, 3], [3]), ("ij,ij->ij", [2, 3], [2, 3]),
        ("ij,jk->ikj", [2, 3], [3, 2]), ("ij,jk->ik", [2, 3], [4, 2]), ("ij->ik", [2, 3]), ("ij->iij", [2, 3]), ("i", [2, 3]), ("ij", [2]),
        ("i1->i", [2, 3]), ("ij,jk->ik", [2, 3]), ("...->...", [2, 3]), ("ij,jk->ik", [0, 3], [3, 2]), ("ij,jk->ik", [2, 0], [0, 2]),
        ("BIj,Bjk->BIk", [1, 2, 3], [1, 3, 2]), ("abc,cd,bde->ae", [2, 2, 3], [3, 2], [2, 2, 2]), ("iji->j", [2, 3, 2])]:
    row("einsum", lambda *t, equation: torch.einsum(equation, *t), operands, equation=equation)


def convolved(x, w, b, n, transposed, padding_mode="zeros", padding=0, **attributes):
    """What a module with those weights returns."""
    groups = attributes.get("groups", 1)
    ic, oc = (w.shape[0], w.shape[1] * groups) if transposed else (w.shape[1] * groups, w.shape[0])
    kind = getattr(torch.nn, f"Conv{'Transpose' if transposed else ''}{n}d")
    module = kind(ic, oc, tuple(w.shape[2:]), bias=b is not None, dtype=torch.float64, padding=padding, padding_mode=padding_mode, **attributes)
    with torch.no_grad():
        module.weight.copy_(w)
        if b is not None:
            module.bias.copy_(b)
        return module(x)


sides = [[7], [4, 5], [3, 3, 4]]
for n in 1, 2, 3:
    side = sides[n - 1]
    three, two = [3] * n, [2, 3, 1][:n]
    for k, attributes in [
            (three, {}), (three, {"stride": 2, "padding": 1}), (two, {"stride": [2, 1, 3][:n], "padding": [1, 0, 2][:n]}),
            (two, {"dilation": 2, "padding": [1, 2, 0][:n]}), (three, {"padding": "same"}), (two, {"padding": "same", "dilation": [1, 2, 3][:n]}),
            (two, {"padding": "valid", "stride": 3}), (three, {"padding": 2, "padding_mode": "circular"}),
            (three, {"padding": [1, 2, 1][:n], "padding_mode": "reflect", "stride": 2}), (two, {"padding": 3, "padding_mode": "replicate"}),
            (three, {"padding": "same", "padding_mode": "circular"}), (two, {"padding": 4, "stride": 2}), (three, {"groups": 2, "padding": 1}),
            ([9] * n, {}), (three, {"padding": 9, "padding_mode": "circular"}), (three, {"padding": "same", "stride": 2})]:
        groups = attributes.get("groups", 1)
        for bias in [], [[2]]:
            if bias and attributes.get("padding_mode"):
                continue
            row(f"conv{n}d", lambda x, w, b=None, **a: convolved(x, w, b, n, False, **a), [[1, 2] + side, [2, 2 // groups] + k] + bias, **attributes)
    for k, attributes in [
            (three, {}), (three, {"stride": 2, "padding": 1}), (two, {"stride": [2, 1, 3][:n], "padding": [1, 0, 2][:n]}),
            (two, {"dilation": 2, "padding": [1, 2, 0][:n]}), (two, {"stride": 3, "output_padding": [2, 1, 0][:n]}),
            (three, {"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}), (two, {"stride": 2, "output_padding": 2}),
            ([1] * n, {"padding": 4}), (two, {"stride": 3, "padding": [0, 1, 2][:n]})]:
        row(f"conv_transpose{n}d", lambda x, w, b=None, **a: convolved(x, w, b, n, True, **a), [[1, 2] + side, [2, 2] + k] + [[2 * attributes.get("groups", 1)]], **attributes)
    for x in [3] * (n + 1), [1, 3] + side:
        row(f"conv{n}d", lambda x, w, b=None, **a: convolved(x, w, b, n, False, **a), [x, [4, 2] + three])
json.dump(rows, open("products.json", "w"), separators=(",", ":"))
print(len(rows), sum(r[3] is None for r in rows))
