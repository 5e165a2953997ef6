"""Gradients of single kernels, right and wrong, judged by refrun: `kernels.py` of the backward pass.

    python interop/zoo/gradients.py --right 600 --wrong 600 --seed 1 --results FILE [--only OPERATION ...] [--compiled]

23 operations in float32, float16 and bfloat16. Right gradients are those of PyTorch's autograd on this CPU, of
torch.compile's (--compiled: it takes a minute for each operation), and of kernels written here in float32 as
libraries of kernels have them: Liger's norms, swiglu, geglu and cross entropy, FlashAttention's backward pass from lse and
delta, closed forms of activations, sums in eight orders. What is between may be stored in the half type, as in such
kernels. Wrong ones are the latter with a fault of their own, or one of those that any gradient can have. They count if
their mean square error to float64 is at least twice that of the right kernel. Sums that are kept in a half type are faults,
and PyTorch's own gradients that keep them so (of embeddings, and of weights of layer norms and convolutions) are judged
as `accumulate` says.

A gradient is drawn by its number and the seed, and FILE keeps its result: the same call goes on where one was stopped.
"""

import argparse
import collections
import json
import math
import os
import sys

import kernels
import refrun
import torch
import torch.nn.functional as F
from kernels import GENERAL, ORDERS, Draw, damaged

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SUMS = ["sum in bfloat16", "last term lost", "tail not summed", "last term twice"]


class Kernel(kernels.Kernel):
    """How a backward kernel computes: as a kernel does, and what it stores in a half type between."""

    def __init__(self, stored=(), dtype=torch.float32, **rest):
        super().__init__(**rest)
        self.stored, self.dtype = stored, dtype

    def store(self, name, x):
        if self.has(f"{name} in bfloat16"):
            return kernels.half(x)
        return x.to(self.dtype).to(x.dtype) if name in self.stored else x

    def rows(self, x):
        """The sum over all but the last axis."""
        return self.sum(x.reshape(-1, x.shape[-1]).T, -1)[:, 0]


def softmax(k, x, d):
    p = k.store("output", torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True))
    s = k.sum(p * d, -1)
    if k.has("sum not subtracted"):
        return [p * d]
    return [d - s if k.has("no p") else p * (d - (2 * s if k.has("sum twice") else s))]


def log_softmax(k, x, d):
    y = k.store("output", torch.log_softmax(x, -1))
    s = k.sum(d, -1)
    return [d - (y if k.has("no exp") else torch.exp(y)) * (1 if k.has("sum of 1") else s)]


def cross_entropy(k, x, target, d):
    p, n = torch.softmax(x, -1), (target != -100).sum()
    n = 1 if k.has("mean forgotten") else len(target) if k.has("ignored targets counted") else n
    hot = F.one_hot(target.clamp(0), x.shape[-1]).to(x.dtype)
    g = p if k.has("target forgotten") else p + hot if k.has("other sign") else p - hot
    if not k.has("ignored targets have gradients"):
        g = g * (target != -100)[:, None]
    return [g * (d / n), None]


def norm(k, x, d, w, eps, mean=True):
    """x's gradient and the normalized numbers, over the last axis."""
    n = x.shape[-1]
    m = k.sum(x, -1) / n if mean else 0
    v = k.sum((x - m) ** 2, -1) / (n - 1 if k.has("n-1") else n)
    r = 1 / torch.sqrt(v + (0 if k.has("no eps") else 1e-3 if k.has("eps 1e-3") else eps))
    h = k.store("normalized", (x - m) * r)
    g = d if k.has("no weight") else d * w
    c1, c2 = k.sum(g * h, -1) / n, k.sum(g, -1) / n
    if k.has("variance detached"):
        c1 = 0 * c1
    if k.has("mean detached") or not mean:
        c2 = 0 * c2
    if k.has("projection without 1/n"):
        c1 = c1 * n
    return (g - (h * c1 + c2)) * (1 if k.has("no rstd") else r * r if k.has("rstd twice") else r), h


def by_weight(k, d, h, rows):
    if k.has("last rows lost"):
        d, h = d[:-3], h[:-3]
    if k.has("first sample alone"):
        d, h = d[: max(1, len(d) // 3)], h[: max(1, len(h) // 3)]
    dw, db = rows(d if k.has("weight not normalized") else d * h), rows(d)
    return [dw / len(d), db / len(d)] if k.has("mean for sum") else [dw, db]


def layer_norm(k, x, w, b, d, eps=1e-5):
    dx, h = norm(k, x, d, w, eps)
    return [dx, *by_weight(k, d, h, k.rows)]


def rms_norm(k, x, w, d, eps=1e-6):
    dx, h = norm(k, x, d, w, eps, mean=k.has("mean subtracted"))
    return [dx, by_weight(k, d, h, k.rows)[0]]


def group_norm(k, x, w, b, d, groups=2, eps=1e-5):
    shape, c = x.shape, x.shape[1]
    flat = lambda t: t.reshape(shape[0], groups, -1)
    dx, h = norm(k, flat(x), flat(d), flat(w.reshape(1, -1, 1, 1).expand(shape)), eps)
    last = lambda t: t.reshape(shape).movedim(1, -1)
    return [dx.reshape(shape), *by_weight(k, last(d), last(h), k.rows)]


def batch_norm(k, x, w, b, d, eps=1e-5):
    shape = x.shape
    flat = lambda t: t.movedim(1, 0).reshape(shape[1], -1)
    dx, h = norm(k, flat(x), flat(d), w[:, None], eps)
    back = lambda t: t.reshape(shape[1], shape[0], *shape[2:]).movedim(0, 1)
    return [back(dx), *by_weight(k, flat(d).T, h.T, k.rows)]


def slope(k, x, kind):
    """An activation's derivative in closed form."""
    kind = {"gelu": "gelu_tanh", "gelu_tanh": "gelu"}.get(kind, kind) if k.has("the other form") else kind
    if kind == "gelu":
        p, density = 0.5 * (1 + torch.erf(x / math.sqrt(2))), torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return p if k.has("x detached") else p + x * density
    if kind == "gelu_tanh":
        c, z = 0.044715, math.sqrt(2 / math.pi)
        t = torch.tanh(z * (x + c * x * x * x))
        inner = z * (1 + (c if k.has("3 forgotten") else 3 * c) * x * x)
        return 0.5 * (1 + t) + (0 if k.has("x detached") else 0.5 * x * (1 - t * t) * inner)
    s = torch.sigmoid(x)
    return s if k.has("x detached") else s * (1 + x * (1 - s)) if not k.has("1 forgotten") else s * x * (1 - s)


def activation(kind):
    return lambda k, x, d: [d * slope(k, k.store("input", x), kind)]


def gate(kind):
    def own(k, a, b, d):
        y = F.silu(a) if kind == "silu" else F.gelu(a)
        da = k.store("product", d * b) * slope(k, a, kind)
        da, db = d * slope(k, a, kind) if k.has("up forgotten") else da, d * k.store("gate", y)
        return [db, da] if k.has("exchanged") else [da, d * a if k.has("not activated") else db]

    return own


def sigmoid(k, x, d):
    y = k.store("output", torch.sigmoid(x))
    return [d * y if k.has("1-y forgotten") else d * y * y if k.has("y squared") else d * y * (1 - y)]


def tanh(k, x, d):
    y = k.store("output", torch.tanh(x))
    return [d * (1 - y) if k.has("not squared") else d * y * (1 - y) if k.has("a sigmoid's") else d * (1 - y * y)]


def linear(k, x, w, b, d):
    db = k.rows(d[:-1] if k.has("last rows lost") else d)
    dw = k.product(d.T, x)
    return [k.product(d, w if not k.has("weight transposed") or w.shape[0] != w.shape[1] else w.T), dw / len(d) if k.has("mean for sum") else dw, db]


def matmul(k, a, b, d):
    return [k.product(d, b.T), k.product(a.T, d)]


def conv2d(k, x, w, d, padding=1):
    at = w if not k.has("kernel not turned") else w.flip(2, 3)
    dx = F.conv_transpose2d(d, at, padding=padding)
    if k.has("last sample lost"):
        x, d = x[:-1], d[:-1]
    dw = torch.nn.grad.conv2d_weight(x, w.shape, d, padding=padding)
    if k.has("a tap lost"):
        dw[..., -1, -1] = 0
    return [dx, dw / len(x) if k.has("mean for sum") else dw]


def attention(causal):
    def own(k, q, key, v, d):
        t, scale = q.shape[-2], q.shape[-1] ** -0.5
        s = q @ key.mT * {"no scale": 1, "scale twice": scale**2}.get(k.fault, scale)
        if causal and not k.has("no mask"):
            s = s.masked_fill(~torch.ones(t, t).tril({"mask one too far": 1, "mask one too short": -1}.get(k.fault, 0)).bool(), -math.inf)
        if k.has("last keys lost"):
            s[..., -3:] = -math.inf
        lse = torch.logsumexp(s, -1, keepdim=True)
        p = torch.nan_to_num(torch.exp(s - lse))
        out = k.store("output", p @ v)
        dp = d @ v.mT
        delta = k.store("delta", (d * out).sum(-1, keepdim=True))
        if k.has("delta of P alone"):
            delta = (p * d.mean()).sum(-1, keepdim=True)
        if k.has("delta forgotten"):
            delta = 0 * delta
        ds = dp - delta if k.has("P forgotten") else p * (dp - delta)
        ds = k.store("dS", ds * scale)
        if k.has("dQ not scaled"):
            return [ds @ key / scale, ds.mT @ q, k.store("P", p).mT @ d]
        return [ds @ key, ds.mT @ q, k.store("P", p).mT @ (2 * d if k.has("dV twice") else d)]

    return own


def embedding(k, w, i, d):
    out = torch.zeros_like(w)
    i, d = i.flatten(), d.reshape(-1, w.shape[1])
    if k.has("last one stays"):
        out[i] = d
    elif k.has("sums in the half type") or k.has("sum in bfloat16"):
        to = k.dtype if k.dtype != torch.float32 else torch.bfloat16
        out = torch.ops.aten.embedding_dense_backward(d.to(to), i, len(w), -1, False).to(w.dtype)  # which rounds each sum
    elif k.has("mean for sum"):
        out.index_add_(0, i, d)
        out = out / torch.bincount(i, minlength=len(w)).clamp(1)[:, None]
    else:
        n = len(i) - (7 if k.has("last ones lost") else 0)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
        out.index_add_(0, i[order], d[order])
        if k.has("padding_idx taken"):
            out[0] = 0
    return [out, None]


def dropout(k, x, mask, d, p=0.25):
    by = 1 if k.has("no scale") else (1 - p) if k.has("scale turned") else 1 / (1 - p) ** (2 if k.has("scale twice") else 1)
    return [d * by if k.has("no mask") else d * mask * by, None]


def rope(k, x, cos, sin, d):
    b, a = d.chunk(2, -1)
    ss = d * sin
    first, second = ss.chunk(2, -1)
    turned = torch.cat([second, -first], -1)
    if k.has("turned the same way"):
        turned = -turned
    return [d * cos + (0 if k.has("sin forgotten") else turned)]


def max_pool2d(k, x, d):
    y, at = F.max_pool2d(x, 2, return_indices=True)
    flat = torch.zeros(*x.shape[:2], x.shape[2] * x.shape[3], dtype=x.dtype)
    if k.has("a mean's"):
        return [F.interpolate(d, scale_factor=2.0) / 4]
    if k.has("to all"):
        return [F.interpolate(d, scale_factor=2.0)]
    return [flat.scatter_add(2, at.flatten(2), d.flatten(2)).reshape(x.shape)]


def case(d, which, dt):
    """An operation: refrun's name, its inputs, attributes, PyTorch's function, the kernel written here, what it may store, and its faults."""
    r, rows, cols = d.r, d.r.randint(10, 40), d.r.randint(18, 120)
    x = d.normal(rows, cols, dtype=dt, scale=r.choice([0.5, 1.0, 3.0]), shift=r.choice([0, 0, 1.0]))
    w, b = d.normal(cols, dtype=dt, shift=1), d.normal(cols, dtype=dt)
    image = d.normal(r.randint(2, 5), 6, r.randint(3, 8), r.randint(3, 8), dtype=dt)
    c, e = d.normal(6, dtype=dt, shift=1), d.normal(6, dtype=dt)
    norms = ["variance detached", "mean detached", "projection without 1/n", "no weight", "no rstd", "rstd twice", "n-1", "no eps", "eps 1e-3", "last rows lost", "first sample alone",
             "mean for sum", "weight not normalized", "normalized in bfloat16", *SUMS]
    if which == "softmax":
        return which, [x], {"dim": -1}, lambda x: F.softmax(x, -1), softmax, ["output"], ["sum not subtracted", "no p", "sum twice", "output in bfloat16", *SUMS]
    if which == "log_softmax":
        return which, [x], {"dim": -1}, lambda x: F.log_softmax(x, -1), log_softmax, ["output"], ["no exp", "sum of 1", "output in bfloat16", *SUMS]
    if which == "cross_entropy":
        target = torch.randint(0, cols, (rows,), generator=d.g).masked_fill(torch.rand(rows, generator=d.g) < 0.2, -100)
        return which, [x, target], {"reduction": "mean"}, F.cross_entropy, cross_entropy, [], ["mean forgotten", "ignored targets counted", "target forgotten", "other sign", "ignored targets have gradients"]
    if which == "layer_norm":
        return which, [x, w, b], {"normalized_shape": [cols], "eps": 1e-5}, lambda x, w, b: F.layer_norm(x, [cols], w, b), layer_norm, ["normalized"], norms
    if which == "rms_norm":
        mine = [f for f in norms if f not in ("mean detached", "n-1")] + ["mean subtracted"]
        return which, [x, w], {"normalized_shape": [cols], "eps": 1e-6}, lambda x, w: F.rms_norm(x, [cols], w, 1e-6), rms_norm, ["normalized"], mine
    if which == "group_norm":
        return which, [image, c, e], {"num_groups": 2, "eps": 1e-5}, lambda x, w, b: F.group_norm(x, 2, w, b), group_norm, ["normalized"], norms
    if which == "batch_norm":
        return which, [image, c, e], {"training": True, "eps": 1e-5}, lambda x, w, b: F.batch_norm(x, None, None, w, b, True), batch_norm, ["normalized"], norms
    if which in ("gelu", "gelu_tanh", "silu"):
        torchs = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}[which]
        faults = {"gelu": ["the other form"], "gelu_tanh": ["the other form", "3 forgotten"], "silu": ["1 forgotten"]}[which]
        return which.split("_")[0], [x], {"approximate": "tanh"} if which == "gelu_tanh" else {}, torchs, activation(which), [], ["x detached", "input in bfloat16", *faults]
    if which in ("swiglu", "geglu"):
        kind, f = ("silu", F.silu) if which == "swiglu" else ("gelu", F.gelu)
        return which, [x, d.normal(rows, cols, dtype=dt)], {}, lambda a, b: f(a) * b, gate(kind), ["product", "gate"], ["up forgotten", "exchanged", "not activated", "x detached", "gate in bfloat16"]
    if which == "sigmoid":
        return which, [x], {}, torch.sigmoid, sigmoid, ["output"], ["1-y forgotten", "y squared", "output in bfloat16"]
    if which == "tanh":
        return which, [x], {}, torch.tanh, tanh, ["output"], ["not squared", "a sigmoid's", "output in bfloat16"]
    if which == "linear":
        out = r.randint(8, 40)
        faults = ["last rows lost", "mean for sum", "sums in float16", "TF32 operands", *SUMS]
        return which, [x, d.normal(out, cols, dtype=dt), d.normal(out, dtype=dt)], {}, F.linear, linear, [], faults
    if which == "matmul":
        return which, [x, d.normal(cols, r.randint(8, 40), dtype=dt)], {}, torch.matmul, matmul, [], ["sums in float16", "TF32 operands", "half split in bfloat16", *SUMS]
    if which == "conv2d":
        w = d.normal(5, 6, 3, 3, dtype=dt, scale=0.3)
        return which, [image, w], {"padding": 1}, lambda x, w: F.conv2d(x, w, padding=1), conv2d, [], ["kernel not turned", "last sample lost", "a tap lost", "mean for sum"]
    if which in ("attention", "causal"):
        t, e = r.randint(8, 32), r.choice([8, 16, 32])
        q = [d.normal(2, 2, t, e, dtype=dt) for _ in range(3)]
        masks = ["no mask", "mask one too far", "mask one too short"] if which == "causal" else []
        return ("scaled_dot_product_attention", q, {"is_causal": True} if which == "causal" else {}, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=which == "causal"), attention(which == "causal"),
                ["output", "dS", "P"], ["no scale", "scale twice", "delta forgotten", "delta of P alone", "P forgotten", "dQ not scaled", "dV twice", "last keys lost", "dS in bfloat16", "P in bfloat16", *masks])
    if which == "embedding":
        v, n = r.randint(10, 60), r.choice([60, 200, 600])
        weights = 1 / torch.arange(1, v + 1.0) if r.random() < 0.5 else torch.ones(v)  # Zipf's, or all alike
        i = torch.multinomial(weights, n, True, generator=d.g)
        return which, [d.normal(v, 16, dtype=dt), i], {}, lambda w, i: F.embedding(i, w), embedding, [], ["sums in the half type", "last one stays", "mean for sum", "last ones lost", "padding_idx taken"]
    if which == "dropout":
        mask = (torch.rand(rows, cols, generator=d.g) > 0.25).long()
        return which, [x, mask], {"p": 0.25}, None, dropout, [], ["no scale", "scale turned", "scale twice", "no mask"]
    if which == "rope":
        a = torch.randn(rows, 16, generator=d.g)
        ins = [d.normal(2, rows, 16, dtype=dt), a.cos().to(dt), a.sin().to(dt)]
        turn = lambda x: torch.cat([-x[..., 8:], x[..., :8]], -1)
        return "rotary_embedding", ins, {}, lambda x, c, s: x * c + turn(x) * s, rope, [], ["turned the same way", "sin forgotten"]
    even = d.normal(2, 3, 2 * r.randint(3, 6), 2 * r.randint(3, 6), dtype=dt)
    return "max_pool2d", [even], {"kernel_size": 2}, lambda x: F.max_pool2d(x, 2), max_pool2d, [], ["a mean's", "to all"]


OPS = ["softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm", "group_norm", "batch_norm", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "sigmoid", "tanh", "linear", "matmul", "conv2d",
       "attention", "causal", "embedding", "dropout", "rope", "max_pool2d"]
# The gradients that PyTorch on a CPU adds up in the half type, by operation.
NARROW = {"embedding": [0], "layer_norm": [1, 2], "conv2d": [1]}


def wide(ins, to):
    return [t.to(to) if t.is_floating_point() else t for t in ins]


def autograd(f, ins, d):
    given = [t.clone().requires_grad_(t.is_floating_point()) for t in ins]
    asked = [t for t in given if t.requires_grad]
    found = iter(torch.autograd.grad(f(*given), asked, d, allow_unused=True))
    return [next(found) if t.requires_grad else None for t in given]


def drawn(d, which, name):
    op, ins, attrs, torchs, own, stored, faults = case(d, which, DTYPES[name])
    y = (torchs or (lambda x, m: x))(*ins)
    grad = (torch.randn(y.shape, generator=d.g) * d.r.choice([0.01, 1.0, 1.0])).to(DTYPES[name])
    truth = own(Kernel(dtype=torch.float64), *wide(ins, torch.float64), grad.double())
    return op, ins, attrs, torchs, own, stored, faults, grad, truth


def right(d, which, name, compiled):
    """The gradients of a right kernel, and what is said of it."""
    op, ins, attrs, torchs, own, stored, _, grad, truth = drawn(d, which, name)
    accumulate = []
    way = "formula"
    if torchs and d.r.random() < 0.5:
        way = "compiled" if compiled else "autograd"
        grads = autograd(torch.compile(torchs, dynamic=False) if compiled else torchs, ins, grad)
        if name != "float32" and not compiled:
            accumulate = NARROW.get(which, [])
    else:
        k = Kernel([s for s in stored if d.r.random() < 0.5], DTYPES[name], order=d.r.choice(ORDERS))
        grads = own(k, *wide(ins, torch.float32), grad.float())
    grads = [g if g is None else g.to(DTYPES[name]) for g in grads] + [None] * (len(ins) - len(grads))
    return op, ins, attrs, grad, grads, truth, accumulate, way


def wrong(d, which, name):
    """Those of a wrong one: what it is, its fault, and whether it is worse than the right one."""
    op, ins, attrs, _, own, stored, faults, grad, truth = drawn(d, which, name)
    dt, single = DTYPES[name], wide(ins, torch.float32)
    good = own(Kernel(dtype=dt), *single, grad.float())
    fault = d.r.choice(GENERAL) if d.r.random() < 0.35 else d.r.choice(faults)
    if fault.removesuffix(" in bfloat16") in stored and name == "bfloat16":
        return None  # right kernels store it
    if fault in GENERAL and fault != "input in bfloat16":
        at = d.r.choice([i for i, g in enumerate(good) if g is not None])
        out = [damaged(d, g, fault, g, dt, single[0]) if i == at else g for i, g in enumerate(good)]
        if out[at] is None:
            return None
    else:
        out = own(Kernel(dtype=dt, fault=fault), *([kernels.half(t) if fault == "input in bfloat16" and i == 0 and t.is_floating_point() else t for i, t in enumerate(single)]), grad.float())
    to = lambda all: [g if g is None else g.to(dt) for g in all]
    out, good = to(out), to(good)
    worse = False
    for y, g, t in zip(out, good, truth):
        if y is not None:
            error = lambda a: (a.double() - t).pow(2).mean().item()
            worse = worse or not error(y) <= 2 * error(g)
    return (op, ins, attrs, grad, out + [None] * (len(ins) - len(out)), truth, [], fault) if worse else None


def judged(seed, kind, number, ops, compiled):
    d = Draw(seed * 1_000_000 + (500_000 if kind == "wrong" else 0) + number)
    made = None
    while made is None:
        which, name = d.r.choice(ops), d.r.choice(list(DTYPES))
        made = right(d, which, name, compiled) if kind == "right" else wrong(d, which, name)
    op, ins, attrs, grad, grads, _, accumulate, what = made
    names = {"swiglu": ["gate", "up"], "geglu": ["gate", "up"]}.get(op)
    rows = []
    for narrow in (False, True):
        asked = [g if (i in accumulate) == narrow else None for i, g in enumerate(grads)]
        if any(g is not None for g in asked):
            r = refrun.check_grad(op, ins, grad, asked, **({"accumulate": name} if narrow else {}), **attrs)
            rows.append(r)
    verdicts = [r.verdict for r in rows]
    verdict = "FAIL" if "FAIL" in verdicts else "NO-POWER" if "NO-POWER" in verdicts else "PASS"
    return {"kind": kind, "number": number, "operation": which, "format": name, "what": what, "verdict": verdict, "reason": "; ".join(r.reason for r in rows if r.reason), "named": "; ".join(r.diagnosis for r in rows if r.diagnosis),
            "inputs": [list(t.shape) for t in ins], "text": "" if (verdict == "FAIL") == (kind == "wrong") else "\n".join(r.text for r in rows)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--right", type=int, default=200)
    p.add_argument("--wrong", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", default=[], help="these operations alone, by the names of this program")
    p.add_argument("--compiled", action="store_true", help="gradients of torch.compile in place of autograd's")
    p.add_argument("--names", action="store_true", help="print the name that refrun gives each fault")
    p.add_argument("--results", help="a file to keep each result in, a line of JSON each; those that are in it are not judged again")
    a = p.parse_args()
    torch.set_num_threads(1)
    done = {}
    if a.results and os.path.exists(a.results):
        done = {(r["kind"], r["number"]): r for r in map(json.loads, open(a.results))}
    file, all = open(a.results, "a") if a.results else None, []
    try:
        for kind, number in [("right", i) for i in range(a.right)] + [("wrong", i) for i in range(a.wrong)]:
            r = done.get((kind, number))
            if r is None:
                r = judged(a.seed, kind, number, a.only or OPS, a.compiled)
                if file:
                    print(json.dumps(r), file=file, flush=True)
            all.append(r)
            if r["verdict"] == ("FAIL" if kind == "right" else "PASS"):
                print("refused:" if kind == "right" else "let pass:", json.dumps({k: v for k, v in r.items() if k != "text"}), r["text"], sep="\n", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped: what was counted so far", file=sys.stderr)
    count = collections.Counter((r["kind"], r["verdict"]) for r in all)
    total = collections.Counter(r["kind"] for r in all)
    print(f"{len({r['operation'] for r in all})} operations, {len({(r['operation'], r['format']) for r in all})} with their formats")
    print(f"right: {count['right', 'FAIL']} of {total['right']} failed, {count['right', 'NO-POWER']} NO-POWER")
    print(f"wrong: {count['wrong', 'PASS']} of {total['wrong']} passed, {count['wrong', 'NO-POWER']} NO-POWER; {sum(bool(r['named']) for r in all if r['kind'] == 'wrong' and r['verdict'] == 'FAIL')} have a name")
    if a.names:
        names = collections.Counter((f"{r['operation']}: {r['what']}", r["verdict"], r["named"] or "-") for r in all if r["kind"] == "wrong")
        for (fault, verdict, name), n in sorted(names.items()):
            print(f"{n:5}  {fault:45} {verdict:9} {name}")


if __name__ == "__main__":
    main()
