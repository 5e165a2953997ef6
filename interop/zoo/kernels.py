"""Single kernels, right and wrong, judged by refrun and by the tolerances that people use.

    python interop/zoo/kernels.py --right 5000 --wrong 3000 --seed 31 --results FILE [--device cuda]

The same call goes on where one was stopped: a kernel is drawn by its number and the seed, and FILE keeps its result.

38 operations and 11 fused chains of them in float32, TF32, float16 and bfloat16. Right kernels are PyTorch's own
on this CPU, and kernels written here in float32 in many ways: sums in lanes, tiles, pairs, backwards and in
parts of K, variances in two passes and by Welford's updates, exp2 forms, and products as the matrix units of
five GPUs add them. Wrong ones are the same with one of 20 faults that any operation can have, or one of those
of its own. With --device cuda the right ones are what that GPU returns. CALLED says which names of refrun's are right for each. A wrong one counts if its mean square error to float64 is at least twice that of the right one:
else it is a kernel like others. The table says how many right ones each rule refuses, and how many wrong ones
it lets pass. NO-POWER, of inputs that show nothing, is neither. Ctrl-C ends it with the table so far.

    assert_close   torch.testing.assert_close's defaults for the type
    KernelBench    torch.allclose with rtol and atol of 1e-2
    Liger          the rule of that operation's test in Liger-Kernel (commit ead96b61), of the operations that it has
    PCC 0.999      Pearson's correlation of at least 0.999
"""

import argparse
import collections
import json
import math
import os
import random
import re
import sys

import refrun
import torch
import torch.nn.functional as F
from chains import KINDS as CHAIN_KINDS
from kinds import KINDS

KINDS = {**KINDS, **CHAIN_KINDS}

DTYPES = {"float32": torch.float32, "tf32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

# atol and rtol of float32 and bfloat16 in test/transformers of Liger-Kernel; of others there are none.
LIGER = {
    "softmax": ((1e-5, 1e-5), (5e-2, 5e-2)), "layer_norm": ((1e-5, 1e-5), (2e-2, 2e-2)), "rms_norm": ((1e-4, 1e-6), (2e-1, 2e-2)), "swiglu": ((1.0, 1e-5), (1e4, 1e-2)),
    "geglu": ((1.0, 2e-6), (1e-2, 1e-2)), "group_norm": ((1e-4, 1e-4), None), "rotary_embedding": ((1e-5, 1e-5), (1e-1, 1e-5)), "cross_entropy": ((1e-8, 1e-6), (1e-8, 5e-2)),
}


def total(x, dim, order):
    """The sum along an axis, in float32, in one of several orders."""
    if order == "torch" or x.dtype == torch.float64:
        return x.sum(dim, keepdim=True)
    x = x.movedim(dim, -1)
    n = x.shape[-1]
    if order == "backwards":
        x, order = x.flip(-1), "ascending"
    if order == "pairs":
        while x.shape[-1] > 1:
            if x.shape[-1] % 2:
                x = F.pad(x, (0, 1))
            x = x[..., 0::2] + x[..., 1::2]
        return x.movedim(-1, dim)
    lanes = {"ascending": 1, "lanes": 8, "warps": 32}.get(order)
    if lanes:  # lane i adds i, i + lanes, ...
        x = F.pad(x, (0, -n % lanes)).unflatten(-1, (-1, lanes))
        s = x[..., 0, :]
        for k in range(1, x.shape[-2]):
            s = s + x[..., k, :]
        return total(s, -1, "pairs").movedim(-1, dim)
    tile = int(order)  # tiles one after the other
    s = torch.zeros_like(x[..., :1])
    for k in range(0, n, tile):
        s = s + x[..., k : k + tile].sum(-1, keepdim=True)
    return s.movedim(-1, dim)


ORDERS = ["torch", "torch", "backwards", "pairs", "lanes", "warps", "16", "64"]


# Products of a block and fraction bits of the matrix units: V100's for float16, A100's and H100's for all.
CORES = {"float16": ((4, 23), (8, 24), (16, 25)), "bfloat16": ((8, 24), (16, 25)), "tf32": ((4, 24), (8, 25))}


def core(a, b, unit, c=0.0):
    """a @ b + c, of half or TF32 numbers, as a matrix unit adds: blocks of products and the sum so far, truncated at the
    greatest exponent, added exactly and rounded toward zero (F. Khattak and M. Mikaitis, arXiv 2512.07004)."""
    terms, bits = unit
    a, b = a.double(), b.double()
    exponent = lambda t: torch.where(t == 0, -10000, torch.frexp(t).exponent - 1)
    s = torch.zeros(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1], dtype=torch.float64) + c
    for k in range(0, a.shape[-1], terms):
        x, y = a[..., k : k + terms].unsqueeze(-1), b[..., k : k + terms, :].unsqueeze(-3)
        e = torch.maximum((exponent(x) + exponent(y)).amax(-2), exponent(s)).clamp(-900)
        place = torch.ldexp(torch.ones_like(s), e - bits)
        s = ((x * y / place.unsqueeze(-2)).trunc().sum(-2) + (s / place).trunc()) * place
        near = s.float()
        s = torch.where(near.abs() > s.abs(), torch.nextafter(near, torch.zeros_like(near)), near).double()
    return s.float()


def welford(x, lanes=8):
    """Mean and variance of the last axis: each lane updates its own, number by number, and then they are merged."""
    n = x.shape[-1]
    mean, square, count = torch.zeros_like(x[..., :lanes]), torch.zeros_like(x[..., :lanes]), torch.zeros(min(lanes, n))
    for k in range(0, n, lanes):
        w = min(lanes, n - k)
        d = x[..., k : k + w] - mean[..., :w]
        count[:w] += 1
        mean[..., :w] += d / count[:w]
        square[..., :w] += d * (x[..., k : k + w] - mean[..., :w])
    m, q, c = mean[..., :1], square[..., :1], count[0]
    for lane in range(1, len(count)):
        d, more = mean[..., lane : lane + 1] - m, count[lane]
        m = m + d * (more / (c + more))
        q = q + square[..., lane : lane + 1] + d * d * (c * more / (c + more))
        c = c + more
    return m, q / n


class Kernel:
    """How a kernel computes: the order of its sums, its exp, its fault ("" for none), its operands' format, the
    matrix unit of its products, and whether variances are Welford's."""

    def __init__(self, order="torch", exp2=False, fault="", tf32="", unit=None, welford=False):
        self.order, self.exp2, self.fault, self.tf32, self.unit, self.welford = order, exp2, fault, tf32, unit, welford
        self.right = False  # though it has a fault

    def has(self, fault):
        return self.fault == fault

    def exp(self, x):
        return torch.exp2(x * math.log2(math.e)) if self.exp2 and x.dtype == torch.float32 else torch.exp(x)

    def sum(self, x, dim):
        n = x.shape[dim]
        if self.has("tail not summed") and n > 16:
            x = x.narrow(dim, 0, n - (1 + (n - 1) % 16))
        if self.has("last term lost") and n > 1:
            x = x.narrow(dim, 0, n - 1)
        if self.has("last term twice"):
            x = torch.cat([x, x.narrow(dim, n - 1, 1)], dim)
        s = total(x, dim, self.order)
        return half(s) if self.has("sum in bfloat16") else s

    def root(self, x):
        return x if self.has("root forgotten") else x.sqrt()

    def product(self, a, b):
        if self.tf32 and a.dtype == torch.float32:
            a, b = (cut(t, self.tf32) for t in (a, b))
        if self.unit:
            return core(a, b, self.unit)
        k = a.shape[-1]
        if self.has("tail not summed") and k > 16:
            k -= 1 + (k - 1) % 16
        if self.has("last term lost"):
            k -= 1
        if self.has("last term twice"):
            a, b, k = torch.cat([a, a[..., -1:]], -1), torch.cat([b, b[..., -1:, :]], -2), k + 1
        a, b = a[..., :k], b[..., :k, :]
        if self.fault in ("TF32 operands", "TF32 operands truncated") and a.dtype == torch.float32:
            a, b = (cut(t, "away" if self.has("TF32 operands") else "truncated") for t in (a, b))
        if (self.has("sums in float16") or self.has("sum in bfloat16")) and k > 4:  # else it is a product stored before its bias
            to = torch.float16 if self.has("sums in float16") else torch.bfloat16
            s = 0
            for i in range(0, k, 4):
                s = (s + a[..., i : i + 4] @ b[..., i : i + 4, :]).to(to).to(a.dtype)
            return s
        if self.has("half split in bfloat16"):
            return half(a[..., : k // 2] @ b[..., : k // 2, :]) + a[..., k // 2 :] @ b[..., k // 2 :, :]
        if a.dtype == torch.float64 or self.order == "torch":
            return a @ b
        step = {"backwards": -1, "pairs": (k + 1) // 2, "lanes": max(1, k // 3), "warps": 32, "16": 16, "64": 64}[self.order]
        if step < 0:
            return a.flip(-1) @ b.flip(-2)
        s = torch.zeros(())
        for i in range(0, k, step):
            s = s + a[..., i : i + step] @ b[..., i : i + step, :]
        return s


def half(t):
    return t.to(torch.bfloat16).to(t.dtype)


def cut(t, how):
    bits = t.contiguous().view(torch.int32)
    return (((bits + 0x1000) if how == "away" else bits) & ~0x1FFF).view(torch.float32)


def padded(n, block):
    return -(-n // block) * block


def coarse(r, bits):
    """A reciprocal root as a table of so many bits gives it: its bits after those are random."""
    off = torch.sin(r.double() * 1e4 * 2.0**bits) * 2.0**-bits
    return r * (1 + off).to(r.dtype)


def normal(k, x, dims, eps, biased=True, mean=True):
    n = math.prod(x.shape[d] for d in dims)
    flat = x.flatten(min(d % x.dim() for d in dims)) if len(dims) > 1 else x
    if k.has("padding counted"):
        count = padded(n, 128)
        m = k.sum(flat, -1) / count if mean else torch.zeros_like(flat[..., :1])
        v = (k.sum((flat - m) ** 2, -1) + (count - n) * m**2) / count
    else:
        m = k.sum(flat, -1) / n
        if not mean:
            m = torch.zeros_like(m)
        v = k.sum((flat - m) ** 2, -1) / n
    if k.welford and mean:
        m, v = welford(flat)
    if k.has("one pass") and mean:
        one = lambda x, order: total(x * x, -1, order) / n - (total(x, -1, order) / n) ** 2
        far = (m.abs() - (100 * (v + eps) - v).clamp(0).sqrt()).clamp(0) * m.sign()
        lost = lambda w: ((w - v) / (v + eps)).pow(2).mean()
        k.right = bool(lost(one(flat, k.order)) <= 2 * lost(one(flat - far, "ascending")))  # as where means are 10 deviations
        v = one(flat, k.order).clamp(0)
    if k.has("n-1"):
        v = v * n / (n - 1)
    if k.has("mean in bfloat16"):
        m = half(m)
    if k.has("variance in bfloat16"):
        v = half(v)
    if k.fault.startswith("eps "):
        eps = {"eps 1e-3": 1e-3 if eps < 1e-3 else 1e-2, "eps 1e-6": 1e-6}.get(k.fault, eps)
    r = 1 / k.root(v + (0 if k.has("no eps") else eps))
    if k.has("eps outside the root"):
        r = 1 / (v.sqrt() + eps)
    if k.has("deviation in bfloat16"):
        r = half(r)
    if k.has("root of 12 bits"):
        r = coarse(r, 12)
    if k.has("mean not subtracted"):
        m = 0 * m
    return ((flat - m) * r).reshape(x.shape)


def scaled(k, y, w, b=None):
    if not k.has("no weight"):
        y = y * w
    return y if b is None or k.has("no bias") else y + b


def softmax(k, x):
    e = k.exp(x - (0 if k.has("no maximum") else x.max(-1, keepdim=True).values))
    if k.has("exp in bfloat16"):
        e = half(e)
    return e / k.sum(e, -1)


def attention(k, q, key, v, causal, window=0):
    t, keys, scale = q.shape[-2], key.shape[-2], q.shape[-1] ** -0.5
    scale = {"no scale": 1, "scale twice": scale * scale}.get(k.fault, scale)
    s = k.product(q, key.transpose(-1, -2)) * scale
    far = {"mask one too far": 1, "mask one too short": -1, "mask of the other corner": keys - t}.get(k.fault, 0)
    if causal and not k.has("no mask"):
        s = s.masked_fill(~torch.ones(t, keys).tril(far).bool(), -math.inf)
    if window and not k.has("no mask"):
        s = s.masked_fill(~band(t, keys, window + k.has("window one too wide")), -math.inf)
    if k.has("last keys lost"):
        s[..., -(1 + (keys - 1) % 16) :] = -math.inf
    p = softmax(k, s)
    if k.has("probabilities in bfloat16"):
        p = half(p)
    return k.product(torch.nan_to_num(p, 0.0), v)


def band(t, keys, window):
    """Each query sees its own key and those before it, window in all, as a sliding window has it."""
    return torch.ones(t, keys).tril().triu(1 - window).bool()


def activation(k, x, kind):
    if k.has("ReLU"):
        return F.relu(x)
    if k.has("quick"):
        return x * torch.sigmoid(1.702 * x)
    if k.has("sigmoid"):
        return torch.sigmoid(x)
    if k.has("the other form"):
        kind = "gelu" if kind == "gelu_tanh" else "gelu_tanh"
    y = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": lambda x: x / (1 + k.exp(-x))}[kind](x)
    return y * (1 + 3e-4) if k.has("coarse") else y


def channels(x, w):
    return w.reshape(-1, *[1] * (x.dim() - 2))


def rope(k, x, cos, sin):
    a, b = x.chunk(2, -1)
    if k.has("other sign"):
        a, b = -a, -b
    return x * cos + torch.cat([-b, a], -1) * sin


def cross_entropy(k, x, target):
    m = x.max(-1, keepdim=True).values
    loss = (torch.log(k.sum(k.exp(x - m), -1)) + m - x.gather(1, target.clamp(0)[:, None]))[:, 0]
    return loss if k.has("ignored targets counted") else loss.masked_fill(target == -100, 0)


NORM = ["tail not summed", "last term lost", "n-1", "mean in bfloat16", "no eps", "eps outside the root", "deviation in bfloat16", "mean not subtracted", "no weight", "no bias",
        "padding counted", "one pass", "variance in bfloat16", "eps 1e-3", "eps 1e-6", "root of 12 bits", "root forgotten"]
PRODUCT = ["tail not summed", "last term lost", "last term twice", "sums in float16", "sum in bfloat16", "TF32 operands", "TF32 operands truncated", "half split in bfloat16"]
SUM = ["tail not summed", "last term lost", "last term twice", "sum in bfloat16"]

# The faults that any operation can have.
GENERAL = ["times 1.002", "last row not written", "last column not written", "stale rows", "a tile of zeros", "zeros", "one constant", "cut off", "one element 3 % off", "input in bfloat16",
           "rolled by one", "one row's sign", "a tile in bfloat16", "off by its place", "the input", "times 1/6", "times 3/2", "noise", "NaN", "turned round"]

# What the fault may be called: parts of the names that refrun gives. A fault that is not here has no name, and
# any that it is given is wrong.
CALLED = {
    "tail not summed": ["last part of a sum", "last term of the sums is left out", "last keys"], "last term lost": ["last term of the sums is left out", "last part of a sum"],
    "last term twice": ["counts twice"], "sum in bfloat16": ["sums are kept in bfloat16", "sum is rounded to bfloat16", "mean_square is rounded to bfloat16", "row_sum is rounded"],
    "sums in float16": ["sums are kept in float16"], "TF32 operands": ["TF32"], "TF32 operands truncated": ["TF32"],
    "n-1": ["divided by n-1"], "mean in bfloat16": ["step mean is rounded to bfloat16", "mean is rounded"], "no eps": ["eps is not added"], "eps outside the root": ["eps is added to the root"],
    "deviation in bfloat16": ["few bits", "rstd is rounded to bfloat16", "statistics is rounded to bfloat16"], "mean not subtracted": ["mean is not subtracted"], "no weight": ["weight is not applied"],
    "no bias": ["bias is not added"], "padding counted": ["padding is counted"], "one pass": ["mean(x^2) - mean(x)^2"], "variance in bfloat16": ["variance is rounded to bfloat16", "variances is rounded"],
    "eps 1e-3": ["eps is "], "eps 1e-6": ["eps is "], "root of 12 bits": ["few bits"], "root forgotten": ["root is forgotten"], "a mean subtracted": ["a mean is subtracted"],
    "exp in bfloat16": ["exp is rounded to bfloat16"], "ignored targets counted": ["ignored targets have a loss"], "kernel turned round": ["kernel is flipped"],
    "no scale": ["not scaled"], "scale twice": ["scaled twice"], "last keys lost": ["last keys"], "probabilities in bfloat16": ["probabilities is rounded to bfloat16", "probabilities_unnormalized is rounded"],
    "no mask": ["mask is not applied"], "mask one too far": ["one key too many"], "mask one too short": ["one key too few"], "mask of the other corner": ["other corner"],
    "window one too wide": ["one too wide"], "ReLU": ["ReLU in place"], "quick": ["1.702"], "sigmoid": ["sigmoid(x) in place"], "the other form": ["tanh GELU", "erf GELU"],
    "other sign": ["other way"], "no shift": ["is not added"], "times 1.002": ["times 1.002", "times 501/500"], "times 1/6": ["times 1/6", "times 0.16"], "times 3/2": ["times 3/2", "times 1.5", "times 1.4999"], "zeros": ["output is zeros"],
    "one constant": ["one number everywhere"], "cut off": ["cut off"], "the input": ["output is the input"], "input in bfloat16": ["input is rounded to bfloat16", "a_0 is rounded to bfloat16", "query is rounded to bfloat16", "gate is rounded to bfloat16", "operands of products are rounded to bfloat16"],
    "rolled by one": ["in other places"], "turned round": ["in other places"], "stale rows": ["in other places"], "last row not written": ["part of the output is zeros", "output is zeros"],
    "last column not written": ["part of the output is zeros"], "a tile of zeros": ["part of the output is zeros"], "NaN": ["is NaN everywhere"],
    "mean for sum": ["mean in place of a sum"], "sum for mean": ["sum in place of a mean"], "no maximum": ["maximum is not subtracted"], "n": ["divided by n"], "n-1 for n": ["divided by n-1"], "last channel lost": ["last term of the sums is left out"], "half of it": ["times 1/2", "times 0.5"],
    "times 3": ["times 3"], "its reciprocal": ["times "], "number of 1": ["times ", "output is the input"], "the other sign": ["other sign"],
}
# What is the same kernel with some numbers, or differs by less than is rounded.
ALIKE = {("counted as 3", "times 4/3"), ("one power more", "output is zeros"), ("noise", "is NaN everywhere"), ("off by one", "in other places"), ("a stage left out", "is not added"),
         ("a stage in bfloat16", "is rounded to bfloat16"), ("power in bfloat16", "is rounded to bfloat16"), ("coarse", "times 1.0003"), ("0.301", ""), ("root forgotten", "times"), ("scale twice", "root"), ("the input", "root is forgotten"), ("input in bfloat16", "the step mul is rounded to bfloat16")}


def called(fault, name):
    """Whether a fault's name is right, wrong, or none."""
    if not name:
        return "none"
    factor = {"times 1.002": 1.002, "number 3 % off": 1.03, "number 1 % off": 1.01}.get(fault)  # which half numbers show to three places
    said = re.search(r"the output is times ([0-9.]+)", name)
    if factor and said and abs(float(said[1]) / factor - 1) < 5e-4:
        return "right"
    if any(n in name for n in CALLED.get(fault, [])) or any(f == fault and n and n in name for f, n in ALIKE):
        return "right"
    return "wrong"


class Draw:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.r = random.Random(seed)

    def normal(self, *shape, dtype=torch.float32, scale=1.0, shift=0.0):
        return (torch.randn(*shape, generator=self.g) * scale + shift).to(dtype)


def case(d, op, dt):
    """An operation: refrun's name, its inputs, its attributes, the kernel as it is written here, PyTorch's own, and its own faults."""
    if op in CHAINS:
        return chain(d, op, dt)
    if op in KINDS:
        return KINDS[op](d, dt)
    r = d.r
    scale, shift, eps = r.choice([0.1, 1.0, 1.0, 4.0]), r.choice([0, 0, 0, 3.0, -2.0]), r.choice([1e-5, 1e-3])
    rows, cols = r.randint(16, 48), r.randint(18, 300)
    x, y = d.normal(rows, cols, dtype=dt, scale=scale, shift=shift), d.normal(rows, cols, dtype=dt)
    w, b = d.normal(cols, shift=1, dtype=dt), d.normal(cols, dtype=dt)
    if op == "softmax":
        x = (30 * x.float()).to(dt) if (big := r.random() < 0.1) else x
        return op, [x], {"dim": -1}, softmax, lambda x: F.softmax(x, -1), ["no maximum"] if big else SUM + ["exp in bfloat16"]
    if op == "log_softmax":
        own = lambda k, x: (x - x.max(-1, keepdim=True).values) - torch.log(k.sum(k.exp(x - x.max(-1, keepdim=True).values), -1))
        return op, [x], {"dim": -1}, own, lambda x: F.log_softmax(x, -1), SUM
    if op == "cross_entropy":
        t = torch.randint(0, cols, (rows,), generator=d.g)
        t[3] = -100
        return op, [x, t], {}, cross_entropy, lambda x, t: F.cross_entropy(x, t, reduction="none"), SUM + ["ignored targets counted"]
    if op == "layer_norm":
        own = lambda k, x, w, b: scaled(k, normal(k, x, [-1], eps), w, b)
        return op, [x, w, b], {"normalized_shape": [cols], "eps": eps}, own, lambda x, w, b: F.layer_norm(x, [cols], w, b, eps), NORM
    if op == "rms_norm":
        own = lambda k, x, w: scaled(k, normal(k, x, [-1], eps, mean=k.has("a mean subtracted")), w)
        return op, [x, w], {"normalized_shape": [cols], "eps": eps}, own, lambda x, w: F.rms_norm(x, [cols], w, eps), SUM + ["no eps", "eps outside the root", "no weight", "a mean subtracted", "eps 1e-3", "eps 1e-6", "root of 12 bits", "root forgotten"]
    if op in ("group_norm", "instance_norm", "batch_norm", "conv2d", "avg_pool2d"):
        c = r.choice([4, 8, 12])
        x = d.normal(2, c, r.randint(3, 14), r.randint(3, 14), dtype=dt, scale=scale, shift=shift)
        w, b = d.normal(c, shift=1, dtype=dt), d.normal(c, dtype=dt)
        if op in ("group_norm", "instance_norm"):
            g = 4 if op == "group_norm" else c
            own = lambda k, x, w, b: scaled(k, normal(k, x.reshape(2, g, -1), [-1], eps).reshape(x.shape), channels(x, w), channels(x, b))
            if op == "group_norm":
                return op, [x, w, b], {"num_groups": 4, "eps": eps}, own, lambda x, w, b: F.group_norm(x, 4, w, b, eps), NORM
            return op, [x, w, b], {"eps": eps}, own, lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=eps), NORM
        if op == "batch_norm":
            m, v = d.normal(c, dtype=dt), (d.normal(c).abs() + 0.1).to(dt)
            own = lambda k, x, w, b, m, v: scaled(k, (x - channels(x, 0 * m if k.has("mean not subtracted") else m)) / (channels(x, v) + (0 if k.has("no eps") else eps)).sqrt(), channels(x, w), channels(x, b))
            return op, [x, w, b, m, v], {"eps": eps}, own, lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, False, 0, eps), ["no eps", "mean not subtracted", "no weight", "no bias"]
        if op == "avg_pool2d":
            return op, [x], {"kernel_size": 2}, lambda k, x: F.avg_pool2d(x, 2) * (4 / 3 if k.has("counted as 3") else 1), lambda x: F.avg_pool2d(x, 2), ["counted as 3"]
        n, oc, s = r.choice([1, 3]), r.choice([3, 8]), r.choice([1, 2])
        w, b = d.normal(oc, c, n, n, dtype=dt, scale=0.3), d.normal(oc, dtype=dt)

        def own(k, x, w, b):
            columns = F.unfold(x, n, padding=n // 2, stride=s)
            y = k.product((w.flip(2, 3) if k.has("kernel turned round") else w).flatten(1), columns)
            y = y.unflatten(-1, ((x.shape[2] + 2 * (n // 2) - n) // s + 1, -1))
            return y if k.has("no bias") else y + channels(y, b)

        return op, [x, w, b], {"stride": [s, s], "padding": [n // 2, n // 2]}, own, lambda x, w, b: F.conv2d(x, w, b, stride=s, padding=n // 2), PRODUCT + ["no bias", "kernel turned round"]
    n = r.randint(18, 500)
    if op == "matmul":
        a, b = d.normal(rows, n, dtype=dt, scale=scale, shift=shift), d.normal(n, 24, dtype=dt)
        return op, [a, b], {}, lambda k, a, b: k.product(a, b), torch.matmul, PRODUCT
    if op == "linear":
        a, w, b = d.normal(rows, n, dtype=dt, scale=scale, shift=shift), d.normal(17, n, dtype=dt), d.normal(17, dtype=dt)
        return op, [a, w, b], {}, lambda k, a, w, b: k.product(a, w.T) + (0 if k.has("no bias") else b), F.linear, PRODUCT + ["no bias"]
    if op == "bmm":
        a, b = d.normal(3, rows, n, dtype=dt, scale=scale), d.normal(3, n, 9, dtype=dt)
        return op, [a, b], {}, lambda k, a, b: k.product(a, b), torch.bmm, PRODUCT
    if op in ("crossed", "windowed"):
        t, e = r.randint(18, 50), r.choice([16, 32])
        keys, window = (t + r.randint(3, 30), 0) if op == "crossed" else (t, r.randint(2, 12))
        ins = [d.normal(2, t, e, dtype=dt), d.normal(2, keys, e, dtype=dt), d.normal(2, keys, e, dtype=dt)]
        if op == "crossed":
            return ("scaled_dot_product_attention", ins, {"is_causal": True}, lambda k, *a: attention(k, *a, True), lambda *a: F.scaled_dot_product_attention(*a, is_causal=True),
                    ["mask of the other corner", "no mask", "mask one too far"])
        return ("scaled_dot_product_attention", ins + [band(t, t, window)], {}, lambda k, q, key, v, m: attention(k, q, key, v, False, window),
                lambda q, key, v, m: F.scaled_dot_product_attention(q, key, v, m), ["window one too wide", "no mask", "no scale"])
    if op in ("attention", "causal"):
        t, e, causal = r.randint(18, 70), r.choice([16, 32, 64]), op == "causal"
        ins = [d.normal(2, t, e, dtype=dt) for _ in range(3)]
        faults = ["no scale", "scale twice", "last keys lost"] + (dt != torch.bfloat16) * ["probabilities in bfloat16"] + causal * ["no mask", "mask one too far", "mask one too short"]
        return ("scaled_dot_product_attention", ins, {"is_causal": causal}, lambda k, *a: attention(k, *a, causal),
                lambda *a: F.scaled_dot_product_attention(*a, is_causal=causal), faults)
    if op in ("swiglu", "geglu"):
        kind = {"swiglu": "silu", "geglu": "gelu"}[op]
        return op, [x, y], {}, lambda k, g, u: activation(k, g, kind) * u, None, ["ReLU", "quick", "coarse"]
    if op == "rotary_embedding":
        x = d.normal(2, rows, 32, dtype=dt)
        angle = torch.outer(torch.arange(rows), 10000 ** -(torch.arange(16) / 16))
        cos, sin = (torch.cat([t, t], -1).to(dt) for t in (angle.cos(), angle.sin()))
        return op, [x, cos, sin], {}, rope, None, ["other sign"]
    if op == "gelu_tanh":
        return "gelu", [x], {"approximate": "tanh"}, lambda k, x: activation(k, x, op), lambda x: F.gelu(x, approximate="tanh"), ["ReLU", "quick", "the other form", "coarse"]
    if op == "gelu":
        return op, [x], {}, lambda k, x: activation(k, x, op), F.gelu, ["ReLU", "quick", "the other form", "coarse"]
    if op == "silu":
        return op, [x], {}, lambda k, x: activation(k, x, op), F.silu, ["ReLU", "quick", "sigmoid", "coarse"]
    if op in ("sum", "mean"):
        by = lambda k: cols if (op == "mean") != (k.has("mean for sum") or k.has("sum for mean")) else 1
        return op, [x], {"dim": -1}, lambda k, x: k.sum(x, -1)[:, 0] / by(k), lambda x: getattr(torch, op)(x, -1), SUM + ["mean for sum" if op == "sum" else "sum for mean"]
    if op in ("std", "var"):
        def own(k, x):
            v = k.sum((x - k.sum(x, -1) / cols) ** 2, -1)[:, 0] / (cols - (not k.has("n")))
            return k.root(v) if op == "std" else v

        return op, [x], {"dim": -1}, own, lambda x: getattr(torch, op)(x, -1), ["n"] + (op == "std") * ["root forgotten"]
    if op == "max_pool2d":
        x = d.normal(2, 3, r.randint(6, 20), r.randint(6, 20), dtype=dt)
        own = lambda k, x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-math.inf), 3, 2)[..., : x.shape[2] // 2, : x.shape[3] // 2] if k.has("window one too wide") else F.max_pool2d(x, 2)
        return op, [x], {"kernel_size": 2}, own, lambda x: F.max_pool2d(x, 2), ["window one too wide"]
    if op in ("rsqrt", "sqrt"):
        x = x.abs() + 0.01
        return op, [x], {}, lambda k, x: k.root(x) if op == "sqrt" else 1 / k.root(x), lambda x: getattr(torch, op)(x), ["root forgotten"]
    if op == "div":
        return op, [x, y.abs() + 0.1], {}, lambda k, a, b: a / b, torch.div, []
    if op in ("add", "mul"):
        return op, [x, y], {}, lambda k, a, b: getattr(torch, op)(a, b), getattr(torch, op), []
    f = getattr(F, op) if op in ("softplus", "mish") else getattr(torch, op)
    return op, [x], {}, lambda k, x: f(x), f, []


# Chains that one kernel computes: the function, the shapes of its inputs, the kernel as it is written here, and whether it has products.
def chain(d, which, dt):
    rows, n, cols = d.r.randint(9, 40), d.r.randint(18, 300), d.r.randint(17, 90)
    x, r, w, u = d.normal(rows, n, dtype=dt), d.normal(rows, n, dtype=dt), d.normal(cols, n, dtype=dt, scale=n**-0.5), d.normal(cols, n, dtype=dt, scale=n**-0.5)
    b, g, s = d.normal(cols, dtype=dt), d.normal(n, shift=1, dtype=dt), d.normal(n, dtype=dt)
    faults = PRODUCT + ["no bias"]
    added = lambda k, y, b: y if k.has("no bias") else y + b
    if which == "conv_group_norm_gelu":
        c, oc = 4, 8
        x, w, g, s = d.normal(2, c, d.r.randint(6, 12), 12, dtype=dt), d.normal(oc, c, 3, 3, dtype=dt, scale=0.15), d.normal(oc, shift=1, dtype=dt), d.normal(oc, dtype=dt)

        def own(k, x, w, g, s):
            y = k.product(w.flatten(1), F.unfold(x, 3, padding=1)).unflatten(-1, x.shape[2:])
            y = normal(k, y.reshape(2, 4, -1), [-1], 1e-5).reshape(y.shape)
            return activation(k, scaled(k, y, channels(x, g), channels(x, s)), "gelu")

        return (lambda x, w, g, s: F.gelu(F.group_norm(F.conv2d(x, w, padding=1), 4, g, s))), [x, w, g, s], {}, own, None, ["eps 1e-3", "eps 1e-6", "no eps", "n-1", "no weight", "no bias", "padding counted", "quick", "mean in bfloat16"]
    if which == "bias_gelu":
        return lambda x, s: F.gelu(x + s), [x, s], {}, lambda k, x, s: activation(k, added(k, x, s), "gelu"), None, ["no bias", "quick", "coarse"]
    if which == "add_layer_norm":
        return (lambda x, r, g, s: F.layer_norm(x + r, [n], g, s)), [x, r, g, s], {}, lambda k, x, r, g, s: scaled(k, normal(k, x + r, [-1], 1e-5), g, s), None, NORM
    if which == "scaled_softmax":
        return lambda x: F.softmax(x * 0.125, -1), [8 * x], {}, lambda k, x: softmax(k, x * 0.125), None, SUM + ["exp in bfloat16"]
    if which == "affine_silu":
        f = lambda x: F.silu(x * 0.3 + 0.1)
        return f, [x], {}, lambda k, x: activation(k, x * 0.3 + (0 if k.has("no shift") else 0.1), "silu"), f, ["no shift", "ReLU", "quick", "coarse"]
    if which == "lerp":
        f = lambda x, r: torch.lerp(x, r, 0.3)
        return f, [x, r], {}, lambda k, x, r: x + (0.301 if k.has("0.301") else 0.3) * ((r if k.has("of the other") else r - x)), f, ["0.301", "of the other"]
    if which == "linear_gelu":
        return lambda x, w, b: F.gelu(F.linear(x, w, b)), [x, w, b], {}, lambda k, x, w, b: activation(k, added(k, k.product(x, w.T), b), "gelu"), None, faults
    if which == "linear_relu":
        return lambda x, w, b: F.relu(F.linear(x, w, b)), [x, w, b], {}, lambda k, x, w, b: F.relu(added(k, k.product(x, w.T), b)), None, faults
    if which == "matmul_sigmoid":
        return lambda x, w: torch.sigmoid(x @ w.T), [x, w], {}, lambda k, x, w: torch.sigmoid(k.product(x, w.T)), None, PRODUCT
    if which == "rms_norm_linear":
        return (lambda x, g, w: F.linear(F.rms_norm(x, [n], g, 1e-5), w)), [x, g, w], {}, lambda k, x, g, w: k.product(scaled(k, normal(k, x, [-1], 1e-5, mean=False), g), w.T), None, ["no weight", "last term lost"]
    own = lambda k, x, w, u: activation(k, k.product(x, w.T), "silu") * k.product(x, u.T)
    return lambda x, w, u: F.silu(F.linear(x, w)) * F.linear(x, u), [x, w, u], {}, own, None, PRODUCT + ["quick", "ReLU"]


CHAINS = "conv_group_norm_gelu bias_gelu add_layer_norm scaled_softmax affine_silu lerp linear_gelu linear_relu matmul_sigmoid rms_norm_linear gated_mlp".split()
OPS = ("softmax log_softmax cross_entropy layer_norm rms_norm group_norm instance_norm batch_norm conv2d avg_pool2d matmul linear bmm attention causal crossed windowed swiglu geglu rotary_embedding "
       "gelu gelu_tanh silu sum mean std var max_pool2d softplus mish sigmoid tanh exp sqrt rsqrt erf add mul div").split() + CHAINS
ONLY = []  # the operations that are asked for
KEEP = []  # a folder for the inputs and outputs of those that are judged wrongly
DEVICE = ["cpu"]  # where right kernels run
PRODUCTS = ("conv2d", "matmul", "linear", "bmm", "attention", "causal", "crossed", "windowed", "linear_gelu", "linear_relu", "matmul_sigmoid", "gated_mlp")


def damaged(d, out, fault, good, dt, first):
    """An output with one of the general faults; None if it cannot have it."""
    y, n = out.clone(), max(1, out.shape[0] // 2)
    by = {"times 1.002": 1.002, "times 1/6": 1 / 6, "times 3/2": 1.5}.get(fault)
    if by:
        return y * by
    if fault == "noise":
        return d.normal(*y.shape, scale=y.float().std().item() if y.numel() > 1 else 1)
    if fault == "NaN":
        return y * math.nan
    if fault == "turned round":
        return y.flip(0)
    if fault == "last row not written":
        y[-1] = 0
    elif fault == "last column not written":
        y[..., -1] = 0
    elif fault == "stale rows":
        y[n : 2 * n] = y[:n]
    elif fault == "a tile of zeros":
        y.reshape(y.shape[0], -1)[-8:, -8:] = 0
    elif fault == "zeros":
        y.zero_()
    elif fault == "one constant":
        y.fill_(out.mean().item())
    elif fault == "cut off":
        if dt == torch.float32:
            return None
        bits = {torch.float16: 13, torch.bfloat16: 16}[dt]
        return (y.float().contiguous().view(torch.int32) >> bits << bits).view(torch.float32)
    elif fault == "one element 3 % off":
        flat = y.reshape(-1)
        flat[flat.abs().argmax()] *= 1.03
    elif fault == "rolled by one":
        y = y.roll(1, -1)
    elif fault == "one row's sign":
        y[-1 if len(y) < 2 else 1] *= -1
    elif fault == "a tile in bfloat16":
        flat = y.reshape(y.shape[0], -1)
        flat[:8, :16] = half(flat[:8, :16])
    elif fault == "off by its place":
        y = y + 0.004 * y.abs().mean() * torch.linspace(-1, 1, y.shape[-1])
    elif fault == "the input":
        return first.float().clone() if first.shape == y.shape else None
    else:
        return None
    return y


def right(d):
    """A right kernel: its name, refrun's name of the operation, inputs, output, options, truth, format."""
    name = d.r.choice(list(DTYPES))
    which = d.r.choice(PRODUCTS if name == "tf32" and d.r.random() < 0.7 and not ONLY else OPS)
    name = "float32" if which in CHAIN_KINDS and name == "tf32" else name
    dt = DTYPES[name]
    op, ins, attrs, own, torchs, _ = case(d, which, dt)
    truth = own(Kernel(), *[t.double() if t.is_floating_point() else t for t in ins])
    options = dict(attrs)
    # Other things than operands, such as probabilities, are half numbers to a unit only if a kernel rounds them.
    unit = d.r.choice(CORES[name]) if name in CORES and which in PRODUCTS and (name == "tf32" or which not in ("attention", "causal", "crossed", "windowed")) and d.r.random() < 0.3 else None
    k = Kernel(d.r.choice(ORDERS), d.r.random() < 0.4, unit=unit, welford=d.r.random() < 0.3)
    if name == "tf32":
        options["precision"] = "tf32"
        k.tf32 = d.r.choice(["away", "truncated"])
    elif torchs and unit is None and d.r.random() < 0.5:
        return which, op, ins, torchs(*ins).to(dt), options, truth, name
    return which, op, ins, own(k, *[t.float() if t.is_floating_point() else t for t in ins]).to(dt), options, truth, name


def on_gpu(d):
    """A right kernel as PyTorch runs it on DEVICE: the library's own, or the one that is written here."""
    name = d.r.choice(list(DTYPES))
    which = d.r.choice(PRODUCTS if name == "tf32" and not ONLY else OPS)
    name = "float32" if which in CHAIN_KINDS and name == "tf32" else name
    dt = DTYPES[name]
    op, ins, attrs, own, torchs, _ = case(d, which, dt)
    truth = own(Kernel(), *[t.double() if t.is_floating_point() else t for t in ins])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    k, library = Kernel(d.r.choice(ORDERS), d.r.random() < 0.4, welford=d.r.random() < 0.3), torchs or (op if callable(op) else None)
    there = [t.to(DEVICE[0]) for t in ins]
    with torch.device(DEVICE[0]):
        if library and (name == "tf32" or which in ("resize", "antialias", "scalars") or d.r.random() < 0.75):  # whose own are numpy's
            out = library(*there)
        else:
            out = own(k, *[t.float() if t.is_floating_point() else t for t in there])
    return which, op, ins, out.to(dt).cpu(), dict(attrs, **({"precision": "tf32"} if name == "tf32" else {})), truth, name


def wrong(d):
    """A wrong one: the same, its fault, and whether it is worse than right ones, by PyTorch's sums and by those of one term after another."""
    name = d.r.choice(list(DTYPES))
    which = d.r.choice(PRODUCTS if name == "tf32" and not ONLY else OPS)
    name = "float32" if which in CHAIN_KINDS and name == "tf32" else name
    dt = DTYPES[name]
    op, ins, attrs, own, _, faults = case(d, which, dt)
    fault = d.r.choice(GENERAL + faults)
    single = [t.float() if t.is_floating_point() else t for t in ins]
    truth = own(Kernel(), *[t.double() if t.is_floating_point() else t for t in ins])
    way = {"tf32": "away"} if name == "tf32" else {}
    good = own(Kernel(**way), *single)
    if fault == "input in bfloat16":
        out = own(Kernel(**way), *[half(t) if i == 0 else t for i, t in enumerate(single)])
    elif fault in GENERAL:
        out = damaged(d, good, fault, good, dt, single[0])
        if out is None:
            return None
    else:
        faulty = Kernel(fault=fault, **way)
        out = own(faulty, *single)
        if faulty.right:
            return None
    over = truth.to(dt).double()  # what is too large for the format is infinite, and right so
    error = lambda y: torch.where((y.double() == truth) | y.isinf() & (y.double() == over), 0, y.double() - truth).pow(2).mean().item()
    legal = max(error(own(Kernel(order, exp2, **way), *single).to(dt)) for order in ("torch", "backwards") for exp2 in (False, True))
    out = out.to(dt)
    options = dict(attrs, **({"precision": "tf32"} if name == "tf32" else {}))
    return which, op, ins, out, options, truth, name, fault, error(out) > 2 * legal or not math.isfinite(error(out))


def rules(op, out, truth, dtype):
    """Whether each of the usual rules passes an output; None where a rule says nothing."""
    y = truth.to(out.dtype)
    try:
        torch.testing.assert_close(out, y)
        close = True
    except AssertionError:
        close = False
    a, b = out.double().flatten(), truth.flatten()
    pcc = torch.corrcoef(torch.stack([a, b]))[0, 1].item() if a.numel() > 1 else 1.0
    liger = LIGER.get(op, (None, None))[{"float32": 0, "bfloat16": 1}.get(dtype, 0)] if dtype in ("float32", "bfloat16") else None
    return {"assert_close": close, "KernelBench": torch.allclose(out.float(), y.float(), rtol=1e-2, atol=1e-2),
            "Liger": liger and torch.allclose(out.float(), y.float(), atol=liger[0], rtol=liger[1]), "PCC 0.999": pcc >= 0.999 or pcc != pcc}


RULES = ("refrun", "assert_close", "KernelBench", "Liger", "PCC 0.999")


def judged(seed, kind, number):
    """One kernel of a seed, by its number, right or wrong: what it is, and whether each rule passes it."""
    d = Draw(seed * 1_000_000 + (500_000 if kind == "wrong" else 0) + number)
    made = None
    while made is None or kind == "wrong" and not made[-1]:
        made = (right if DEVICE[0] == "cpu" else on_gpu)(d) if kind == "right" else wrong(d)
    which, op, ins, out, options, truth, dtype = made[:7]
    r = refrun.check_kernel(op, ins, out, **options)
    if KEEP and r.ok != (kind == "right"):
        torch.save({"seed": seed, "kind": kind, "number": number, "inputs": ins, "output": out}, f"{KEEP[0]}/{seed}-{kind}-{number}.pt")
    passed = {"refrun": r.ok or kind == "right" and r.verdict == "NO-POWER", **rules(op, out, truth, dtype)}
    return {"kind": kind, "number": number, "operation": which, "format": dtype, "fault": "".join(made[7:8]), "verdict": r.verdict, "passed": passed,
            "inputs": [list(t.shape) for t in ins], "options": {k: str(v) for k, v in options.items()}, "contract": r.data.get("contract"), "reason": r.data.get("reason"), "known": r.data.get("known"), "chance": r.data.get("chance"), "named": r.data.get("fault"),
            "called": called(made[7], r.data.get("fault")) if kind == "wrong" else None}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--right", type=int, default=200)
    p.add_argument("--wrong", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", default=[], help=f"these operations alone, by the names of this program; {', '.join(KINDS)} are drawn only so")
    p.add_argument("--names", action="store_true", help="print the name that refrun gives each fault")
    p.add_argument("--results", help="a file to keep each kernel's result in, a line of JSON each; those that are in it are not judged again")
    p.add_argument("--device", default="cpu", help="where right kernels run: cpu or cuda")
    p.add_argument("--keep", help="a folder for the inputs and outputs of those that are judged wrongly")
    a = p.parse_args()
    DEVICE[:], KEEP[:] = [a.device], [a.keep] if a.keep else []
    OPS[:] = a.only or OPS
    ONLY[:] = a.only
    torch.set_num_threads(1)
    done = {}
    if a.results and os.path.exists(a.results):
        done = {(r["kind"], r["number"]): r for r in map(json.loads, open(a.results))}
    file = open(a.results, "a") if a.results else None
    all = []
    try:
        for kind, number in [("right", i) for i in range(a.right)] + [("wrong", i) for i in range(a.wrong)]:
            r = done.get((kind, number))
            if r is None:
                r = judged(a.seed, kind, number)
                if file:
                    print(json.dumps(r), file=file, flush=True)
            all.append(r)
            if r["passed"]["refrun"] != (kind == "right"):
                print("refused:" if kind == "right" else "let pass:", json.dumps(r), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped: what was counted so far", file=sys.stderr)
    kinds = {(r["operation"], r["format"]) for r in all}
    powerless = sum(r["kind"] == "right" and r["verdict"] == "NO-POWER" for r in all)
    print(f"{len({op for op, _ in kinds})} operations, {len(kinds)} with their formats; {powerless} right ones are NO-POWER\n\n| rule | right, refused | wrong, let pass |\n|---|---|---|")
    for rule in RULES:
        said = [(r["kind"], r["passed"][rule]) for r in all if r["passed"][rule] is not None]
        count = collections.Counter(said)
        total = collections.Counter(kind for kind, _ in said)
        print(f"| {rule} | {count['right', False]} of {total['right']} | {count['wrong', True]} of {total['wrong']} |")
    chances = sorted(r["chance"] for r in all if r["kind"] == "right" and r["verdict"] == "PASS" and r.get("chance") is not None)
    if chances:  # the law's own test, Kolmogorov's and Smirnov's: of right kernels no more than p have a chance up to p
        n = len(chances)
        more, limit = max((i + 1) / n - p for i, p in enumerate(chances)), math.sqrt(math.log(1e6) / (2 * n))
        print(f"\nof {n} right ones the least chance is {chances[0]:.2g}; {more:.3f} more than p have a chance up to p: {'as' if more <= limit else 'NOT as'} it is stated (up to {limit:.3f})")
    known = collections.Counter(r.get("known") for r in all if r["verdict"] == "FAIL")
    print(f"\nof those that fail {known['proved']} are proved wrong, and {known['odds']} by odds")
    causes = collections.Counter(r["called"] for r in all if r["kind"] == "wrong" and r["verdict"] == "FAIL")
    named = sum(r["called"] != "none" or r["fault"] in CALLED for r in all if r["kind"] == "wrong" and r["verdict"] == "FAIL")
    print(f"\nof {sum(causes.values())} that fail: {causes['right']} causes right, {causes['wrong']} wrong, {causes['none']} none; {named} have a fault with a name")
    if a.names:
        names = collections.Counter((f"{r['operation']}: {r['fault']}", r["named"] or "-") for r in all if r["kind"] == "wrong")
        for (fault, name), n in sorted(names.items()):
            print(f"{n:5}  {fault:45} {name}")


if __name__ == "__main__":
    main()
