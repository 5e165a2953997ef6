"""Single kernels, right and wrong, judged by refrun and by the tolerances that people use.

    python interop/zoo/kernels.py --right 1000 --wrong 1000 --seed 1

Right kernels are PyTorch's own on this CPU, in float32, float16 and bfloat16, of 27 operations. Wrong ones are
written out in float32 with one fault, and rounded. A wrong one counts if its mean square error to float64 is at
least twice that of the right one: else it is a kernel like others. The table says how many right ones each rule
refuses, and how many wrong ones it lets pass.

    assert_close   torch.testing.assert_close's defaults for the type
    KernelBench    torch.allclose with rtol and atol of 1e-2
    PCC 0.999      Pearson's correlation of at least 0.999
"""

import argparse
import collections
import math
import random
import sys

import refrun
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class Draw:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.r = random.Random(seed)

    def normal(self, *shape, dtype=torch.float32, scale=1.0, shift=0.0):
        return (torch.randn(*shape, generator=self.g) * scale + shift).to(dtype)


def right(d):
    """One of PyTorch's kernels: the operation, its inputs, its output, its attributes."""
    r = d.r
    dt, scale, shift = r.choice(DTYPES), r.choice([0.1, 1.0, 1.0, 5.0]), r.choice([0, 0, 0, 3.0, -2.0])
    rows, cols = r.randint(2, 40), r.randint(2, 400)
    x = d.normal(rows, cols, dtype=dt, scale=scale, shift=shift)
    y = d.normal(rows, cols, dtype=dt)
    op = r.choice("softmax log_softmax layer_norm rms_norm group_norm instance_norm batch_norm conv2d avg_pool2d matmul bmm linear gelu gelu_tanh silu "
                  "softplus mish sigmoid tanh exp erf sqrt rsqrt attention causal mean sum add mul div".split())
    if op in ("softmax", "log_softmax"):
        return op, [x], getattr(F, op)(x, -1), {"dim": -1}
    if op == "layer_norm":
        w, b = d.normal(cols, dtype=dt), d.normal(cols, dtype=dt)
        return op, [x, w, b], F.layer_norm(x, [cols], w, b, 1e-5), {"normalized_shape": [cols], "eps": 1e-5}
    if op == "rms_norm":
        w = d.normal(cols, dtype=dt)
        return op, [x, w], F.rms_norm(x, [cols], w, 1e-6), {"normalized_shape": [cols], "eps": 1e-6}
    if op in ("group_norm", "instance_norm", "batch_norm", "conv2d", "avg_pool2d"):
        c = r.choice([4, 8, 12])
        x = d.normal(2, c, r.randint(3, 14), r.randint(3, 14), dtype=dt, scale=scale, shift=shift)
        w, b = d.normal(c, dtype=dt), d.normal(c, dtype=dt)
        if op == "group_norm":
            return op, [x, w, b], F.group_norm(x, 4, w, b, 1e-5), {"num_groups": 4, "eps": 1e-5}
        if op == "instance_norm":
            return op, [x, w, b], F.instance_norm(x, weight=w, bias=b, eps=1e-5), {"eps": 1e-5}
        if op == "batch_norm":
            m, v = d.normal(c, dtype=dt), (d.normal(c).abs() + 0.1).to(dt)
            return op, [x, w, b, m, v], F.batch_norm(x, m, v, w, b, False, 0, 1e-5), {"eps": 1e-5}
        if op == "avg_pool2d":
            return op, [x], F.avg_pool2d(x, 2), {"kernel_size": 2}
        k, oc, s = r.choice([1, 3]), r.choice([3, 8]), r.choice([1, 2])
        w, b = d.normal(oc, c, k, k, dtype=dt, scale=0.3), d.normal(oc, dtype=dt)
        return op, [x, w, b], F.conv2d(x, w, b, stride=s, padding=k // 2), {"stride": [s, s], "padding": [k // 2, k // 2]}
    k = r.randint(2, 700)
    if op in ("matmul", "linear"):
        a = d.normal(rows, k, dtype=dt, scale=scale, shift=shift)
        if op == "matmul":
            b = d.normal(k, 24, dtype=dt)
            return op, [a, b], a @ b, {}
        w, b = d.normal(17, k, dtype=dt), d.normal(17, dtype=dt)
        return op, [a, w, b], F.linear(a, w, b), {}
    if op == "bmm":
        a, b = d.normal(3, rows, k, dtype=dt, scale=scale), d.normal(3, k, 9, dtype=dt)
        return op, [a, b], torch.bmm(a, b), {}
    if op in ("attention", "causal"):
        t, e = r.randint(4, 70), r.choice([8, 16, 32, 64])
        q, k, v = (d.normal(2, t, e, dtype=dt) for _ in range(3))
        return "scaled_dot_product_attention", [q, k, v], F.scaled_dot_product_attention(q, k, v, is_causal=op == "causal"), {"is_causal": op == "causal"}
    if op == "gelu_tanh":
        return "gelu", [x], F.gelu(x, approximate="tanh"), {"approximate": "tanh"}
    if op in ("gelu", "silu", "softplus", "mish"):
        return op, [x], getattr(F, op)(x), {}
    if op in ("mean", "sum"):
        return op, [x], getattr(torch, op)(x, -1), {"dim": -1}
    if op in ("sqrt", "rsqrt"):
        x = x.abs() + 0.01
        return op, [x], getattr(torch, op)(x), {}
    if op == "div":
        y = y.abs() + 0.1
    if op in ("add", "mul", "div"):
        return op, [x, y], getattr(torch, op)(x, y), {}
    return op, [x], getattr(torch, op)(x), {}


def half(t):
    return t.to(torch.bfloat16).to(t.dtype)


def softmax(x, fault):
    m = x.max(-1, keepdim=True).values
    e = torch.exp(x - m)
    if fault == "exp in bfloat16":
        e = half(e)
    s = e.sum(-1, keepdim=True)
    if fault == "tail not summed":
        s = e[:, : -(1 + (x.shape[1] - 1) % 16)].sum(-1, keepdim=True)
    if fault == "sum in bfloat16":
        s = half(s)
    if fault == "other axis":
        e = torch.exp(x - x.max(0, keepdim=True).values)
        s = e.sum(0, keepdim=True)
    y = e / s
    if fault == "times 1.001":
        y = y * 1.001
    if fault == "last row not written":
        y = y.clone()
        y[-1] = 0
    return y


def layer_norm(x, w, b, eps, fault):
    n = x.shape[-1]
    part = x[:, : -(1 + (n - 1) % 16)] if fault == "tail not summed" else x
    m = part.mean(-1, keepdim=True)
    v = ((part - m) ** 2).mean(-1, keepdim=True)
    if fault == "n-1":
        v = v * n / (n - 1)
    if fault == "mean in bfloat16":
        m = half(m)
    r = 1 / (v + (0 if fault == "no eps" else eps)).sqrt()
    if fault == "eps outside the root":
        r = 1 / (v.sqrt() + eps)
    if fault == "deviation in bfloat16":
        r = half(r)
    if fault == "mean not subtracted":
        m = 0 * m
    y = (x - m) * r
    if fault != "no weight":
        y = y * w
    return y if fault == "no bias" else y + b


def matmul(a, b, fault):
    k = a.shape[1]
    a = a.clone()
    if fault == "tail not summed":
        a[:, -(1 + (k - 1) % 16):] = 0
    if fault == "last term lost":
        a[:, -1] = 0
    if fault == "last term twice":
        a[:, -1] *= 2
    if fault in ("sums in float16", "sums in bfloat16"):
        to = torch.float16 if "float16" == fault[8:] else torch.bfloat16
        s = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
        for i in range(k):
            s = (s + a[:, i : i + 1] * b[i]).to(to).to(a.dtype)
        return s
    if fault == "TF32 operands" and a.dtype == torch.float32:
        cut = lambda t: ((t.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
        a, b = cut(a), cut(b)
    y = a @ b
    if fault == "a tile of zeros":
        y[-8:, -8:] = 0
    if fault == "a stale tile":
        y[:8, :8] = y[8:16, :8]
    if fault == "one element 2 % off":
        y[1, 1] *= 1.02
    if fault == "split-K parts in bfloat16":
        y = half(a[:, : k // 2] @ b[: k // 2]) + a[:, k // 2 :] @ b[k // 2 :]
    return y


def attention(q, k, v, scale, causal, fault):
    t = q.shape[-2]
    s = q @ k.transpose(-1, -2)
    s = s * {"no scale": 1, "scale twice": scale * scale}.get(fault, scale)
    if causal and fault != "no mask":
        s = s.masked_fill(~torch.ones(t, t).tril({"mask one too far": 1, "mask one too short": -1}.get(fault, 0)).bool(), -math.inf)
    if fault == "last keys lost":
        s[..., -(1 + (t - 1) % 16):] = -math.inf
    p = torch.softmax(s, -1)
    if fault == "probabilities in bfloat16":
        p = half(p)
    return torch.nan_to_num(p, 0.0) @ v


def activation(x, kind, fault):
    if fault == "ReLU":
        return F.relu(x)
    if fault == "quick":
        return x * torch.sigmoid(1.702 * x)
    if fault == "sigmoid":
        return torch.sigmoid(x)
    if fault == "the tanh form":
        return F.gelu(x, approximate="tanh")
    y = F.gelu(x) if kind == "gelu" else F.silu(x)
    return y * (1 + 3e-4) if fault == "coarse" else y


FAULTS = {
    "softmax": ["tail not summed", "exp in bfloat16", "sum in bfloat16", "other axis", "times 1.001", "last row not written"],
    "layer_norm": ["tail not summed", "n-1", "mean in bfloat16", "no eps", "eps outside the root", "deviation in bfloat16", "mean not subtracted", "no weight", "no bias"],
    "matmul": ["tail not summed", "last term lost", "last term twice", "sums in float16", "sums in bfloat16", "TF32 operands", "a tile of zeros", "a stale tile", "one element 2 % off",
               "split-K parts in bfloat16"],
    "attention": ["no scale", "scale twice", "no mask", "mask one too far", "mask one too short", "last keys lost", "probabilities in bfloat16"],
    "gelu": ["ReLU", "quick", "the tanh form", "coarse"],
    "silu": ["ReLU", "quick", "sigmoid", "coarse"],
}


def wrong(d):
    """One wrong kernel: what right() returns, its fault, and whether it is worse than the right one."""
    r = d.r
    dt, scale, shift = r.choice(DTYPES), r.choice([0.1, 1.0, 1.0, 3.0]), r.choice([0, 0, 3.0])
    rows, cols = r.randint(16, 48), r.randint(18, 300)
    kind = r.choice(list(FAULTS))
    fault = r.choice(FAULTS[kind])
    x = d.normal(rows, cols, scale=scale, shift=shift, dtype=dt)
    if kind == "softmax":
        op, ins, attrs, f = kind, [x], {"dim": -1}, lambda fault, x: softmax(x, fault)
    elif kind == "layer_norm":
        eps = r.choice([1e-5, 1e-3])
        op, ins, attrs = kind, [x, d.normal(cols, shift=1, dtype=dt), d.normal(cols, dtype=dt)], {"normalized_shape": [cols], "eps": eps}
        f = lambda fault, x, w, b: layer_norm(x, w, b, eps, fault)
    elif kind == "matmul":
        op, ins, attrs, f = kind, [x, d.normal(cols, r.randint(9, 40), dtype=dt)], {}, lambda fault, a, b: matmul(a, b, fault)
    elif kind == "attention":
        t, e = r.randint(18, 70), r.choice([16, 32])
        causal = "mask" in fault or r.random() < 0.5
        op, ins, attrs = "scaled_dot_product_attention", [d.normal(2, t, e, dtype=dt) for _ in range(3)], {"is_causal": causal}
        f = lambda fault, q, k, v: attention(q, k, v, e**-0.5, causal, fault)
    else:
        op, ins, attrs, f = kind, [x], {}, lambda fault, x: activation(x, kind, fault)
    single = [t.float() for t in ins]
    truth = f(None, *[t.double() for t in ins])
    out, good = f(fault, *single).to(dt), f(None, *single).to(dt)
    error = lambda y: (y.double() - truth).pow(2).mean().item()
    return op, ins, out, attrs, f"{kind}: {fault}", truth, error(out) > 2 * error(good) or not math.isfinite(error(out))


def rules(out, truth):
    """Whether each of the usual rules passes an output."""
    y = truth.to(out.dtype)
    try:
        torch.testing.assert_close(out, y)
        close = True
    except AssertionError:
        close = False
    a, b = out.double().flatten(), truth.flatten()
    pcc = torch.corrcoef(torch.stack([a, b]))[0, 1].item() if a.numel() > 1 else 1.0
    return {"assert_close": close, "KernelBench": torch.allclose(out.float(), y.float(), rtol=1e-2, atol=1e-2), "PCC 0.999": pcc >= 0.999 or pcc != pcc}


def truth_of(op, ins, attrs):
    wide = [t.double() for t in ins]
    special = {
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(*wide, **attrs), "layer_norm": lambda: F.layer_norm(wide[0], attrs["normalized_shape"], wide[1], wide[2], attrs["eps"]),
        "rms_norm": lambda: F.rms_norm(wide[0], attrs["normalized_shape"], wide[1], attrs["eps"]), "group_norm": lambda: F.group_norm(wide[0], 4, wide[1], wide[2], 1e-5),
        "instance_norm": lambda: F.instance_norm(wide[0], weight=wide[1], bias=wide[2], eps=1e-5), "batch_norm": lambda: F.batch_norm(wide[0], wide[3], wide[4], wide[1], wide[2], False, 0, 1e-5),
        "avg_pool2d": lambda: F.avg_pool2d(wide[0], 2), "conv2d": lambda: F.conv2d(*wide, **attrs), "linear": lambda: F.linear(*wide), "bmm": lambda: torch.bmm(*wide),
        "matmul": lambda: wide[0] @ wide[1], "gelu": lambda: F.gelu(wide[0], **attrs), "softmax": lambda: F.softmax(wide[0], -1), "log_softmax": lambda: F.log_softmax(wide[0], -1),
    }
    if op in special:
        return special[op]()
    if op in ("silu", "softplus", "mish"):
        return getattr(F, op)(wide[0])
    return getattr(torch, op)(*wide, **attrs)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--right", type=int, default=200)
    p.add_argument("--wrong", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--names", action="store_true", help="print the name that refrun gives each fault")
    a = p.parse_args()
    torch.set_num_threads(1)
    d = Draw(a.seed)
    alarms, missed, counted, names = collections.Counter(), collections.Counter(), 0, collections.Counter()
    for _ in range(a.right):
        op, ins, out, attrs = right(d)
        r = refrun.check_kernel(op, ins, out, **attrs)
        for rule, passed in [("refrun", r.ok)] + list(rules(out, truth_of(op, ins, attrs)).items()):
            alarms[rule] += not passed
        if not r.ok:
            print("refused:", op, out.dtype, [list(t.shape) for t in ins], attrs, r.data.get("reason"), r.data.get("fault"), file=sys.stderr)
    for _ in range(a.wrong):
        op, ins, out, attrs, fault, truth, worse = wrong(d)
        if not worse:
            continue
        counted += 1
        r = refrun.check_kernel(op, ins, out, **attrs)
        for rule, passed in [("refrun", r.ok)] + list(rules(out, truth).items()):
            missed[rule] += passed
        names[fault, r.data.get("fault") or "-"] += 1
        if r.ok:
            print("let pass:", fault, out.dtype, [list(t.shape) for t in ins], attrs, file=sys.stderr)
    print(f"{'':14} right refused   wrong let pass")
    for rule in ("refrun", "assert_close", "KernelBench", "PCC 0.999"):
        print(f"{rule:14} {alarms[rule]:5} of {a.right:<6} {missed[rule]:5} of {counted}")
    if a.names:
        for (fault, name), n in sorted(names.items()):
            print(f"{n:5}  {fault:45} {name}")


if __name__ == "__main__":
    main()
