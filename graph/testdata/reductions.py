"""Writes reductions.json: reductions of PyTorch's of float64 numbers that float16 has, some
of them equal, and of whole numbers. It was run with torch 2.9.1 on a CPU:
python3 reductions.py"""

import json
import math
import os

import torch

torch.manual_seed(11)
inputs = []


def plain(x):
    """Numbers as JSON has them, NaN and infinities as strings."""
    return [v if isinstance(v, int) or math.isfinite(v) else str(v) for v in x.flatten().tolist()]


def case(op, attributes, x, f):
    out = f(x)
    out = list(out) if isinstance(out, tuple) else [out]
    cases.append({
        "op": op, "attributes": attributes,
        "outputs": [{"shape": list(y.shape), "whole": y.dtype in (torch.int64, torch.bool), "data": plain(y.long() if y.dtype == torch.bool else y)} for y in out],
    })


def several(x, axes, floating=True):
    global cases
    cases = []
    inputs.append({"whole": x.dtype == torch.int64, "shape": list(x.shape), "data": plain(x), "cases": cases})
    for dim in axes:
        for keep in (False, True):
            a = {"dim": dim, "keepdim": keep}
            case("sum", a, x, lambda x: x.sum(dim, keepdim=keep))
            case("amax", a, x, lambda x: x.amax(dim, keepdim=keep))
            case("amin", a, x, lambda x: x.amin(dim, keepdim=keep))
            case("any", a, x, lambda x: x.any(dim, keepdim=keep))
            case("all", a, x, lambda x: x.all(dim, keepdim=keep))
            if isinstance(dim, int):
                case("max", a, x, lambda x: tuple(x.max(dim, keepdim=keep)))
                case("min", a, x, lambda x: tuple(x.min(dim, keepdim=keep)))
                case("argmax", a, x, lambda x: x.argmax(dim, keepdim=keep))
                case("argmin", a, x, lambda x: x.argmin(dim, keepdim=keep))
                case("prod", a, x, lambda x: x.prod(dim, keepdim=keep))
            if not floating:
                continue
            case("mean", a, x, lambda x: x.mean(dim, keepdim=keep))
            case("logsumexp", a, x, lambda x: x.logsumexp(dim, keepdim=keep))
            for c in (0, 1, 2):
                case("var", a | {"correction": c}, x, lambda x: x.var(dim, correction=c, keepdim=keep))
                case("std", a | {"correction": c}, x, lambda x: x.std(dim, correction=c, keepdim=keep))
            for p in (0, 1, 2, "inf", "-inf"):
                case("linalg_vector_norm", a | {"ord": p}, x, lambda x: torch.linalg.vector_norm(x, float(p), dim, keepdim=keep))
    for dim in range(-1, max(x.dim(), 1)):
        case("cumsum", {"dim": dim}, x, lambda x: x.cumsum(dim))
        if floating:
            case("softmax", {"dim": dim}, x, lambda x: x.softmax(dim))
            case("log_softmax", {"dim": dim}, x, lambda x: x.log_softmax(dim))
    case("sum", {}, x, lambda x: x.sum())
    case("prod", {}, x, lambda x: x.prod())
    case("max", {}, x, lambda x: x.max())
    case("min", {}, x, lambda x: x.min())
    case("any", {}, x, lambda x: x.any())
    case("all", {}, x, lambda x: x.all())
    if floating:
        case("var", {}, x, lambda x: x.var())
        case("linalg_vector_norm", {}, x, lambda x: torch.linalg.vector_norm(x))


x = (torch.randn(2, 3, 4) * 2).round() / 2
several(x.double(), [0, -2, [0, 2], [-1, 0, 1]])
several((torch.randn(5) * 4).round().double(), [0, [-1]])
several(torch.tensor(1.5, dtype=torch.float64), [0, -1])
several((torch.randn(2, 3) * 3).round().long(), [0, [0, 1]], floating=False)
for special in ([1.0, math.nan, 2.0], [math.inf, 1.0, 1.0], [-math.inf, 1.0, -math.inf], [-math.inf] * 3, [math.inf, -math.inf, 0.0], [2.0, 2.0, 2.0]):
    several(torch.tensor(special, dtype=torch.float64), [0])

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "reductions.json"), "w") as f:
    json.dump(inputs, f, separators=(",", ":"))
    f.write("\n")
