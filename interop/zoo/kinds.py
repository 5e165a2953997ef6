"""Kinds of kernels for kernels.py that are more than an operation with a fault: each has forms that are all right, real
libraries among them, and faults of its own.

    scatter   numbers added at places that an index names: index_add, scatter_add and index_put
    scalars   functions with attributes and numbers in place of tensors: Python's, and float64 tensors of no axes
    powers    whole powers of numbers below 0 that a kernel computed
    resize    linear and cubic interpolation and the nearest number, by sizes and by scales, in 1 to 3 dimensions
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
        return torch.from_numpy(s.run(None, {"x": x.numpy()})[0])

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


KINDS = {"resize": resize, "scatter": scatter, "scalars": scalars, "powers": powers}
