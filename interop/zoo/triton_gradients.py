"""Backward kernels in Triton, under its interpreter on a CPU, right and with faults, judged by refrun.

    python interop/zoo/triton_gradients.py [--seed 1] [--rounds 1] [--only OPERATION ...]

20 operations in float32, float16 and bfloat16, as the tutorials, Liger and FlashAttention have them: rows of a softmax
and of norms, dw and db from partial sums, Liger's cross entropy, which writes the gradient in its forward pass, products
by tiles, attention from lse and delta by blocks of keys and of queries, an embedding with atomic additions. Inputs are
those of gradients.py. A round has a right kernel of each operation and type, one with each fault of its own, and one with
each of those that any kernel can have; these count if their mean square error to float64 is at least twice that of the
right kernel. The interpreter's casts to bfloat16 are wrong: numbers of it are handed over in float32, and what a kernel
stores is rounded by bits.
"""

import argparse
import collections
import os

os.environ["TRITON_INTERPRET"] = "1"
import gradients
import refrun
import torch
import triton
import triton.language as tl
from kernels import Draw


@triton.jit
def bfloat16(x):
    b = x.to(tl.int32, bitcast=True)
    return ((b + 0x7FFF + ((b >> 16) & 1)) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def slope(x, KIND: tl.constexpr, FAULT: tl.constexpr):
    s = tl.sigmoid(x)
    if KIND == "silu":
        return s * (1 + x * (1 - s)) if FAULT == 0 else s * x * (1 - s)
    if KIND == "sigmoid":  # of the output, as tanh
        return x * (1 - x) if FAULT == 0 else x * x
    if KIND == "tanh":
        return 1 - x * x if FAULT == 0 else 1 - x
    if KIND == "gelu":
        p = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
        return p + x * tl.exp(-0.5 * x * x) * 0.3989422804014327 if FAULT == 0 else p
    c = 0.044715 if FAULT == 0 else 0.044
    t = 2 * tl.sigmoid(2 * 0.7978845608028654 * (x + c * x * x * x)) - 1
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * c * x * x)


@triton.jit
def pointwise(dx, x, dy, n, KIND: tl.constexpr, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v, d = tl.load(x + at, at < n, 0.0).to(tl.float32), tl.load(dy + at, at < n, 0.0).to(tl.float32)
    tl.store(dx + at, d * slope(v, KIND, FAULT), at < n)


@triton.jit
def gated(da, db, a, b, dy, n, KIND: tl.constexpr, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, up = tl.load(a + at, at < n, 0.0).to(tl.float32), tl.load(b + at, at < n, 0.0).to(tl.float32)
    d = tl.load(dy + at, at < n, 0.0).to(tl.float32)
    y = x * tl.sigmoid(x) if KIND == "silu" else x * 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(db + at, d * (x if FAULT == 2 else y), at < n)
    tl.store(da + at, d * slope(x, KIND, 0) * (1 if FAULT == 1 else up), at < n)


@triton.jit
def softmax_rows(dx, y, dy, n, LOG: tl.constexpr, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    p = tl.load(y + row * n + at, at < n, 0.0).to(tl.float32)
    d = tl.load(dy + row * n + at, at < n, 0.0).to(tl.float32)
    if LOG:
        g = d - tl.exp(p) * (1.0 if FAULT == 1 else tl.sum(d, 0))
    else:
        s = tl.sum(p * d, 0)
        g = p * d if FAULT == 1 else p * (d - (bfloat16(s) if FAULT == 2 else s))
    tl.store(dx + row * n + at, g, at < n)


@triton.jit
def cross_entropy_rows(dx, x, target, scale, n: tl.constexpr, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, t, highest, total = tl.program_id(0).to(tl.int64), tl.load(target + tl.program_id(0)), -float("inf"), 0.0
    for i in range(0, n, BLOCK):  # the online softmax of Liger's
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, at < n, -float("inf")).to(tl.float32)
        most = tl.maximum(highest, tl.max(v, 0))
        total = total * (1.0 if FAULT == 1 else tl.exp(highest - most)) + tl.sum(tl.exp(v - most), 0)
        highest = most
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, at < n, -float("inf")).to(tl.float32)
        p = tl.exp(v - highest) / total
        g = (p - tl.where(at == t, 0.0 if FAULT == 2 else 1.0, 0.0)) * scale
        tl.store(dx + row * n + at, g if FAULT == 3 else tl.where(t == -100, 0.0, g), at < n)


@triton.jit
def norm_rows(dx, dws, dbs, x, w, dy, mean, rstd, n, each, CENTRED: tl.constexpr, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)  # of a group of `each` numbers for each weight
    v, d = tl.load(x + row * n + at, at < n, 0.0).to(tl.float32), tl.load(dy + row * n + at, at < n, 0.0).to(tl.float32)
    m, r = tl.load(mean + row), tl.load(rstd + row)
    groups = each * 0 + (row % 2) * (n // each) if each > 1 else row * 0
    g = tl.load(w + groups + at // each, at < n, 0.0).to(tl.float32)
    h = tl.where(at < n, (v - m) * r, 0.0)
    wd = tl.where(at < n, d if FAULT == 3 else g * d, 0.0)
    c1 = 0.0 if FAULT == 1 else tl.sum(h * wd, 0) / n
    c2 = tl.sum(wd, 0) / n if CENTRED and FAULT != 2 else 0.0
    if FAULT == 5:
        c1 = bfloat16(c1 + 0.0 * r)
    tl.store(dx + row * n + at, (wd - (h * c1 + c2)) * (r * r if FAULT == 4 else r), at < n)
    tl.store(dws + row * n + at, d * h, at < n)
    tl.store(dbs + row * n + at, d, at < n)


@triton.jit
def product(c, a, b, m, n, k: tl.constexpr, am, ak, bk, bn, FAULT: tl.constexpr, B: tl.constexpr):
    i, j, l = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)
    s = tl.zeros([B, B], tl.float32)
    for at in range(0, k - (k % B if FAULT == 1 else 0), B):
        x = tl.load(a + i[:, None] * am + (at + l)[None, :] * ak, (i[:, None] < m) & ((at + l)[None, :] < k), 0.0)
        y = tl.load(b + (at + l)[:, None] * bk + j[None, :] * bn, ((at + l)[:, None] < k) & (j[None, :] < n), 0.0)
        s += tl.dot(x.to(tl.float32), y.to(tl.float32))
        if FAULT == 2:
            s = bfloat16(s)
    tl.store(c + i[:, None] * n + j[None, :], s, (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def scores(q, k, lse, i, j, t, scale, CAUSAL: tl.constexpr, FAULT: tl.constexpr):
    p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
    seen = (i[:, None] < t) & (j[None, :] < t)
    return tl.where(seen & (i[:, None] + (1 if FAULT == 3 else 0) >= j[None, :]) if CAUSAL else seen, p, 0.0)


@triton.jit
def tile(x, rows, e, t, E: tl.constexpr):
    return tl.load(x + rows[:, None] * E + e[None, :], rows[:, None] < t, 0.0).to(tl.float32)


@triton.jit
def attention_keys(dk, dv, q, k, v, do, lse, delta, t: tl.constexpr, scale, CAUSAL: tl.constexpr, FAULT: tl.constexpr, E: tl.constexpr, B: tl.constexpr):
    first, j, e = tl.program_id(0) * t, tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, E)
    kk, vv = tile(k + first * E, j, e, t, E), tile(v + first * E, j, e, t, E)
    sk, sv = tl.zeros([B, E], tl.float32), tl.zeros([B, E], tl.float32)
    for i0 in range(0, t, B):
        i = i0 + tl.arange(0, B)
        qq, d = tile(q + first * E, i, e, t, E), tile(do + first * E, i, e, t, E)
        p = scores(qq, kk, tl.load(lse + first + i, i < t, 0.0), i, j, t, scale, CAUSAL, FAULT)
        sv += tl.dot(tl.trans(p), d)
        ds = p * (tl.dot(d, tl.trans(vv)) - (0.0 if FAULT == 1 else tl.load(delta + first + i, i < t, 0.0)[:, None])) * scale
        sk += tl.dot(tl.trans(ds), qq)
    tl.store(dk + (first + j)[:, None] * E + e[None, :], sk, j[:, None] < t)
    tl.store(dv + (first + j)[:, None] * E + e[None, :], sv, j[:, None] < t)


@triton.jit
def attention_queries(dq, q, k, v, do, lse, delta, t: tl.constexpr, scale, CAUSAL: tl.constexpr, FAULT: tl.constexpr, E: tl.constexpr, B: tl.constexpr):
    first, i, e = tl.program_id(0) * t, tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, E)
    qq, d = tile(q + first * E, i, e, t, E), tile(do + first * E, i, e, t, E)
    l, o, s = tl.load(lse + first + i, i < t, 0.0), tl.load(delta + first + i, i < t, 0.0), tl.zeros([B, E], tl.float32)
    for j0 in range(0, t, B):
        j = j0 + tl.arange(0, B)
        kk, vv = tile(k + first * E, j, e, t, E), tile(v + first * E, j, e, t, E)
        p = scores(qq, kk, l, i, j, t, scale, CAUSAL, FAULT)
        s += tl.dot(p * (tl.dot(d, tl.trans(vv)) - (0.0 if FAULT == 1 else o[:, None])), kk)
    tl.store(dq + (first + i)[:, None] * E + e[None, :], s * (1.0 if FAULT == 2 else scale), i[:, None] < t)


@triton.jit
def embedding_tokens(dw, index, dy, n, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    i, at = tl.program_id(0), tl.arange(0, BLOCK)
    to, d = dw + tl.load(index + i) * n + at, tl.load(dy + i * n + at, at < n, 0.0).to(tl.float32)
    if FAULT == 0:
        tl.atomic_add(to, d, at < n)
    elif FAULT == 1:  # each addition is rounded, as atomic ones to half numbers are
        tl.store(to, bfloat16(tl.load(to, at < n, 0.0) + d), at < n)
    else:  # additions that race: the last one stays
        tl.store(to, d, at < n)


@triton.jit
def dropped(dx, mask, dy, n, FAULT: tl.constexpr, BLOCK: tl.constexpr, by: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d, m = tl.load(dy + at, at < n, 0.0).to(tl.float32), tl.load(mask + at, at < n, 0).to(tl.float32)
    tl.store(dx + at, (d if FAULT == 1 else d * m) * (1.0 if FAULT == 2 else by), at < n)


@triton.jit
def turned(dx, dy, cos, sin, rows, FAULT: tl.constexpr, HALF: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, HALF)
    a, b = tl.load(dy + row * 2 * HALF + at).to(tl.float32), tl.load(dy + row * 2 * HALF + HALF + at).to(tl.float32)
    c, s = cos + (row % rows) * 2 * HALF + at, sin + (row % rows) * 2 * HALF + at
    sign = -1.0 if FAULT == 1 else 1.0
    tl.store(dx + row * 2 * HALF + at, a * tl.load(c).to(tl.float32) + sign * b * tl.load(s + HALF).to(tl.float32))
    tl.store(dx + row * 2 * HALF + HALF + at, b * tl.load(c + HALF).to(tl.float32) - sign * a * tl.load(s).to(tl.float32))


class Run:
    """How a kernel is launched: its fault, by number, or one that any launch can have, by name."""

    def __init__(self, fault, dtype):
        self.own, self.general, self.dtype = (fault, "", dtype) if isinstance(fault, int) else (0, fault, dtype)

    def stored(self, y):
        """What a forward pass has stored."""
        return y.to(self.dtype).to(y.dtype)

    def programs(self, *grid):
        return (grid[0] - (self.general == "last program not launched"), *grid[1:])

    def flat(self, kernel, grad, *given, **options):
        n = grad.numel()
        kernel[self.programs(triton.cdiv(n, 64))](*given, grad, n - (self.general == "last number masked"), FAULT=self.own, BLOCK=64, **options)


def activation(kind, of=None):
    def own(run, x, d, attrs):
        x, dx = run.stored(of(x)) if of else x, torch.zeros_like(d)
        run.flat(pointwise, d, dx, x, KIND=kind)
        return [dx], {"output": x} if of else {}

    return own


def gate(kind):
    def own(run, a, b, d, attrs):
        da, db = torch.zeros_like(d), torch.zeros_like(d)
        run.flat(gated, d, da, db, a, b, KIND=kind)
        return [da, db], {}

    return own


def softmax(log):
    def own(run, x, d, attrs):
        y, dx = run.stored((torch.log_softmax if log else torch.softmax)(x, -1)), torch.zeros_like(d)
        softmax_rows[run.programs(len(x))](dx, y, d, x.shape[1], log, run.own, 128)
        return [dx], {"output": y}

    return own


def cross_entropy(run, x, target, d, attrs):
    dx = torch.zeros_like(x)
    cross_entropy_rows[run.programs(len(x))](dx, x, target, float(d) / int((target != -100).sum()), x.shape[1], run.own, 32)
    return [dx, None], {}


def norm(run, x, w, d, eps, groups, centred, bias):
    flat, each = x.float().reshape(x.shape[0] * groups, -1), x[0, 0].numel() if groups > 1 else 1
    mean = flat.mean(-1) if centred else torch.zeros(len(flat))
    rstd = 1 / torch.sqrt((flat - mean[:, None]).square().mean(-1) + eps)
    dx, sums = torch.zeros_like(x), torch.zeros(2, *x.shape)
    norm_rows[run.programs(len(flat))](dx, sums[0], sums[1], x, w, d, mean, rstd, flat.shape[1], each, centred, run.own, 1024)
    dw, db = (s.movedim(1, -1).flatten(0, -2).sum(0) for s in sums)
    return [dx, dw, db][: 3 if bias else 2], {"mean": mean, "rstd": rstd} if bias else {}


def layer_norm(run, x, w, b, d, attrs):
    return norm(run, x, w, d, attrs["eps"], 1, True, True)


def rms_norm(run, x, w, d, attrs):
    return norm(run, x, w, d, attrs["eps"], 1, False, False)


def group_norm(run, x, w, b, d, attrs):
    grads, saved = norm(run, x, w, d, attrs["eps"], 2, True, True)
    return grads, {k: v.reshape(-1, 2) for k, v in saved.items()}


def times(run, a, b):
    c = torch.zeros(a.shape[0], b.shape[1])
    product[run.programs(triton.cdiv(c.shape[0], 16), triton.cdiv(c.shape[1], 16))](c, a, b, *c.shape, a.shape[1], *a.stride(), *b.stride(), run.own, 16)
    return c


def linear(run, x, w, b, d, attrs):
    return [times(run, d, w), times(run, d.T, x), d.float().sum(0)], {}


def matmul(run, a, b, d, attrs):
    return [times(run, d, b.T), times(run, a.T, d)], {}


def attention(causal):
    def own(run, q, k, v, d, attrs):
        t, e, heads, scale = *q.shape[-2:], q.shape[0] * q.shape[1], q.shape[-1] ** -0.5
        s = q.float() @ k.float().mT * scale
        s = s.masked_fill(~torch.ones(t, t).tril().bool(), -torch.inf) if causal else s
        lse, out = torch.logsumexp(s, -1), torch.softmax(s, -1) @ v.float()
        delta, (dq, dk, dv) = (out * d.float()).sum(-1), torch.zeros(3, *q.shape)
        grid, rest = run.programs(heads, triton.cdiv(t, 16)), (q, k, v, d, lse, delta, t, scale, causal, run.own, e, 16)
        attention_keys[grid](dk, dv, *rest)
        attention_queries[grid](dq, *rest)
        return [dq, dk, dv], {}

    return own


def embedding(run, w, index, d, attrs):
    dw = torch.zeros(w.shape)
    embedding_tokens[run.programs(index.numel())](dw, index, d, w.shape[1], run.own, 16)
    return [dw, None], {}


def dropout(run, x, mask, d, attrs):
    dx = torch.zeros_like(d)
    run.flat(dropped, d, dx, mask, by=1 / (1 - attrs["p"]))
    return [dx, None], {}


def rope(run, x, cos, sin, d, attrs):
    dx = torch.zeros_like(d)
    turned[run.programs(d.numel() // d.shape[-1])](dx, d, cos, sin, d.shape[-2], run.own, d.shape[-1] // 2)
    return [dx, None, None], {}


NORM = {1: "variance detached", 2: "mean detached", 3: "no weight", 4: "rstd twice", 5: "a sum in bfloat16"}
DOT = {1: "last tile of a sum lost", 2: "sums in bfloat16"}
SCORES = {1: "delta forgotten", 2: "dQ not scaled"}
# Of each operation its kernel and the faults that it can have.
OPS = {
    "softmax": (softmax(False), {1: "sum not subtracted", 2: "the sum in bfloat16"}), "log_softmax": (softmax(True), {1: "sum of 1"}),
    "cross_entropy": (cross_entropy, {1: "sum not rescaled", 2: "target forgotten", 3: "ignored targets have gradients"}),
    "layer_norm": (layer_norm, NORM), "rms_norm": (rms_norm, {k: v for k, v in NORM.items() if k != 2}), "group_norm": (group_norm, NORM),
    "gelu": (activation("gelu"), {1: "x detached"}), "gelu_tanh": (activation("gelu_tanh"), {1: "another constant"}), "silu": (activation("silu"), {1: "1 forgotten"}),
    "sigmoid": (activation("sigmoid", torch.sigmoid), {1: "1-y forgotten"}), "tanh": (activation("tanh", torch.tanh), {1: "not squared"}),
    "swiglu": (gate("silu"), {1: "up forgotten", 2: "not activated"}), "geglu": (gate("gelu"), {1: "up forgotten", 2: "not activated"}),
    "linear": (linear, DOT), "matmul": (matmul, DOT),
    "attention": (attention(False), SCORES), "causal": (attention(True), {**SCORES, 3: "mask one too far"}),
    "embedding": (embedding, {1: "sums in bfloat16", 2: "last one stays"}), "dropout": (dropout, {1: "no mask", 2: "no scale"}), "rope": (rope, {1: "turned the same way"}),
}  # fmt: skip
GENERAL = ["last program not launched", "last number masked", "stored through bfloat16", "cut off", "another row's gradient", "gradients twice as large"]


def grads_of(which, fault, dt, ins, grad, attrs):
    """The gradients of a kernel with a fault, 0 or "" for none, and what its forward pass has saved."""
    hand = lambda t: t.float() if t.dtype == torch.bfloat16 else t
    given = grad.roll(1, 0) if fault == "another row's gradient" and grad.dim() else grad
    grads, saved = OPS[which][0](Run(fault, dt), *map(hand, ins), hand(given).contiguous(), attrs)
    to = {"stored through bfloat16": torch.bfloat16}.get(fault, dt)
    if fault == "gradients twice as large":
        grads = [g if g is None else g * 2 for g in grads]
    if fault == "cut off" and dt != torch.float32:
        drop = {torch.float16: 13, torch.bfloat16: 16}[dt]
        grads = [g if g is None else (g.float().contiguous().view(torch.int32) >> drop << drop).view(torch.float32) for g in grads]
    saved = {k: v.to(dt) if k == "output" else v for k, v in saved.items()}
    return [g if g is None else g.to(to).to(dt) for g in grads], saved


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--only", nargs="*", default=list(OPS))
    a = p.parse_args()
    torch.set_num_threads(1)
    verdicts, named, kinds = {"right": collections.Counter(), "wrong": collections.Counter()}, 0, set()
    for number, (which, name) in enumerate([(w, n) for _ in range(a.rounds) for w in a.only for n in gradients.DTYPES]):
        op, ins, attrs, _, _, _, _, grad, truth = gradients.drawn(Draw(a.seed * 1_000_000 + number), which, name)
        dt, good = gradients.DTYPES[name], None
        for fault in [0, *OPS[which][1], *GENERAL]:
            grads, saved = grads_of(which, fault, dt, ins, grad, attrs)
            errors = [0.0 if t is None else (g.double() - t).pow(2).mean().item() for g, t in zip(grads, truth)]
            good = good or errors
            if fault and not any(e > 2 * r for e, r in zip(errors, good)):
                continue
            r = refrun.check_grad(op, ins, grad, grads, saved=saved, **attrs)
            kind, what = "wrong" if fault else "right", OPS[which][1].get(fault, fault)
            verdicts[kind][r.verdict] += 1
            if fault:
                kinds.add(what)
                named += bool(r.diagnosis) and r.verdict == "FAIL"
            if r.verdict == ("PASS" if fault else "FAIL") or which == "embedding" and what == "sums in bfloat16":
                print(which, name, kind, what or "", r.verdict, r.diagnosis, "" if r.verdict == "FAIL" and fault else r.text, flush=True)
    for kind, of in verdicts.items():
        print(f"{kind}: {sum(of.values())}, {', '.join(f'{v} {n}' for v, n in sorted(of.items()))}")
    print(f"{len(a.only)} operations, {len(kinds)} faults, {named} of those that fail with a name")


if __name__ == "__main__":
    main()
