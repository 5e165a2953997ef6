"""Faults of precision and arithmetic. Letters and numbers below 50 are those of the
literature survey this zoo grew from; the others are additions."""

import numpy as np

import cores
import functions
import sums
from catalogue import ALL, CONVS, HALF, NORMED, STATS, fault
from formats import f32, half, half_truncated, significand, tf32

F16, F32 = ("float16",), ("float32",)
GELU = {"activation": ["gelu"]}
CURVED = {"activation": ["gelu", "silu", "tanh"]}


def by_columns(c, f):
    """The convolution with f(columns [K,P], weights [O,K]) for its sums."""
    def total(x, w):
        o, _, k, _ = w.shape
        n, _, h, wd = x.shape
        y = f(sums.columns(x, k), w.reshape(o, -1))
        return y.reshape(o, n, h, wd).transpose(1, 0, 2, 3)
    return c.conv(total=total)


@fault("P01", "precision", CONVS, "the accumulator is rounded to the half type after every term", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.narrow(x, w, c.dev.half)))


@fault("P02", "precision", CONVS, "the accumulator is rounded to the half type after blocks of 16 terms", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.narrow(x, w, c.dev.half, 16)))


@fault("P03", "precision", CONVS, "split-K with partial sums in the half type", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.split(x, w, 4, c.dev.half)))


@fault("P03b", "precision", "conv", "split-K with partial sums in the half type, in one layer, its parts unequal and the channels innermost", modes=HALF, where="one")
def _(c):
    def f(x, w):
        i = sums.channels_last(c.args[1].shape[2] ** 2, w)
        n = -(-len(x) // 32) * 16     # the first part is whole blocks of 16 terms
        x, w = x[i], w[:, i]
        return c.dev.half(sums.sequential(x[:n], w[:, :n])) + c.dev.half(sums.sequential(x[n:], w[:, n:]))
    return c.mix(by_columns(c, f))


@fault("P04", "precision", CONVS, "partial sums added atomically into a half output", modes=HALF)
def _(c):
    def f(x, w):
        parts = np.array_split(np.arange(len(x)), 4)
        acc = 0
        for i in c.rng_t.permutation(4):
            acc = c.dev.half(f32(acc + sums.sequential(x[parts[i]], w[:, parts[i]])))
        return acc
    return c.mix(by_columns(c, f))


@fault("P05", "precision", CONVS, "a bfloat16 accumulator, rounded after blocks of 16", modes=F16)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.narrow(x, w, lambda v: half(v, "bfloat16"), 16)))


@fault("P06", "precision", CONVS, "TF32 operands in float32", modes=F32)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.sequential(tf32(x), tf32(w))))


@fault("P06e", "precision", CONVS, "a tensor core's TF32 in float32: operands cut off, sums cut toward zero", modes=F32)
def _(c):
    return c.mix(by_columns(c, lambda x, w: cores.total("a100", "tf32", tf32(x, "truncate"), tf32(w, "truncate"))))


@fault("P06b", "precision", CONVS, "bfloat16 operands", modes=("float32", "tf32", "float16"))
def _(c):
    b = lambda v: half(v, "bfloat16")
    return c.mix(by_columns(c, lambda x, w: sums.sequential(b(x), b(w))))


@fault("P06c", "precision", CONVS, "float16 operands in float32", modes=F32)
def _(c):
    b = lambda v: half(v, "float16")
    return c.mix(by_columns(c, lambda x, w: sums.sequential(b(x), b(w))))


@fault("P06d", "precision", CONVS, "weights alone in bfloat16", modes=("float32", "tf32", "float16"))
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.sequential(x, half(w, "bfloat16"))))


@fault("P07", "precision", CONVS, "three bfloat16 products for one of float32", modes=F32)
def _(c):
    def f(x, w):
        b = lambda v: half(v, "bfloat16")
        xh, wh = b(x), b(w)
        acc = sums.sequential(b(x - xh), wh)
        acc = sums.sequential(xh, b(w - wh), start=acc)
        return sums.sequential(xh, wh, start=acc)
    return c.mix(by_columns(c, f))


@fault("P07b", "precision", CONVS, "two TF32 products for one of float32: the low part of the weights is lost", modes=F32)
def _(c):
    def f(x, w):
        xh = tf32(x)
        return sums.sequential(xh, tf32(w), start=sums.sequential(tf32(x - xh), tf32(w)))
    return c.mix(by_columns(c, f))


@fault("P09", "precision", CONVS, "weights truncated to the half type", modes=HALF)
def _(c):
    w = half_truncated(c.args[1], c.dev.mode)
    return c.mix(c.conv(w=w))


@fault("P09b", "precision", CONVS, "inputs truncated to bfloat16 by dropping their bits", modes=("bfloat16",), need={"policy_type": ["convex", "residual"]})
def _(c):
    return c.mix(c.conv(x=half_truncated(c.args[0], "bfloat16")))


@fault("P10", "precision", CONVS + ("norm", "act"), "results truncated when stored", modes=HALF)
def _(c):
    if not c.is_half:
        return c.good()
    bad = half_truncated(c.good(), c.dev.mode)
    return c.some(c.stored(c.good()), bad, c.rng)


@fault("P10b", "precision", CONVS, "results of convolutions rounded up, not to nearest", modes=HALF)
def _(c):
    g = c.good()
    near = c.stored(g)
    up = np.where(near < g, np.nextafter(near.astype(np.float16), np.float16(np.inf)).astype(np.float32)
                  if c.dev.mode == "float16" else (near.view(np.int32) + np.where(near >= 0, 1 << 16, -(1 << 16)).astype(np.int32)).view(np.float32), near)
    return c.some(near, up, c.rng)


@fault("P12", "precision", CONVS, "stored through a narrower format: ties are rounded twice", modes=HALF)
def _(c):
    extra = {1: 1, .25: 3, .0625: 5}[c.a]
    p = (11 if c.dev.mode == "float16" else 8) + extra
    return significand(c.good(), p)


@fault("P15", "precision", "act", "tanh-GELU for erf-GELU", need=GELU)
def _(c):
    return c.mix(functions.gelu_tanh(c.args[0].astype(np.float64)))


@fault("P16", "precision", "act", "x sigmoid(1.702 x) for GELU", need=GELU, accept=("logic",))
def _(c):
    x = c.args[0].astype(np.float64)
    return c.mix(x / (1 + np.exp(-1.702 * x)))


@fault("P17", "precision", "act", "a constant of the activation with four digits", need=CURVED, accept=("logic",))
def _(c):
    x, name = c.args[0].astype(np.float64), c.op.config["activation"]
    if name == "gelu":
        return c.mix(.5 * x * (1 + functions.erf(x * .7071)))
    y = f32(x) * np.float32(1.0001)
    return c.mix(functions.EXACT[name](y.astype(np.float64)))


@fault("P18", "precision", "act", "an exponential overflows in half: NaN in the tail", modes=F16, need={"activation": ["tanh", "silu", "gelu"]}, accept=("rare", "logic"))
def _(c):
    x = c.args[0].astype(np.float64)
    if c.op.config["activation"] == "tanh":
        e = half(np.exp(2 * x), "float16")
        return c.some(c.good(), (e - 1) / (e + 1), c.rng)
    return c.some(c.good(), np.where(np.isinf(half(np.exp(x * x / 2), "float16")), np.nan, c.good()), c.rng)


@fault("P19", "precision", "act", "coefficients of a polynomial rounded to half", need=GELU)
def _(c):
    x = c.args[0]
    k = [float(np.float16(v)) for v in functions.POLYNOMIAL]
    e = functions.polynomial_erf(x * np.float32(np.sqrt(.5)), k, float(np.float16(.3275911)))
    return c.mix(x * np.float32(.5) * (1 + e))


@fault("P20", "precision", "act", "a fast exponential or tanh of relative error 2^-8", need=CURVED)
def _(c):
    x, name = c.args[0].astype(np.float64), c.op.config["activation"]
    ripple = 1 + 2.0 ** -8 * np.sin(9 * x)
    if name == "tanh":
        return c.mix(np.tanh(x) * ripple)
    return c.mix(functions.EXACT[name](x) * ripple)


@fault("P20b", "precision", "act", "an activation from a table of 512 entries without interpolation", need=CURVED)
def _(c):
    x = c.args[0].astype(np.float64)
    q = np.round(np.clip(x, -8, 8) * 32) / 32
    return c.mix(np.where(np.abs(x) < 8, functions.EXACT[c.op.config["activation"]](q), x if c.op.config["activation"] != "tanh" else np.sign(x)))


@fault("P21", "precision", "act", "the activation is computed in the half type throughout", modes=HALF, need=CURVED)
def _(c):
    h, x, name = c.dev.half, c.dev.half(c.args[0]), c.op.config["activation"]
    if name == "silu":
        bad = h(x / h(f32(1 + h(f32(np.exp(-x))))))
    elif name == "tanh":
        e = h(f32(np.exp(-2 * np.abs(x))))
        bad = np.copysign(h(h(1 - e) / h(1 + e)), x)
    else:
        e = h(functions.erf(h(x * h(np.float32(np.sqrt(.5))))))
        bad = h(h(x * np.float32(.5)) * h(1 + e))
    return c.mix(bad)


@fault("P22", "precision", "norm", "the unbiased variance", need=STATS)
def _(c):
    def moments(x):
        m, v = c.dev.moments(x)
        n = x.shape[-1]
        return m, f32(v * n / (n - 1))
    return c.mix(c.norm(moments=moments))


@fault("P23", "precision", "norm", "eps is 1e-3", need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: c.dev.inverse(v, 1e-3)))


@fault("P23b", "precision", "norm", "eps is 1e-4", need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: c.dev.inverse(v, 1e-4)))


@fault("P23c", "precision", "norm", "eps is 1e-6", need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: c.dev.inverse(v, 1e-6)))


@fault("P24", "precision", "norm", "eps outside the root", need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: f32(1 / (np.sqrt(v.astype(np.float64)) + 1e-5))))


@fault("P25", "precision", "norm", "no eps", need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: c.dev.inverse(v, 0)))


@fault("P26", "precision", "norm", "eps is lost in a half sum var + eps", modes=HALF, need=NORMED)
def _(c):
    return c.mix(c.norm(inverse=lambda v: f32(1 / np.sqrt(c.dev.half(c.dev.half(v) + c.dev.half(np.float32(1e-5))).astype(np.float64)))))


@fault("P27", "precision", "norm", "one-pass variance of half squares and means", modes=HALF, need=STATS)
def _(c):
    h = c.dev.half
    def moments(x):
        m = h(c.dev.mean(x))
        return m, np.maximum(h(h(c.dev.mean(h(x * x))) - h(m * m)), np.float32(0))
    return c.mix(c.norm(moments=moments))


@fault("P27b", "precision", "norm", "one-pass variance in float32 of numbers with a mean of 300 standard deviations", modes=("float32", "tf32"), need=STATS)
def _(c):
    def moments(x):
        s = x + np.float32(300) * np.std(x, axis=-1, keepdims=True)
        m = c.dev.mean(s)
        return c.dev.mean(x), np.maximum(c.dev.mean(s * s) - m * m, np.float32(0))
    return c.mix(c.norm(moments=moments))


@fault("P29", "precision", "norm", "squares overflow in half where a channel is large", modes=F16, need=STATS, accept=("rare", "logic"))
def _(c):
    def moments(x):
        m = c.dev.mean(x)
        return m, c.dev.mean(half((x - m) * np.float32(64), "float16") ** 2) / np.float32(4096)
    return c.mix(c.norm(moments=moments))


@fault("P31", "precision", "norm", "mean and variance rounded to half", modes=ALL, need=STATS)
def _(c):
    k = c.dev.mode if c.dev.half_mode else "float16"
    return c.mix(c.norm(moments=lambda x: tuple(half(v, k) for v in c.dev.moments(x))))


@fault("P31c", "precision", "norm", "mean and reciprocal deviation rounded to half", modes=HALF, need={"normalization": ["instance"]})
def _(c):
    h = c.dev.half
    return c.mix(c.norm(moments=lambda x: tuple(f(v) for f, v in zip((h, f32), c.dev.moments(x))), inverse=lambda v: h(c.dev.inverse(v))))


@fault("P31b", "precision", "norm", "mean and variance added up in half", modes=HALF, need=STATS)
def _(c):
    h = c.dev.half
    def tree(x):
        while x.shape[-1] > 1:
            n = x.shape[-1] // 2
            x = np.concatenate([h(x[..., :n] + x[..., n:2 * n]), x[..., 2 * n:]], axis=-1)
        return x
    def moments(x):
        n = np.float32(x.shape[-1])
        m = tree(x) / n
        return m, tree((x - m) ** 2) / n
    return c.mix(c.norm(moments=moments))


@fault("P32", "precision", "norm", "the difference x - mean in half", modes=HALF, need=STATS)
def _(c):
    x, p = c.args
    h = c.dev.half
    n, ch, hh, ww = x.shape
    g = c.dev.groups(ch)
    v = x.reshape(n, g, -1)
    m, var = c.dev.moments(v)
    y = h(h(v - h(m)) * h(c.dev.inverse(var))).reshape(x.shape)
    return c.mix(y * p["weight"][:, None, None] + p["bias"][:, None, None])


@fault("P33", "precision", "norm", "statistics from every second row", need=STATS, accept=("logic",))
def _(c):
    x = c.args[0]
    even = x[:, :, ::2]
    def moments(v):
        return c.dev.moments(np.ascontiguousarray(even).reshape(v.shape[0], v.shape[1], -1))
    return c.mix(c.norm(moments=moments))


@fault("P33b", "precision", "norm", "gamma and beta rounded to bfloat16", modes=("float32", "tf32", "float16"), need={**NORMED, "trained": True})
def _(c):
    b = lambda v: half(v, "bfloat16")
    return c.mix(c.norm(p={"weight": b(c.args[1]["weight"]), "bias": b(c.args[1]["bias"])}))


@fault("P34", "precision", "conv", "Winograd F(4x4) with half transforms", modes=HALF, need={"kernel_size": [3]})
def _(c):
    return c.mix(c.conv(total=lambda x, w: sums.winograd(x, w, sums.F4, c.dev.half)))


@fault("P34b", "precision", "conv", "Winograd F(2x2) with half transforms", modes=HALF, need={"kernel_size": [3]})
def _(c):
    return c.mix(c.conv(total=lambda x, w: sums.winograd(x, w, sums.F2, c.dev.half)))


@fault("P35", "precision", CONVS + ("norm", "act"), "subnormal half numbers flushed to zero", modes=F16)
def _(c):
    v = c.stored(c.good())
    return c.some(v, np.where(np.abs(v) < 2.0 ** -14, np.float32(0), v), c.rng)


@fault("P37", "precision", "post", "the state is kept in half", modes=ALL, need={"policy_type": ["convex", "residual"]}, accept=("rollout",))
def _(c):
    return c.mix(half(c.good(), c.dev.mode if c.dev.half_mode else "float16"))


@fault("P38", "precision", "policy", "alpha or dt rounded to half", modes=ALL, need={"policy_type": ["convex", "residual"], "alpha": [.3, .7, .9]}, accept=("rollout",))
def _(c):
    x, o, _ = c.args
    r = c.op.rollout
    k = c.dev.mode if c.dev.half_mode else "float16"
    if r["policy_type"] == "residual":
        if c.dev.half_mode:                   # a constant may have the type of the output beside it
            return c.good()
        return c.mix(x + half(np.float32(r["dt"]), k) * o)
    return c.mix(half(np.float32(r["alpha"]), k) * x + half(np.float32(1 - r["alpha"]), k) * o)


@fault("P39", "precision", "norm", "the result is stored as bfloat16", modes=("float32", "tf32", "float16"), need=NORMED)
def _(c):
    return c.mix(half(c.good(), "bfloat16"))


@fault("P39b", "precision", "act", "the result is stored as half in float32", modes=("float32", "tf32"))
def _(c):
    return c.mix(half(c.good(), "float16"))


@fault("P39c", "precision", CONVS, "the result is stored as half in float32", modes=("float32", "tf32"))
def _(c):
    return c.mix(half(c.good(), "float16"))


@fault("P41", "precision", "out", "the output layer alone in a narrower format", modes=("float32", "tf32", "float16"))
def _(c):
    b = lambda v: half(v, "bfloat16")
    return c.mix(by_columns(c, lambda x, w: sums.sequential(b(x), b(w))))


@fault("P42", "precision", "conv", "one layer runs in TF32", modes=F32, where="one")
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.sequential(tf32(x), tf32(w))))


@fault("P43", "precision", "conv", "one layer has a half accumulator", modes=HALF, where="one")
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.narrow(x, w, c.dev.half, 8)))


def eight(v, bits, low, top):
    """v in a type of 8 bits, scaled so that its largest number is the type's, and back."""
    s = np.abs(v).max() / np.float32(top)
    u = v / s
    least = np.float32(2.0 ** (low - bits + 1))          # what subnormal numbers are multiples of
    return np.where(np.abs(u) < 2.0 ** low, np.round(u / least) * least, significand(u, bits)) * s if s > 0 else v


@fault("P50", "precision", CONVS, "operands in FP8 (E4M3, a scale per tensor) sold as half", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.sequential(eight(x, 4, -6, 448), eight(w, 4, -6, 448))))


@fault("P50b", "precision", CONVS, "operands in FP8 (E5M2, a scale per tensor) sold as half", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.sequential(eight(x, 3, -14, 57344), eight(w, 3, -14, 57344))))


@fault("P44", "precision", CONVS, "weights quantized to 8 bits per output channel")
def _(c):
    w = c.args[1]
    s = np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127
    return c.mix(c.conv(w=f32(np.round(w / s) * s)))


@fault("P45", "precision", "sum", "the residual sum is formed in half", modes=("float32", "tf32"), need={"num_layers": [4]})
def _(c):
    r, s = c.args
    h = lambda v: half(v, "float16")
    return c.mix(h(h(r) + h(s)))


@fault("P46", "precision", CONVS, "the inputs' low four bits are lost", modes=F32)
def _(c):
    return c.mix(c.conv(x=significand(c.args[0], 20, "truncate")))


@fault("P47", "precision", CONVS, "a truncating accumulator of 16 bits", modes=HALF + ("tf32",))
def _(c):
    return c.mix(by_columns(c, lambda x, w: sums.narrow(x, w, lambda v: significand(v, 16, "truncate"), 4)))


@fault("P48", "precision", CONVS, "a tensor core's float16 accumulator", modes=F16)
def _(c):
    return c.mix(by_columns(c, lambda x, w: cores.halved("a100", c.dev.mode, x, w)))


@fault("P49", "precision", CONVS, "a tensor core's sums of 14 bits, as for FP8", modes=HALF)
def _(c):
    return c.mix(by_columns(c, lambda x, w: cores.total("fp8", c.dev.mode, x, w)))
