"""Kinds of kernels for kernels.py that are more than an operation with a fault: each has forms that are all right, real
libraries among them, and faults of its own.

    scatter   numbers added at places that an index names: index_add, scatter_add and index_put
    scalars   functions with attributes and numbers in place of tensors: Python's, and float64 tensors of no axes
    powers    whole powers of numbers below 0 that a kernel computed
    resize    linear and cubic interpolation and the nearest number, by sizes and by scales, in 1 to 3 dimensions
    antialias linear and cubic interpolation to fewer numbers, with wider windows
    winograd  convolutions of 3 x 3 by tiles of 2 x 2 and 4 x 4 results
    one_sign  attention and products of numbers of one sign, whose errors do not cancel
    infinite  functions of numbers among which some are infinite
    subnormal functions of numbers so small that devices may take them for 0
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def positions(k, i, n_in, n_out, how, scale, single):
    """Where the numbers i of a result stand in the source: in float32 as kernels compute it, or in float64."""
    f = np.float32 if single else np.float64
    how = {"the other corners": {"align_corners": "half_pixel"}.get(how, "align_corners"), "half a pixel off": {"half_pixel": "asymmetric"}.get(how, "half_pixel")}.get(k.fault, how)
    if k.has("scale of the sizes"):
        scale = None
    i = i.astype(f)
    if how == "align_corners":
        return i * (f(n_in - 1) / f(max(n_out - 1, 1)))
    ratio = f(1 / scale) if scale else f(n_in) / f(n_out)
    shift = 0 if how == "asymmetric" else f(0.5)
    if single and k.order == "pairs":  # ONNX Runtime's: the scale itself in float32
        p = (i + shift) / (f(scale) if scale else f(n_out) / f(n_in)) - shift
    elif single and k.order == "lanes":  # fused
        p = f(np.float64(ratio) * (i + shift) - shift)
    else:
        p = ratio * (i + shift) - shift
    if k.has("positions in bfloat16"):
        p = torch.from_numpy(p).to(torch.bfloat16).to(torch.from_numpy(p).dtype).numpy()
    return np.round(p * 256) / 256 if k.has("8 bits of fraction") else p


def axis(k, x, dim, n_out, mode, how, scale):
    """One axis of a resize: linear, cubic, or a rule for the nearest."""
    single = x.dtype == np.float32
    n = x.shape[dim]
    if n == n_out and (scale is None or mode != "cubic"):
        return x
    if mode == "floor" and scale and n_out == 2 * n and math.floor(n * scale) == n_out and not k.fault:  # as PyTorch, which then takes each twice
        return np.repeat(x, 2, dim)
    p = positions(k, np.arange(n_out), n, n_out, how, scale, single)
    take = lambda at: np.take(x, np.clip(at, 0, n - 1), dim)
    along = lambda w: w.reshape([-1 if a == dim else 1 for a in range(x.ndim)])
    if k.has("nearest") or mode not in ("linear", "cubic"):
        return take({"floor": np.floor, "round_prefer_ceil": lambda p: np.floor(p + p.dtype.type(0.5))}.get(mode, np.rint)(p).astype(int))
    if mode == "linear":
        p = p if k.has("goes on beyond the border") else np.clip(p, 0, n - 1)
        at = np.clip(np.floor(p).astype(int), 0, max(n - 2, 0))
        t = along(p - at.astype(p.dtype))
        if k.has("weights in bfloat16"):
            t = torch.from_numpy(t).to(torch.bfloat16).to(torch.from_numpy(t).dtype).numpy()
        return take(at) * (1 - t) + take(at + 1) * t
    a = p.dtype.type(-0.5 if k.has("coefficient -1/2") else -0.75)
    at = np.floor(p).astype(int)
    t = along(p - at.astype(p.dtype))
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    y = 0
    for j, w in zip((-1, 0, 1, 2), (far(t + 1), near(t), near(1 - t), far(2 - t))):
        if k.has("weights in bfloat16"):
            w = torch.from_numpy(w).to(torch.bfloat16).to(torch.from_numpy(w).dtype).numpy()
        if k.has("zeros beyond the border"):
            w = w * along((at + j >= 0) & (at + j < n)).astype(w.dtype)
        y = y + take(at + j) * w
    return y


def by_onnx_runtime(mode, how, size, scales):
    """ONNX Runtime's Resize, of float32 numbers."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    def f(x):
        rank = x.dim()
        values = [1.0, 1.0, *scales] if scales else [*x.shape[:2], *size]
        kind = TensorProto.FLOAT if scales else TensorProto.INT64
        names = ["x", "", "by"] if scales else ["x", "", "", "by"]
        nearest = {} if mode in ("linear", "cubic") else {"nearest_mode": mode}
        node = helper.make_node("Resize", names, ["y"], mode=mode if not nearest else "nearest", coordinate_transformation_mode=how, **nearest)
        shape = [None] * rank
        g = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [helper.make_tensor("by", kind, [len(values)], values)])
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        s = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        return torch.from_numpy(s.run(None, {"x": x.cpu().numpy()})[0])

    return f


def by_jax(size):
    def f(x):
        import jax

        return torch.from_numpy(np.array(jax.image.resize(x.numpy(), (*x.shape[:2], *size), "linear", antialias=False)))

    return f


def resize(d, dt):
    """A resize: interpolate's attributes, as PyTorch has them or with ONNX's further ones."""
    r = d.r
    dims = r.choice([1, 2, 2, 2, 3])
    n = [r.randint(2, {1: 300, 2: 40, 3: 9}[dims]) for _ in range(dims)]
    mode = r.choice(["linear", "linear", "cubic", "nearest"])
    if mode == "cubic" and dims != 2:
        mode = "linear"
    how = r.choice(["half_pixel", "align_corners"]) if mode != "nearest" else "asymmetric"
    scales, size = None, [max(1, int(v * r.uniform(0.4, 2.6))) for v in n]
    if how != "align_corners" and r.random() < 0.5:
        scales = [r.choice([0.7, 1.3, 1.01, 2.1, 1.999, 0.6001, 3.0, 1 + r.random()]) for _ in n]
        if any(math.floor(v * s) < 1 or mode == "cubic" and math.floor(v * s) == v for v, s in zip(n, scales)):
            scales = [2.1 for _ in n]
        size = [math.floor(v * s) for v, s in zip(n, scales)]
    x = d.normal(r.randint(2, 3), r.choice([1, 2, 3, 8]), *n, dtype=dt, scale=r.choice([0.1, 1.0, 4.0]), shift=r.choice([0, 0, 3.0]))
    rule = "floor" if mode == "nearest" else mode

    def own(k, x):
        y = x.numpy()
        for a in range(dims):
            y = axis(k, y, 2 + a, size[a], rule, how, scales and scales[a])
        return torch.from_numpy(np.ascontiguousarray(y))

    name = {"linear": LINEAR[dims], "cubic": "bicubic"}.get(mode, mode)
    attrs = {"mode": name, **({"scale_factor": scales} if scales else {"size": size})}
    given = {"scale_factor": tuple(scales)} if scales else {"size": size}
    if how == "align_corners":
        attrs["align_corners"] = given["align_corners"] = True
    last = r.choice([torch.contiguous_format, torch.channels_last]) if dims == 2 else torch.contiguous_format
    library = lambda x: F.interpolate(x.contiguous(memory_format=last), mode=name, **given).contiguous()
    same = any(a == b for a, b in zip(n, size))
    if dt == torch.float32 and r.random() < 0.5 and not same:
        library = by_onnx_runtime(rule, how, size, scales)
        if mode == "linear" and how == "half_pixel" and not scales and all(b >= a for a, b in zip(n, size)) and r.random() < 0.5:
            library = by_jax(size)
    faults = ["scale of the sizes"] * bool(scales) + ["half a pixel off", "8 bits of fraction", "positions in bfloat16"]
    faults += {"linear": ["nearest", "the other corners", "goes on beyond the border", "weights in bfloat16"], "cubic": ["nearest", "the other corners", "coefficient -1/2", "zeros beyond the border"]}.get(mode, [])
    return "interpolate", [x], attrs, own, library, faults


def scatter(d, dt):
    """Numbers that are added to others at places that an index names: to zeros, ones or numbers."""
    r, g = d.r, d.g
    rows, n, cols = r.randint(8, 40), r.choice([10, 60, 400, 2000]), r.randint(8, 24)
    base = r.choice([lambda *s: torch.zeros(*s), lambda *s: torch.ones(*s), lambda *s: 100 * torch.randn(*s, generator=g), lambda *s: torch.randn(*s, generator=g)])(rows, cols).to(dt)
    op = r.choice(["index_add", "scatter_add", "index_put"])
    source = d.normal(n, cols, dtype=dt, scale=r.choice([0.01, 1.0, 1.0]), shift=r.choice([0, 0, 1.0]))
    index = torch.randint(0, rows, (n, cols) if op == "scatter_add" else (n,), generator=g)
    at = index if op == "scatter_add" else index[:, None].expand(n, cols)
    order = torch.randperm(n, generator=g)

    def own(k, base, i, source):
        y, m, last = base.clone(), at.clone(), n
        if k.has("overwritten"):
            return y.scatter(0, m, source)
        if k.has("base lost"):
            y.zero_()
        if k.has("off by one"):
            m = (m + 1) % rows
        if k.has("tail not added"):
            last = n - max(1, n // 16)
        if k.has("last part twice"):
            y.scatter_add_(0, m[-n // 8 :], source[-n // 8 :])
        if k.has("one update lost"):
            source = source.clone()
            source[n // 2] = 0
        if k.has("base twice"):
            y = y + base
        each = dt.itemsize == 2 and k.order not in ("pairs", "lanes", "warps")  # each addition rounded, as atomic ones are
        if y.dtype == torch.float64 or not each and not k.has("sums in bfloat16"):
            rest = order[order < last]
            for part in rest.split(max(1, n // r.choice([1, 3]))):
                y.scatter_add_(0, m[part], source[part])
            return y
        to = torch.bfloat16 if k.has("sums in bfloat16") else dt
        y = y.to(to)
        for j in order[order < last].tolist():
            y.scatter_(0, m[j : j + 1], (y.gather(0, m[j : j + 1]).float() + source[j : j + 1]).to(to))
        return y.float()

    library = {"index_add": lambda b, i, s: b.index_add(0, i, s), "scatter_add": lambda b, i, s: b.scatter_add(0, i, s), "index_put": lambda b, i, s: b.index_put((i,), s, accumulate=True)}[op]
    faults = ["overwritten", "off by one", "tail not added", "last part twice", "one update lost"] + ["sums in bfloat16"] * (dt == torch.float32) + ["base lost", "base twice"] * bool(base.count_nonzero())
    name, attrs = (library, {}) if op == "index_put" else (op, {"dim": 0})
    return name, [base, index, source], attrs, own, library, faults


def by_jax_numpy(f, dt):
    """A function of jax.numpy, of arrays of the type."""

    def g(*x):
        import jax.numpy as jnp

        to = {torch.float32: jnp.float32, torch.float16: jnp.float16, torch.bfloat16: jnp.bfloat16}[dt]
        y = f(jnp, *[jnp.asarray(v.float().numpy()).astype(to) for v in x])
        return torch.from_numpy(np.array(y.astype(jnp.float32))).to(dt)

    return g


def scalars(d, dt):
    """A function with a number that is no tensor of the inputs' format."""
    r = d.r
    c = r.choice([0.01, 0.1, 0.3, 0.7, 1.3, 1.7, r.uniform(0.05, 3)])
    x, y = d.normal(r.randint(9, 30), r.randint(17, 90), dtype=dt), d.normal(1, dtype=dt)
    y = d.normal(*x.shape, dtype=dt)
    which = r.choice(["leaky_relu", "elu", "celu", "softplus", "hardtanh", "clamp", "alpha", "lerp", "mul", "add", "sub", "div", "minimum"])
    way = r.choice(["float64", "float32", "half"])
    held = {"float64": c, "float32": float(torch.tensor(c, dtype=torch.float32)), "half": float(torch.tensor(c, dtype=dt))}[way]

    def number(k, x):
        if x.dtype == torch.float64 and not k.fault:
            return c
        off = {"number 3 % off": 1.03, "number 1 % off": 1.01, "the other sign": -1, "number of 1": 1 / c, "its reciprocal": 1 / c / c}.get(k.fault)
        return held if off is None else c * off

    forms = {
        "leaky_relu": lambda x, y, c: torch.where(x > 0, x, x * c), "elu": lambda x, y, c: torch.where(x > 0, x, c * torch.expm1(x)),
        "celu": lambda x, y, c: torch.where(x > 0, x, c * torch.expm1(x / c)), "softplus": lambda x, y, c: torch.where(x * c > 20, x, torch.log1p(torch.exp(x * c)) / c),
        "hardtanh": lambda x, y, c: torch.minimum(x.clamp(min=-1), torch.full_like(x, c)), "clamp": lambda x, y, c: torch.maximum(x, torch.full_like(x, -c)),
        "alpha": lambda x, y, c: x + c * y, "lerp": lambda x, y, c: x + c * (y - x), "mul": lambda x, y, c: x * c, "add": lambda x, y, c: x + c, "sub": lambda x, y, c: x - c,
        "div": lambda x, y, c: x / c, "minimum": lambda x, y, c: torch.minimum(x, torch.full_like(x, c)),
    }
    pair = which in ("alpha", "lerp")
    as_tensor = which in ("mul", "add", "sub", "div", "minimum") and r.random() < 0.5
    t = torch.tensor(c, dtype=torch.float64)
    calls = {
        "leaky_relu": lambda x: F.leaky_relu(x, c), "elu": lambda x: F.elu(x, c), "celu": lambda x: F.celu(x, c), "softplus": lambda x: F.softplus(x, c), "hardtanh": lambda x: F.hardtanh(x, -1, c),
        "clamp": lambda x: x.clamp(min=-c), "alpha": lambda x, y: torch.add(x, y, alpha=c), "lerp": lambda x, y: torch.lerp(x, y, c), "mul": lambda x: x * c, "add": lambda x: x + c,
        "sub": lambda x: x - c, "div": lambda x: x / c, "minimum": lambda x: x.clamp(max=c),
    }
    with_tensor = {"mul": lambda x, t: x * t, "add": lambda x, t: x + t, "sub": lambda x, t: x - t, "div": lambda x, t: x / t, "minimum": torch.minimum}
    traced = with_tensor[which] if as_tensor else calls[which]
    ins = [x, t] if as_tensor else [x, y] if pair else [x]
    own = lambda k, x, *rest: forms[which](x, rest[0] if pair else None, number(k, x))
    library = traced
    if which in ("mul", "add", "sub", "div", "leaky_relu", "softplus") and r.random() < 0.4 and not as_tensor:
        jaxs = {"mul": lambda n, x: x * c, "add": lambda n, x: x + c, "sub": lambda n, x: x - c, "div": lambda n, x: x / c, "leaky_relu": lambda n, x: n.where(x >= 0, x, c * x), "softplus": lambda n, x: n.logaddexp(x * c, 0) / c}
        library = by_jax_numpy(jaxs[which], dt) if which != "softplus" else traced
    if which == "minimum" and as_tensor:
        library = None
    return traced, ins, {}, own, library, ["number 3 % off", "the other sign", "number of 1", "its reciprocal"] + ["number 1 % off"] * (dt != torch.bfloat16)


def powers(d, dt):
    """A whole power of what a kernel computed, most of it below 0."""
    r = d.r
    n, c = r.choice([2, 3, -1, -2, 4, 5]), r.choice([1.0, 1.3, 0.7])
    x, dy = d.normal(r.randint(9, 30), r.randint(17, 90), dtype=dt, shift=r.choice([0, -1.0])), d.normal(1, dtype=dt)
    dy = d.normal(*x.shape, dtype=dt)
    if n < 0:
        x = torch.where(x.abs() < 0.2, x - 1, x)
    which = r.choice(["tanh", "scaled", "shifted"])
    inner = {"tanh": torch.tanh, "scaled": lambda x: x * c, "shifted": lambda x: x * c - 0.5}[which]
    if which == "shifted" and n < 0:
        n = 2
    f = lambda dy, x: dy * (1 - inner(x) ** n)

    def own(k, dy, x):
        b = inner(x)
        if k.has("its size"):
            b = b.abs()
        m = n + 1 if k.has("one power more") else n
        p = torch.ones_like(b)
        for _ in range(abs(m)):
            p = p * b
        p = 1 / p if m < 0 else p
        if k.has("power in bfloat16"):
            p = p.to(torch.bfloat16).to(p.dtype)
        if k.has("below 0 is 0"):
            p = torch.where(b < 0, torch.zeros_like(p), p)
        return dy * (1 - p)

    return f, [dy, x], {}, own, f, ["one power more", "below 0 is 0"] + ["its size"] * (n % 2) + ["power in bfloat16"] * (dt == torch.float32)


def to(t, dt):
    """Numbers rounded to a type, as they are."""
    return t.to(dt).to(t.dtype)


def windows(k, n, m, cubic, dt):
    """The weights by which each of m results takes part of n numbers, [m, n]: those of PyTorch's antialias."""
    a = -0.75 if k.has("coefficient -3/4") else -0.5
    scale, y = n / m, np.zeros((m, n))
    wide = 1.0 if k.has("no antialias") else max(scale, 1.0)
    reach = (2 if cubic else 1) * wide
    near, far = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1, lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    for i in range(m):
        center = scale * (i + (0.0 if k.has("half a pixel off") else 0.5))
        first, last = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), n)
        d = np.abs((np.arange(first, last) - center + 0.5) / wide)
        w = np.where(d < 1, near(d), np.where(d < 2, far(d), 0.0)) if cubic else np.clip(1 - d, 0, None)
        all = 1.0 if k.has("weights not of sum 1") or w.sum() == 0 else to(torch.tensor(w.sum()), dt).item()
        y[i, first:last] = to(torch.from_numpy(w), dt).numpy() / all
    y = to(torch.from_numpy(y), dt)
    return to(y, torch.bfloat16) if k.has("weights in bfloat16") else y


def antialias(d, dt):
    """A resize with windows as wide as the numbers that a result stands for. Devices keep weights, and the numbers between
    the two axes, in float32, or, as PyTorch's for CUDA do, in the inputs' format."""
    r = d.r
    n = [r.randint(9, 50) for _ in range(2)]
    size = [max(2, int(v * r.uniform(0.15, 1.3))) for v in n]
    mode = r.choice(["bilinear", "bicubic"])
    x = d.normal(r.randint(1, 3), r.choice([1, 3, 8]), *n, dtype=dt, scale=r.choice([0.1, 1.0, 4.0]), shift=r.choice([0, 0, 3.0]))
    rounded = r.random() < 0.5

    def own(k, x):
        single = x.dtype == torch.float32
        kept = dt if rounded and single else x.dtype
        w = [windows(k, a, b, mode == "bicubic", kept).to(x) for a, b in zip(n, size)]
        if k.order == "pairs" and not rounded:
            return w[0] @ x @ w[1].T
        return w[0] @ to(x @ w[1].T, kept)

    library = (lambda x: F.interpolate(x, size=size, mode=mode, antialias=True)) if dt == torch.float32 else None
    shrinks = max(a / b for a, b in zip(n, size)) > 1.5
    faults = ["half a pixel off"] + ["weights in bfloat16"] * (dt == torch.float32) + ["coefficient -3/4"] * (mode == "bicubic") + ["no antialias", "weights not of sum 1"] * shrinks
    return "interpolate", [x], {"mode": mode, "size": size, "antialias": True}, own, library, faults


# Winograd's transforms of numbers, weights and results, by the side of a tile (A. Lavin and S. Gray, 2016).
WINOGRAD = {
    2: ([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], 2, [[1, 1, 1, 0], [0, 1, -1, -1]]),
    4: ([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]],
        [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], 24, [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]),
}


def winograd(d, dt):
    """A convolution of 3 x 3 with padding 1, by tiles of results."""
    r = d.r
    c, oc, h, w = r.choice([1, 4, 16, 40]), r.choice([2, 8]), r.randint(4, 22), r.randint(4, 22)
    m = r.choice([2, 4]) if dt == torch.float32 else 2
    x = d.normal(r.choice([1, 2]), c, h, w, dtype=dt, scale=r.choice([0.1, 1.0, 4.0]), shift=r.choice([0, 0, 0.5]))
    weight, b = d.normal(oc, c, 3, 3, dtype=dt, scale=(9 * c) ** -0.5), d.normal(oc, dtype=dt)
    data, weights, by, out = (torch.tensor(v, dtype=torch.float64) for v in WINOGRAD[m])

    def own(k, x, g, b):
        if x.dtype == torch.float64:
            y = F.conv2d(x, g, padding=1)
        elif k.tf32:  # of which there are no tiles
            y = k.product(g.flatten(1), F.unfold(x, 3, padding=1)).unflatten(-1, (h, w))
        else:
            down, across = -(-h // m), -(-w // m)
            tiles = F.pad(x, (1, m * across - w + 1, 1, m * down - h + 1)).unfold(2, m + 2, m).unfold(3, m + 2, m)
            tiles = data.float() @ tiles @ data.float().T
            g = (weights / by).float() @ g @ (weights / by).float().T
            if k.has("tiles in bfloat16"):
                tiles = to(tiles, torch.bfloat16)
            if k.has("weights in bfloat16"):
                g = to(g, torch.bfloat16)
            if k.has("last channel lost"):
                tiles, g = tiles[:, : c - 1], g[:, : c - 1]
            y = torch.einsum("nchwij,ocij->nohwij", tiles, g) if k.order != "pairs" else sum(tiles[:, None, i] * g[None, :, i, None, None] for i in range(tiles.shape[1]))
            if k.has("sums in bfloat16"):
                y = to(y, torch.bfloat16)
            y = out.float() @ y @ out.float().T
            if k.has("last tile shifted"):
                y[:, :, -1] = y[:, :, -1].roll(1, -1)
            y = y.transpose(3, 4).reshape(*y.shape[:2], m * down, m * across)[..., :h, :w]
        return y if k.has("no bias") else y + b[:, None, None]

    faults = ["no bias", "last tile shifted"] + ["tiles in bfloat16", "weights in bfloat16", "sums in bfloat16"] * (dt == torch.float32) + ["last channel lost"] * (c > 1)
    return "conv2d", [x, weight, b], {"stride": [1, 1], "padding": [1, 1]}, own, None, faults


def one_sign(d, dt):
    """Attention on numbers of [0, 1): sums of one sign, whose roundings all go one way."""
    r = d.r
    t, keys, e = r.randint(8, 70), r.choice([17, 32, 40, 64, 100]), r.choice([16, 32, 64])
    draw = lambda *s: torch.rand(*s, generator=d.g).to(dt)
    ins = [draw(2, t, e), draw(2, keys, e), draw(2, keys, e)]

    def own(k, q, key, v):
        s = k.product(q, key.transpose(-1, -2)) * (1 if k.has("no scale") else e**-0.5)
        if k.has("last keys lost"):
            s[..., -1:] = -math.inf
        p = k.exp(s - s.amax(-1, keepdim=True))
        z = k.sum(p, -1)
        if k.order in ("lanes", "16"):  # probabilities not divided yet, as online softmax has them
            return k.product(to(p, dt) if p.dtype == torch.float32 else p, v) / z
        p = p / z
        if k.order == "pairs" and p.dtype == torch.float32:
            p = to(p, dt)
        return k.product(to(p, torch.bfloat16) if k.has("probabilities in bfloat16") else p, v)

    faults = ["no scale", "last keys lost"] + ["probabilities in bfloat16"] * (dt == torch.float32)
    return "scaled_dot_product_attention", ins, {}, own, lambda *a: F.scaled_dot_product_attention(*a), faults


def infinite(d, dt):
    """Functions where some numbers are infinite, as masks make them."""
    r = d.r
    x = d.normal(r.randint(9, 30), r.randint(17, 90), dtype=dt, scale=r.choice([1.0, 10.0]))
    x[torch.rand(x.shape, generator=d.g) < r.choice([0.02, 0.3])] = -math.inf
    which = r.choice(["logsumexp", "softmax", "log_softmax", "max", "sigmoid", "tanh", "exp", "gelu_tanh", "softplus", "elu", "relu"])
    x[:, 0] = 1
    if which in ("logsumexp", "max", "relu", "sigmoid", "tanh", "softplus", "elu") and r.random() < 0.5:
        x[1, 2] = math.inf
    if which == "logsumexp" and r.random() < 0.3:
        x[2] = -math.inf
    if which == "gelu_tanh":
        x = x.nan_to_num(neginf=-60.0)
    f = {"logsumexp": lambda x: x.logsumexp(-1), "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "max": lambda x: x.amax(-1), "sigmoid": torch.sigmoid,
         "tanh": torch.tanh, "exp": torch.exp, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus, "elu": F.elu, "relu": F.relu}[which]

    def own(k, x):
        if k.has("infinity left out"):
            x = torch.where(x == math.inf, torch.zeros_like(x), x)
        if k.has("-100 for -infinity"):
            x = torch.where(x == -math.inf, torch.full_like(x, -3.0), x)
        y = f(x)
        return torch.where(y.isinf(), torch.full_like(y, math.nan), y) if k.has("NaN for infinity") else y

    y = f(x.double())
    faults = ["-100 for -infinity"] * (not torch.equal(f(torch.where(x == -math.inf, torch.full_like(x, -3.0), x).double()), y)) + ["NaN for infinity"] * bool(y.isinf().any())
    faults += ["infinity left out"] * bool((x == math.inf).any())
    return f, [x], {}, own, f, faults


def subnormal(d, dt):
    """Functions of numbers below the least normal one of their format, which a device keeps or takes for 0."""
    r = d.r
    tiny = {torch.float16: 2.0**-14, torch.bfloat16: 2.0**-126, torch.float32: 2.0**-126}[dt]
    x = d.normal(r.randint(9, 30), r.randint(17, 60), dtype=dt, scale=r.choice([0.1, 1.0, 8.0, 200.0]) * tiny)
    which = r.choice(["silu", "gelu", "elu", "tanh", "expm1", "selu", "mul", "softplus", "relu", "celu", "add"])
    f = {"silu": F.silu, "gelu": F.gelu, "elu": F.elu, "tanh": torch.tanh, "expm1": torch.expm1, "selu": F.selu, "mul": lambda x: x * 0.3, "softplus": F.softplus, "relu": F.relu,
         "celu": lambda x: F.celu(x, 0.7), "add": lambda x: x + x}[which]
    flush = lambda x: torch.where(x.abs() < 2.0**-126, torch.zeros_like(x), x) if x.dtype == torch.float32 else x

    def own(k, x):
        if k.has("float16's subnormals are 0"):
            x = torch.where(x.abs() < 2.0**-14, torch.zeros_like(x), x)
        x = -x if k.has("the other sign") else x
        if which == "expm1" and dt == torch.float16 and k.exp2 and x.dtype == torch.float32:  # as XLA, which stores each of these
            store = lambda t: t.to(dt).float()
            e = store(k.exp(x))
            y = torch.where(x.abs() > 0.5, e - 1, store(torch.tanh(x / 2)) * store(e + 1))
        else:
            y = f(x)
        y = y * {"times 3": 3, "half of it": 0.5}.get(k.fault, 1)
        return flush(y) if k.order == "lanes" else y

    big = d.normal(1, x.shape[1], dtype=dt)
    x = torch.cat([x, big]) if which != "expm1" else x
    return f, [x], {}, own, f, ["the other sign", "times 3"] + ["float16's subnormals are 0"] * (dt == torch.float16 and which != "softplus")


KINDS = {"resize": resize, "scatter": scatter, "scalars": scalars, "powers": powers, "antialias": antialias, "winograd": winograd, "one_sign": one_sign, "infinite": infinite,
         "subnormal": subnormal}
