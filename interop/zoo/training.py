"""Training steps of small models, right and wrong, judged by `refrun.hook`.

    python interop/zoo/training.py --seed 1 --results FILE [--only MODEL ...]

Six models in float32, bfloat16, float16 and under autocast to bfloat16. A right step is PyTorch's own on this CPU; of half
types its sums of some gradients are in half, which is said. A wrong step has one function of PyTorch replaced while it
runs, by one whose result or gradient is wrong: a term, a factor, a row that is left out. It is caught if the step fails, and
found if the first module that fails is one that calls this function, and only such fail.
"""

import argparse
import collections
import contextlib
import json
import os
import unittest.mock

import refrun
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(d), nn.MultiheadAttention(d, heads, batch_first=True)
        self.norm2, self.up, self.act, self.down, self.drop = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d), nn.Dropout(0.1)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class Language(nn.Module):
    """A decoder whose embedding is its last weight, too."""

    def __init__(self, words=50, d=16):
        super().__init__()
        self.embedding, self.block, self.norm = nn.Embedding(words, d), Block(d, 2), nn.RMSNorm(d)

    def forward(self, i):
        return F.linear(self.norm(self.block(self.embedding(i))), self.embedding.weight)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c)
        self.conv2, self.norm2, self.act = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(x + self.norm2(self.conv2(self.act(self.norm1(self.conv1(x))))))


class Mixer(nn.Module):
    def __init__(self, tokens=8, c=12):
        super().__init__()
        self.norm1, self.tokens = nn.LayerNorm(c), nn.Sequential(nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
        self.norm2, self.channels = nn.LayerNorm(c), nn.Sequential(nn.Linear(c, 24), nn.GELU(), nn.Linear(24, c))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.norm, self.act = nn.Conv2d(2, 8, 3, stride=2, padding=1, bias=False), nn.GroupNorm(2, 8), nn.SiLU()
        self.up, self.last, self.end = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(6, 2, 1), nn.Tanh()

    def forward(self, x):
        return self.end(self.last(torch.cat([x, self.up(self.act(self.norm(self.down(x))))], 1)))


class Gated(nn.Module):
    """One block, called twice."""

    def __init__(self):
        super().__init__()
        self.norm, self.act = nn.RMSNorm(16, eps=1e-5), nn.SiLU()
        self.gate, self.up, self.down = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, x):
        for _ in range(2):
            h = self.norm(x)
            x = x + self.down(self.act(self.gate(h)) * self.up(h))
        return x


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.of = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 5))

    def forward(self, x):
        return self.of(x)


MODELS = {
    "language": (Language, lambda: torch.randint(0, 50, (3, 9)), ("layer_norm", "linear", "embedding", "rms_norm", "gelu")),
    "residual": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)),
                 lambda: torch.randn(4, 3, 8, 8), ("linear", "silu", "relu", "batch_norm", "silu forward")),
    "mixer": (Mixer, lambda: torch.randn(4, 8, 12), ("layer_norm", "linear", "gelu", "bias", "layer_norm forward")),
    "unet": (UNet, lambda: torch.randn(2, 2, 8, 8), ("group_norm", "silu", "conv_transpose2d", "silu forward", "group_norm forward")),
    "gated": (Gated, lambda: torch.randn(6, 16), ("linear", "silu", "rms_norm", "rms_norm forward", "silu forward")),
    "perceptron": (Perceptron, lambda: torch.randn(12, 10), ("linear", "bias", "layer_norm", "gelu", "silu")),
}


class _Turned(torch.autograd.Function):
    """A value whose gradient is changed."""

    @staticmethod
    def forward(ctx, x, change):
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        return ctx.change(d.clone()), None


def lost(d):
    """Without the first row."""
    d[0] = 0
    return d


def fault(name):
    """The function of torch.nn.functional that a fault replaces, and by what."""
    op, _, where = name.partition(" ")
    op = "linear" if op == "bias" else op
    right = getattr(F, op)

    def wrong(x, *args, **kwargs):
        args = list(args)
        if where:  # another eps, another slope
            if op == "silu":
                return x * torch.sigmoid(1.01 * x)
            return right(x * 1.01, *args, **kwargs) if op not in ("layer_norm", "rms_norm", "group_norm") else right(x, *args[:-1], 3e-2)
        if name == "bias":
            args[1] = None if args[1] is None else _Turned.apply(args[1], lambda d: d / 2)
            return right(x, *args, **kwargs)
        if op == "embedding":
            return right(x, _Turned.apply(args[0], lambda d: d * 1.1), *args[1:], **kwargs)
        if op in ("linear", "conv_transpose2d"):
            return right(x, _Turned.apply(args[0], lost), *args[1:], **kwargs)
        return right(_Turned.apply(x, lost if op.endswith("norm") else lambda d: d * 1.05), *args, **kwargs)

    return op, wrong


# The modules that call a function.
CALLERS = {"linear": ("Linear", "MultiheadAttention"), "gelu": ("GELU",), "silu": ("SiLU",), "relu": ("ReLU",), "embedding": ("Embedding",), "layer_norm": ("LayerNorm",),
           "rms_norm": ("RMSNorm",), "group_norm": ("GroupNorm",), "batch_norm": ("BatchNorm2d",), "conv_transpose2d": ("ConvTranspose2d",)}
IN_HALF = ("LayerNorm", "Embedding", "GroupNorm", "Conv2d", "ConvTranspose2d", "BatchNorm2d")


def step(name, mode, seed, wrong):
    torch.manual_seed(seed)
    make, inputs, _ = MODELS[name]
    model, x = make().train(), inputs()
    if mode in ("bfloat16", "float16"):
        model = model.to(getattr(torch, mode))
        x = x.to(getattr(torch, mode)) if x.is_floating_point() else x
    op, f = fault(wrong) if wrong else ("", None)
    with refrun.hook(model) as seen, unittest.mock.patch.object(F, op, f) if wrong else contextlib.nullcontext():
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            y = model(x)
        F.mse_loss(y.float(), torch.randn_like(y, dtype=torch.float32)).backward()
    r = seen.check(accumulate={k: "bfloat16" if mode == "autocast" else mode for k in IN_HALF} if mode != "float32" else None)
    failed = sorted({(w["module"], w["class"]) for w in r.rows if w["verdict"] == "FAIL"})
    return {"model": name, "mode": mode, "fault": wrong, "verdict": r.verdict, "failed": failed, "said": r.diagnosis, "unjudged": r.unjudged,
            "found": bool(failed) and all(c in CALLERS[op] for _, c in failed) if wrong else not failed}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--results", required=True)
    p.add_argument("--only", nargs="*", default=list(MODELS))
    a = p.parse_args()
    done = [json.loads(line) for line in open(a.results)] if os.path.exists(a.results) else []
    have = {(r["model"], r["mode"], r["fault"]) for r in done}
    for name in a.only:
        for mode in ("float32", "bfloat16", "float16", "autocast"):
            for wrong in ("", *MODELS[name][2]):
                if (name, mode, wrong) in have:
                    continue
                r = step(name, mode, a.seed, wrong)
                done.append(r)
                print(json.dumps(r), file=open(a.results, "a"))
                print(name, mode, wrong or "right", r["verdict"], r["failed"], r["unjudged"] or "", flush=True)
    count = collections.Counter(("right" if not r["fault"] else "wrong", r["verdict"], r["found"]) for r in done)
    for (kind, verdict, found), n in sorted(count.items()):
        print(kind, verdict, "" if kind == "right" else "at its module" if found else "elsewhere", n)


if __name__ == "__main__":
    main()
