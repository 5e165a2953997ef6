"""Chains of operations for kernels.py, as networks and KernelBench's level 2 have them, computed in the ways of real devices.

    level2    a convolution, transposed convolution or product and what follows it: means, biases, norms, softmax, pools,
              activations and numbers, in the order of one of KernelBench's problems
    deep      2 to 12 operations drawn at random
    experts   a router's softmax and gated experts, summed
    one_sign  products of numbers of one sign, and a chain behind them
    tiny      numbers that are subnormal in half, and what becomes of them
    compiled  level2 by torch.compile

Right kernels are PyTorch's own, eager, under autocast or compiled, and kernels that compute in float32 and store none, all,
the products', all but some, or what autocast stores. Faults are those of one place in the chain.
"""

import torch
import torch.nn.functional as F

# What a stage does: its function of x and parameters, shapes of the parameters, and whether it is a product, or one that
# autocast computes in float32.
PLAIN = {
    "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "softplus": F.softplus, "mish": F.mish, "leaky": lambda x: F.leaky_relu(x, 0.01),
    "hardswish": F.hardswish, "elu": F.elu, "square": torch.square, "abs": torch.abs, "clamp": lambda x: x.clamp(-1.5, 2),
}
SINGLE = ("softmax", "layer_norm", "group_norm", "instance_norm", "logsumexp", "cumulative")


class Stage:
    def __init__(self, name, f, *params):
        self.name, self.f, self.params = name, f, params

    product = property(lambda s: s.name in ("linear", "conv", "transposed", "matmul"))


def stage(d, dt, name, shape):
    """A stage for an input of that shape; images have four or five axes."""
    r, c = d.r, shape[1] if len(shape) > 2 else shape[-1]
    if name in PLAIN:
        return Stage(name, PLAIN[name])
    if name in ("times", "plus", "over", "minus"):
        v = r.choice([2.0, 0.5, 0.1, 1.7, r.uniform(0.2, 3)])
        f = {"times": lambda x, s=1: x * (v * s), "plus": lambda x, s=1: x + v * s, "over": lambda x, s=1: x / (v * s), "minus": lambda x, s=1: x - v * s}[name]
        return Stage(name, f)
    if name in ("bias", "weight"):
        p = d.normal(*([c] if len(shape) < 3 else [1, c] + [1] * (len(shape) - 2)), dtype=dt, shift=float(name == "weight"))
        return Stage(name, (lambda x, b: x + b) if name == "bias" else (lambda x, w: x * w), p)
    if name == "linear":
        m = r.choice([16, 32, r.randint(17, 60)])
        return Stage(name, F.linear, d.normal(m, shape[-1], dtype=dt, scale=shape[-1] ** -0.5), *([d.normal(m, dtype=dt)] if r.random() < 0.7 else []))
    axes = len(shape) - 2
    if name == "conv":
        m, k = r.choice([4, 8, 12]), r.choice([1, 3])
        conv, pad = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[axes], k // 2
        w = d.normal(m, c, *[k] * axes, dtype=dt, scale=(c * k**axes) ** -0.5)
        return Stage(name, lambda x, w, b=None: conv(x, w, b, padding=pad), w, *([d.normal(m, dtype=dt, scale=0.2)] if r.random() < 0.7 else []))
    if name == "transposed":
        m, k, s = r.choice([4, 8, 12]), r.choice([2, 3]), r.choice([1, 2])
        conv = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[axes]
        w = d.normal(c, m, *[k] * axes, dtype=dt, scale=(c * k**axes) ** -0.5)
        return Stage(name, lambda x, w, b=None: conv(x, w, b, stride=s, padding=k // 2), w, *([d.normal(m, dtype=dt, scale=0.2)] if r.random() < 0.7 else []))
    if name == "mean":
        return Stage(name, lambda x: x.mean(1, keepdim=True))
    if name == "average":
        return Stage(name, lambda x: x.mean(list(range(2, x.dim())), keepdim=True))
    if name == "logsumexp":
        return Stage(name, lambda x: torch.logsumexp(x, 1, keepdim=True))
    if name == "softmax":
        return Stage(name, lambda x: F.softmax(x, 1 if x.dim() > 2 else -1))
    if name == "sum":
        return Stage(name, lambda x: x.sum(1, keepdim=True))
    if name == "least":
        return Stage(name, lambda x: x.amin(1, keepdim=True))
    if name == "pool":
        pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[axes]
        return Stage(name, lambda x: pool(x, 2))
    if name == "maxima":
        pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[axes]
        return Stage(name, lambda x: pool(x, 2))
    if name == "layer_norm":
        n = shape[-1]
        return Stage(name, lambda x, w, b: F.layer_norm(x, [n], w, b), d.normal(n, dtype=dt, shift=1, scale=0.3), d.normal(n, dtype=dt))
    if name == "group_norm":
        g = next(g for g in (4, 2, 1) if c % g == 0)
        return Stage(name, lambda x, w, b: F.group_norm(x, g, w, b), d.normal(c, dtype=dt, shift=1, scale=0.3), d.normal(c, dtype=dt))
    if name == "instance_norm":
        return Stage(name, lambda x: F.instance_norm(x))
    raise ValueError(name)


class Chain:
    """A chain of stages: its parameters in order, and how it is computed."""

    def __init__(self, d, dt, x, names):
        self.dt, self.stages, self.params, shape = dt, [], [], tuple(x.shape)
        probe = x.float()
        for name in names:
            s = stage(d, dt, name, shape)
            self.stages.append(s)
            self.params += s.params
            probe = s.f(probe, *[p.float() for p in s.params])
            shape = tuple(probe.shape)
        n = len(self.stages)
        self.kept = d.r.choice([[False] * n, [True] * n, [s.product for s in self.stages], [s.name not in SINGLE for s in self.stages], [d.r.random() < 0.6 for _ in range(n)]])
        numbers = [i for i, s in enumerate(self.stages) if s.name in ("times", "plus", "over", "minus")]
        same = [i for i, s in enumerate(self.stages) if s.name in PLAIN and s.name != "abs" or s.name in ("bias", "layer_norm", "group_norm", "softmax")]
        self.number, self.out = (d.r.choice(numbers) if numbers else None), (d.r.choice(same) if same else None)
        self.coarse = d.r.choice([i for i in range(n - 1)] or [None]) if dt == torch.float32 else None

    def __call__(self, x, *params):
        params = iter(params)
        for s in self.stages:
            x = s.f(x, *[next(params) for _ in s.params])
        return x

    def own(self, k, x, *params):
        params = iter(params)
        for i, s in enumerate(self.stages):
            p = [next(params) for _ in s.params]
            if k.has("a stage left out") and i == self.out:
                continue
            if s.name in ("softmax",) and x.dtype == torch.float32 and k.exp2:
                dim = 1 if x.dim() > 2 else -1
                e = k.exp(x - x.amax(dim, keepdim=True))
                y = e / e.sum(dim, keepdim=True)
            elif s.name == "elu" and x.dtype == torch.float32 and k.exp2:  # as kernels without expm1
                y = torch.where(x > 0, x, k.exp(x) - 1)
            elif s.name == "tanh" and x.dtype == torch.float32 and k.exp2:  # as kernels that have an exponential alone
                y = 2 / (1 + k.exp(-2 * x)) - 1
            elif k.has("number 3 % off") and i == self.number:
                y = s.f(x, 1.03)
            else:
                y = s.f(x, *p)
            if k.has("a stage twice") and i == self.out:
                y = s.f(y, *p)
            if k.has("a stage in bfloat16") and i == self.coarse:
                y = y.to(torch.bfloat16).to(y.dtype)
            if x.dtype == torch.float32 and self.kept[i] and i < len(self.stages) - 1:
                y = y.to(self.dt).float()
            x = y
        return x

    def faults(self):
        return ["a stage left out", "a stage twice"] * (self.out is not None) + ["number 3 % off"] * (self.number is not None) + ["a stage in bfloat16"] * (self.coarse is not None)

    def autocast(self, *a):
        if self.dt == torch.float32:
            return self(*a)
        with torch.autocast(a[0].device.type, dtype=self.dt):
            return self(*a).to(self.dt)

    def compiled(self, *a):
        torch._dynamo.reset()
        return torch.compile(self.__call__, dynamic=False)(*a)


PROBLEMS = [ # of KernelBench's level 2, by what follows what
    "conv relu bias", "transposed bias clamp times clamp over", "conv mean softmax tanh times", "transposed mean bias softmax tanh times", "conv minus tanh minus pool", "linear silu over clamp tanh clamp",
    "transposed bias tanh", "conv least tanh tanh", "linear sigmoid sum", "conv hardswish relu softmax mean", "transposed logsumexp hardswish minus clamp", "linear group_norm leaky plus",
    "conv group_norm times maxima clamp", "linear relu over", "conv average times", "transposed softmax bias times sigmoid", "linear gelu softmax", "conv mish mish", "linear times plus", "transposed pool maxima",
    "conv instance_norm over", "linear mish mish", "conv group_norm mean", "linear bias relu", "transposed gelu group_norm", "conv softplus tanh times bias", "linear square times", "conv logsumexp times clamp gelu",
    "transposed average bias logsumexp sum times", "linear layer_norm gelu", "conv times leaky gelu", "linear softmax bias times sigmoid", "transposed times maxima average clamp",
]


def image(d, dt, axes=None):
    axes = axes or d.r.choice([2, 2, 3])
    size = [d.r.randint(6, 11) for _ in range(axes)] if axes == 2 else [d.r.randint(4, 6) for _ in range(axes)]
    return d.normal(2, d.r.choice([4, 8, 16]), *size, dtype=dt)


def asked(d, dt, c, x, ways=("eager", "autocast")):
    how = d.r.choice(ways)
    library = {"eager": c.__call__, "autocast": c.autocast, "compiled": c.compiled}[how]
    return (lambda *a: c(*a)), [x, *c.params], {}, c.own, library, c.faults()


def level2(d, dt, ways=("eager", "autocast")):
    names = d.r.choice(PROBLEMS).split()
    x = d.normal(d.r.randint(9, 40), d.r.randint(18, 200), dtype=dt) if names[0] == "linear" else image(d, dt, 2 if {"pool", "maxima"} & set(names) else None)  # PyTorch has no pools of three axes in float16
    return asked(d, dt, Chain(d, dt, x, names), x, ways)


def deep(d, dt):
    flat = d.r.random() < 0.5
    x = d.normal(d.r.randint(12, 40), d.r.randint(18, 120), dtype=dt) if flat else image(d, dt)
    first = ["linear", "matmul"][:1] if flat else ["conv", "transposed"]
    some = list(PLAIN) + ["times", "plus", "over", "minus", "bias", "weight", "softmax", "layer_norm"] + (["linear"] * 3 if flat else ["conv", "conv", "group_norm", "mean", "instance_norm"])
    names = [d.r.choice(first)] * (d.r.random() < 0.8) + [d.r.choice(some) for _ in range(d.r.randint(1, 11))]
    names = [n for i, n in enumerate(names) if n != "mean" or "mean" not in names[:i]] if not {"instance_norm", "group_norm"} & set(names) else [n for n in names if n != "mean"]
    return asked(d, dt, Chain(d, dt, x, (names + ["bias"])[: max(2, len(names))]), x)


def one_sign(d, dt):
    x = d.normal(d.r.randint(9, 40), d.r.randint(18, 200), dtype=dt).abs()
    c = Chain(d, dt, x, ["linear"] + [d.r.choice(["times", "bias", "relu", "softplus", "layer_norm"]) for _ in range(d.r.randint(1, 4))])
    c.params[0].abs_()
    return asked(d, dt, c, x)


def tiny(d, dt):
    scale = {torch.float16: 2.0**-15, torch.bfloat16: 2.0**-126, torch.float32: 2.0**-126}[dt]
    x = d.normal(d.r.randint(9, 40), d.r.randint(18, 90), dtype=dt, scale=scale)
    c = Chain(d, dt, x, [d.r.choice(["times", "over", "silu", "gelu", "tanh", "relu", "elu", "weight"]) for _ in range(d.r.randint(2, 5))])
    return asked(d, dt, c, x, ("eager",))


def experts(d, dt):
    rows, n, m, e = d.r.randint(9, 30), d.r.randint(18, 90), d.r.randint(17, 60), d.r.choice([2, 3, 4])
    x, router = d.normal(rows, n, dtype=dt), d.normal(e, n, dtype=dt, scale=n**-0.5)
    up, gate = d.normal(e, n, m, dtype=dt, scale=n**-0.5), d.normal(e, n, m, dtype=dt, scale=n**-0.5)
    down = d.normal(e, m, n, dtype=dt, scale=m**-0.5)

    def f(x, router, up, gate, down):
        p = F.softmax(F.linear(x, router), -1)
        h = F.silu(torch.matmul(x, gate)) * torch.matmul(x, up)
        return (torch.matmul(h, down) * p.t().unsqueeze(-1)).sum(0)

    kept = d.r.choice([[False] * 6, [True] * 6, [True, False, True, False, True, False]])

    def own(k, x, router, up, gate, down):
        to = lambda i, y: y.to(dt).float() if kept[i] and y.dtype == torch.float32 else y
        s = to(0, x @ router.T)
        p = to(1, F.softmax(s, -1))
        if k.has("not routed"):
            p = torch.full_like(p, 1 / e)
        if k.has("greatest not subtracted, temperature 1.1"):
            p = F.softmax(s / 1.1, -1)
        g = to(2, x @ gate)
        h = to(3, (F.relu(g) if k.has("ReLU") else F.silu(g)) * to(2, x @ up))
        y = to(4, h @ down)
        return (y * p.t().unsqueeze(-1))[: e - k.has("last expert lost")].sum(0)

    return f, [x, router, up, gate, down], {}, own, f, ["not routed", "greatest not subtracted, temperature 1.1", "ReLU", "last expert lost"]


KINDS = {"level2": level2, "deep": deep, "experts": experts, "one_sign": one_sign, "tiny": tiny, "compiled": lambda d, dt: level2(d, dt, ("compiled",))}
