"""How far what PyTorch returned (make.py ops) is from the exact value of each
operation rounded once, and which order of roundings explains the rest.

    python3 measure.py SET/ops [...]

It needs numpy only. Exact values are float64: products of halves are exact in
it, and its sums err by 2^-53, far below what is told apart here.
"""

import json
import math
import struct
import sys

import numpy as np

BITS = {"bfloat16": (8, -126), "float16": (11, -14), "float32": (24, -126)}  # precision, least exponent
LARGEST = {"bfloat16": (2 - 2.0**-7) * 2.0**127, "float16": 65504.0, "float32": (2 - 2.0**-23) * 2.0**127}


def rn(y, dtype):
    """y rounded to nearest even, subnormals kept, overflow to infinity."""
    p, least = BITS[dtype]
    y = np.asarray(y, np.float64)
    e = np.maximum(np.frexp(y)[1] - 1, least)
    r = np.ldexp(np.rint(np.ldexp(y, p - 1 - e)), e - p + 1)
    r = np.where(np.abs(r) > LARGEST[dtype], np.copysign(np.inf, y), r)
    return np.where(np.isfinite(y), r, y)


def tensors(path):
    """name: values as float64"""
    b = open(path, "rb").read()
    n, = struct.unpack("<Q", b[:8])
    out = {}
    for name, t in json.loads(b[8:8 + n]).items():
        if name == "__metadata__":
            continue
        lo, hi = t["data_offsets"]
        d = b[8 + n + lo:8 + n + hi]
        if t["dtype"] == "BF16":
            v = (np.frombuffer(d, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            v = np.frombuffer(d, {"F16": "<f2", "F32": "<f4"}[t["dtype"]])
        out[name] = v.astype(np.float64).reshape(t["shape"])
    return out


def ulps(a, b, dtype):
    """Steps of the grid from a to b."""
    p, least = BITS[dtype]
    def place(y):
        m, e = np.frexp(np.abs(y))
        e = np.maximum(e - 1, least)
        return np.sign(y) * (np.ldexp(np.abs(y), p - 1 - e) + np.ldexp(1.0, p - 1) * (e - least))
    return np.abs(place(a) - place(b))


def report(name, got, exact, dtype, error=None):
    """Is got = rn(exact)? error bounds what float32 arithmetic may add: near a
    tie it may decide the rounding, away from one it cannot."""
    ok = np.isfinite(exact) & np.isfinite(got)
    got, exact = got[ok], exact[ok]
    want = rn(exact, dtype)
    differ = got != want
    line = "%-26s %7d of %7d equal" % (name, differ.size - differ.sum(), differ.size)
    if error is not None:
        e = error[ok]
        near = rn(exact - e, dtype) != rn(exact + e, dtype)
        outside = (got < rn(exact - e, dtype)) | (got > rn(exact + e, dtype))
        line += ", %d near a tie, %d differ away from one" % (near.sum(), outside.sum())
    if differ.any():
        line += "; largest %d ulp, %.2g absolute beyond rounding" % (
            ulps(got, want, dtype).max(), np.abs(got - want)[differ].max())
    print("  " + line)


def models(name, got, **candidates):
    """How many elements each candidate explains."""
    print("    " + name + ": " + ", ".join("%s %d/%d" % (k, ((c == got) | (np.isnan(c) & np.isnan(got))).sum(), got.size)
                                      for k, c in candidates.items()))


# --- operations ------------------------------------------------------------

U = 2.0**-24


def windows(x, k, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    w = np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))
    return w[:, :, ::stride, ::stride]


def conv(x, w, stride, pad):
    v = windows(x, w.shape[2], stride, pad)
    return np.einsum("nchwij,ocij->nohw", v, w)


def conv_transpose(x, w, stride):
    n, c, h, wd = x.shape
    k = w.shape[2]
    y = np.zeros((n, w.shape[1], (h - 1) * stride + k, (wd - 1) * stride + k))
    for i in range(k):
        for j in range(k):
            y[:, :, i:i + stride * h:stride, j:j + stride * wd:stride] += np.einsum("nchw,co->nohw", x, w[:, :, i, j])
    return y


def measure_conv(name, t, a, low, dtype, transposed):
    low = dtype if transposed else low  # 1.13 computes it in float32
    x, w = rn(t["x"], low), rn(t["weight"], low)
    b = t.get("bias", np.zeros(1)).reshape(1, -1, 1, 1)
    run = (lambda x, w: conv_transpose(x, w, a["stride"])) if transposed else (lambda x, w: conv(x, w, a["stride"], a["padding"]))
    y, size = run(x, w), run(abs(x), abs(w)) + abs(rn(b, low))
    terms = w[0].size + 1
    report(name, t["out"], y + rn(b, low), dtype, terms * U * size)
    if "bias" in t:
        models("bias", t["out"], rounded_inside=rn(y + rn(b, low), dtype), float32_inside=rn(y + b, dtype),
               added_after=rn(rn(y, dtype) + rn(b, low), dtype))


def measure_norm(name, t, a, dtype):
    x = t["x"]
    n, c, h, w = x.shape
    gamma, beta = t["weight"].reshape(1, c, 1, 1), t["bias"].reshape(1, c, 1, 1)
    if "mean" in t:
        mu, var = t["mean"].reshape(1, c, 1, 1), t["variance"].reshape(1, c, 1, 1)
    else:
        g = x.reshape(n, a.get("num_groups", c), -1)
        spread = lambda v: np.broadcast_to(v[:, :, None], g.shape).reshape(x.shape)
        mu, var = spread(g.mean(2)), spread(g.var(2))
    scale = gamma / np.sqrt(var + 1e-5)
    # y = x*a + (beta - mean*a) in float32: a few roundings of each term.
    size = abs(x * scale) + abs(mu * scale) + abs(beta)
    report(name, t["out"], (x - mu) * scale + beta, dtype, 4 * U * size)


def exact_activation(op, x):
    each = lambda f: np.array([f(v) if math.isfinite(v) else math.nan for v in x])
    if op == "gelu":  # erfc keeps its digits in the tail
        return each(lambda v: v / 2 * math.erfc(-v / math.sqrt(2)))
    if op == "gelu_tanh":
        def f(v):
            z = 2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
            return v / (1 + math.exp(-z)) if z > -700 else 0.0 * v
        return each(f)
    if op == "silu":
        return each(lambda v: v / (1 + math.exp(-v)) if v > -700 else 0.0 * v)
    return np.tanh(x)


def every_input(low):
    bits = np.arange(1 << 16, dtype=np.uint32)
    return ((bits << 16).view(np.float32) if low == "bfloat16" else bits.astype("<u2").view("<f2")).astype(np.float64)


def measure_activation(name, op, t, low):
    x = every_input(low)
    exact, got = exact_activation(op, x), t["out"]
    report(name, got, exact, low, 4 * U * abs(exact))
    r = lambda v: rn(v, low)
    finite = np.isfinite(exact) & np.isfinite(got)
    d = (got != r(exact)) & finite
    subnormal = abs(exact) < 2.0**BITS[low][1]
    for what, where in (("subnormal result", subnormal), ("-3 <= x < 0", (x >= -3) & (x < 0) & ~subnormal),
                        ("x < -3", (x < -3) & ~subnormal), ("x > 0", (x > 0) & ~subnormal)):
        m = d & where
        if m.any():
            print("      %s: %d of %d differ, largest error %.2g" % (what, m.sum(), (where & finite).sum(), abs(got - exact)[m].max()))
    if op == "silu":
        models(op, got[finite], rounded_once=r(exact)[finite], rounds_each=r(x / r(1 + r(np.exp(-x))))[finite])
    if op == "gelu_tanh":
        inner = r(r(math.sqrt(2 / math.pi)) * r(x + r(r(0.044715) * r(r(x * x) * x))))
        models(op, got[finite], rounded_once=r(exact)[finite], rounds_each=r(r(x / 2) * r(1 + r(np.tanh(inner))))[finite])
    got_nan, x_nan = np.isnan(got), np.isnan(x)
    print("      NaN out of: %d NaN inputs, %d others; f(+Inf) = %g, f(-Inf) = %g, -0 gives %+g" % (
        (got_nan & x_nan).sum(), (got_nan & ~x_nan).sum(), got[x == np.inf][0], got[x == -np.inf][0], got[1 << 15]))


def products(c, y, low):
    """A constant times a half tensor: the constant float32 and the product
    rounded once, or to float32 first, or the constant itself a half."""
    c32 = rn(c, "float32")
    return {"float32_once": rn(c32 * y, low), "float32_twice": rn(rn(c32 * y, "float32"), low),
            "half_constant": rn(rn(c, low) * y, low)}


def measure_elementwise(name, op, t, a, low, dtype):
    r, r32, got = lambda v: rn(v, low), lambda v: rn(v, "float32"), t["out"]
    s = t["s"][0] if "s" in t else None
    if op in ("scale", "gaussian", "multiplicative", "laplace"):
        shape = {
            "scale": lambda ns: ns,
            "gaussian": lambda ns: r(t["x"] + ns),
            "multiplicative": lambda ns: r(t["x"] * r(1 + ns)),
            "laplace": lambda ns: r(t["x"] + ns),
        }[op]
        n = t["n"] if op != "laplace" else r(t["e"] * np.sign(t["n"]))
        models(name, got, **{k: shape(v) for k, v in products(s, n, low).items()})
    elif op == "dropout2d":
        p, mask = a["p"], t["mask"]
        pf = float(np.float32(p))
        k = r32(1 / r32(1 - pf))
        models(name, got, half_quotient=r(t["x"] * (mask * r(1 / (1 - pf)))),
               half_of_half=r(t["x"] * (mask * r(1 / r(1 - pf)))), float32_quotient=r(t["x"] * (mask * k)))
    elif op == "convex":
        al, x, y = a["alpha"], t["x"], t["y"]
        f = lambda cy: r32(r32(r32(al) * x) + cy)
        models(name, got, **{k: f(v) for k, v in products(1 - al, y, low).items()})
    elif op == "residual":
        models(name, got, **{k: r32(t["x"] + v) for k, v in products(a["dt"], t["y"], low).items()})
    elif op == "scaled":
        models(name, got, **products(a["factor"], t["y"], low))
    elif op == "add":
        report(name, got, t["a"] + t["b"], dtype)
    elif op == "avg_pool2d":
        k = a["kernel_size"]
        report(name, got, windows(t["x"], k, k, 0).mean((4, 5)), dtype)
    elif op == "nearest":
        f = a["scale_factor"]
        report(name, got, t["x"].repeat(f, 2).repeat(f, 3), dtype)
    elif op == "bilinear":
        f = a["scale_factor"]
        def lerp(x, axis):
            n = x.shape[axis]
            at = np.maximum(0, (np.arange(n * f) + 0.5) / f - 0.5)
            i = np.floor(at).astype(int)
            g = (at - i).reshape([-1 if d == axis else 1 for d in range(4)])
            return x.take(i, axis) * (1 - g) + x.take(np.minimum(i + 1, n - 1), axis) * g
        report(name, got, lerp(lerp(t["x"], 2), 3), dtype)
        def narrow(x, axis):  # a half scale, a float32 coordinate, half weights, every operation rounds
            n = x.shape[axis]
            at = np.maximum(0, r32(r32(r(1 / f) * (np.arange(n * f) + 0.5)) - 0.5))
            i = np.minimum(np.floor(at).astype(int), n - 1)
            g = r(at - i)
            low, high = (v.reshape([-1 if d == axis else 1 for d in range(4)]) for v in (r(1 - g), g))
            return r(r(x.take(i, axis) * low) + r(x.take(np.minimum(i + 1, n - 1), axis) * high))
        models(name, got, rounds_each=narrow(narrow(t["x"], 3), 2))
    else:
        sys.exit("%s: no formula for %s" % (name, op))


def main():
    np.seterr(all="ignore")  # NaNs and infinities are among the inputs
    for folder in sys.argv[1:]:
        index = json.load(open(folder + "/index.json"))
        print("%s: %s" % (folder, index["produced_by"]))
        low = next(c["out_dtype"] for c in index["cases"] if c["op"] == "tanh")
        for c in index["cases"]:
            t, name = tensors(folder + "/" + c["file"]), c["file"].removesuffix(".safetensors")
            if c["op"] in ("conv2d", "conv_transpose2d"):
                measure_conv(name, t, c["attrs"], low, c["out_dtype"], c["op"] == "conv_transpose2d")
            elif c["op"].endswith("_norm"):
                measure_norm(name, t, c["attrs"], c["out_dtype"])
            elif name.startswith("act_"):
                measure_activation(name, c["op"], t, low)
            else:
                measure_elementwise(name, c["op"], t, c["attrs"], low, c["out_dtype"])


main()
