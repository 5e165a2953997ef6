"""Faults of indexing, layout and logic: a wrong element is read, written or left out."""

import numpy as np

import functions
import sums
from catalogue import CONVS, NORMED, STATS, fault
from formats import f32

WIDE = {"base_channels": [8, 16]}


def padded(c, pad):
    return c.conv(total=lambda x, w: product(sums.columns(x, w.shape[-1], pad), x, w))


def product(cols, x, w):
    n, _, h, wd = x.shape
    return sums.sequential(cols, w.reshape(len(w), -1)).reshape(len(w), n, h, wd).transpose(1, 0, 2, 3)


def framed(c, edit):
    """The convolution over inputs with their frame of zeros, edited."""
    def total(x, w):
        k = w.shape[-1]
        r = k // 2
        p = np.pad(x, ((0, 0), (0, 0), (r, r), (r, r)))
        return product(sums.windows(edit(p, r), k, *x.shape[2:]), x, w)
    return c.conv(total=total)


@fault("I01", "logic", "conv", "the halo below the image is read from the last row but one")
def _(c):
    def edit(p, r):
        p[:, :, -r] = p[:, :, -r - 2]
        return p
    return c.mix(framed(c, edit))


@fault("I02", "logic", "conv", "padding 2 above and 0 below instead of 1 and 1")
def _(c):
    return c.mix(framed(c, lambda p, r: np.concatenate([np.zeros_like(p[:, :, :1]), p[:, :, :-1]], axis=2)))


@fault("I03", "logic", "conv", "circular padding for zeros")
def _(c):
    return c.mix(padded(c, "circular"))


@fault("I03b", "logic", "conv", "mirrored padding for zeros")
def _(c):
    return c.mix(padded(c, "reflect"))


@fault("I03c", "logic", "conv", "replicated padding for zeros, in one layer", where="one")
def _(c):
    return c.mix(padded(c, "replicate"))


@fault("I05", "logic", "conv", "the frame of padding is never written: stale numbers", accept=("rare",))
def _(c):
    def edit(p, r):
        ring = np.ones(p.shape, bool)
        ring[:, :, r:-r, r:-r] = False
        return np.where(ring, f32(c.rng_t.normal(size=p.shape)) * np.std(p), p)
    return c.mix(framed(c, edit))


@fault("I06", "logic", "conv", "flipped kernel")
def _(c):
    return c.mix(c.conv(w=c.args[1][:, :, ::-1, ::-1]))


@fault("I06b", "logic", "conv", "flipped kernel in one layer", where="one")
def _(c):
    return c.mix(c.conv(w=c.args[1][:, :, ::-1, ::-1]))


@fault("I07", "logic", "conv", "height and width of the kernel swapped")
def _(c):
    return c.mix(c.conv(w=c.args[1].transpose(0, 1, 3, 2)))


@fault("I08", "logic", "conv", "two taps of the kernel swapped", where="one")
def _(c):
    w = c.args[1].copy()
    w[:, :, 0, 0], w[:, :, 0, 1] = c.args[1][:, :, 0, 1], c.args[1][:, :, 0, 0]
    return c.mix(c.conv(w=w))


@fault("I09", "logic", "conv", "packed weights wrong from the eighth input channel on", need=WIDE)
def _(c):
    w = c.args[1].copy()
    if w.shape[1] >= 8:
        w[:, 7:] = np.roll(w[:, 7:], 1, axis=1) if w.shape[1] > 8 else w[:, 6:7]
    return c.mix(c.conv(w=w))


@fault("I09b", "logic", "conv", "the last input channel is left out of the sums", where="one")
def _(c):
    w = c.args[1].copy()
    w[:, -1] = 0
    return c.mix(c.conv(w=w))


@fault("I09c", "logic", "conv", "the terms after the last whole block of 16 are left out", accept=("precision",))
def _(c):
    w = c.args[1].copy().reshape(len(c.args[1]), -1)
    w[:, w.shape[1] // 16 * 16:] = 0
    return c.mix(c.conv(w=w.reshape(c.args[1].shape)))


@fault("I10", "logic", "conv", "strides ignored: a channels-last input read as channels-first", where="one")
def _(c):
    x = c.args[0]
    return c.mix(c.conv(x=np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(x.shape)))


@fault("I11", "logic", "norm", "statistics over the channels instead of the pixels", need=STATS)
def _(c):
    x, p = c.args
    m, v = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return c.mix((x - m) / np.sqrt(v + 1e-5) * p["weight"][:, None, None] + p["bias"][:, None, None])


@fault("I12", "logic", CONVS, "the rows after the last whole tile of 16 are not written", need={"tall": True})
def _(c):
    v = c.good().copy()
    h = v.shape[2]
    v[:, :, h // 16 * 16 or h - 1:] *= np.float32(0)
    return c.mix(v)


@fault("I13", "logic", "norm", "idle lanes enter the variance", need=STATS, accept=("precision",))
def _(c):
    def moments(x):
        m, v = c.dev.moments(x)
        n = x.shape[-1]
        extra = -n % 128 or 128
        return m, f32(v + extra * m * m / n)
    return c.mix(c.norm(moments=moments))


@fault("I14", "logic", "norm", "the mean is divided by a rounded-up count", need=STATS, accept=("precision",))
def _(c):
    def moments(x):
        n = x.shape[-1]
        up = (n // 128 + 1) * 128
        m, v = c.dev.moments(x)
        return f32(m * n / up), f32(v * n / up)
    return c.mix(c.norm(moments=moments))


@fault("I15", "logic", CONVS, "the last sample is beyond a grid limit: zeros")
def _(c):
    v = c.good().copy()
    v[-1] = 0
    return c.mix(v)


@fault("I17", "logic", "conv", "the second sample reads the first one's input", where="one")
def _(c):
    x = c.args[0].copy()
    x[1:] = x[:1]
    return c.mix(c.conv(x=x))


@fault("I18", "logic", "conv", "a row is computed from the row above", where="one")
def _(c):
    v = c.good().copy()
    r = int(c.rng.integers(1, v.shape[2]))
    v[:, :, r] = v[:, :, r - 1]
    return c.mix(v)


@fault("I18b", "logic", "conv", "a tile of 8x8 holds its neighbour's result", where="one", accept=("rare",))
def _(c):
    v = c.good()
    return c.tile(v, np.roll(v, 8, axis=3))


@fault("I18c", "logic", "conv", "a tile of 8x8 is transposed", where="one", accept=("rare",))
def _(c):
    v = c.good()
    s = max(2, int(round(8 * c.a ** .5)))
    i, j = int(c.rng.integers(v.shape[0])), int(c.rng.integers(v.shape[1]))
    out = v.copy()
    out[i, j, :s, :s] = v[i, j, :s, :s].T
    return out


@fault("I19", "logic", CONVS, "the result is one pixel to the right", where="one")
def _(c):
    return c.mix(np.roll(c.good(), 1, axis=3))


@fault("I20", "logic", CONVS, "two output channels are swapped", where="one")
def _(c):
    v = c.good().copy()
    v[:, [0, 1]] = v[:, [1, 0]]
    return c.mix(v)


@fault("I20b", "logic", "conv", "two input channels are swapped", where="one")
def _(c):
    x = c.args[0].copy()
    x[:, [0, 1]] = x[:, [1, 0]]
    return c.mix(c.conv(x=x))


@fault("I20c", "logic", "conv", "one output channel is its neighbour's copy", where="one")
def _(c):
    v = c.good().copy()
    v[:, -1] = v[:, -2]
    return c.mix(v)


@fault("I20d", "logic", "conv", "weights of another layer", where="one")
def _(c):
    w = c.args[1]
    for k, v in c.op.weights.items():
        if v.shape == w.shape and not np.array_equal(v, w):
            return c.mix(c.conv(w=v))
    return c.mix(c.conv(w=np.roll(w, 1, axis=0)))


@fault("I20e", "logic", "conv", "one weight has a flipped bit", where="one", accept=("rare", "precision"))
def _(c):
    w = c.args[1].copy()
    i = c.element(w)
    w[i] = -w[i]
    return c.mix(c.conv(w=w))


@fault("I20f", "logic", "conv", "one filter is all zeros", where="one")
def _(c):
    w = c.args[1].copy()
    w[int(c.rng.integers(len(w)))] = 0
    return c.mix(c.conv(w=w))


@fault("I20g", "logic", "conv", "weights permuted by an 8-channel block", need=WIDE, where="one")
def _(c):
    return c.mix(c.conv(w=np.roll(c.args[1], max(1, len(c.args[1]) // 2), axis=0)))


@fault("I21", "logic", "norm", "the groups of another norm: one for all channels, or one each", need=STATS)
def _(c):
    ch = c.args[0].shape[1]
    return c.mix(c.norm(groups=1 if c.dev.groups(ch) > 1 else ch))


@fault("I21b", "logic", "norm", "half as many groups", need={"normalization": ["instance", "group"]})
def _(c):
    ch = c.args[0].shape[1]
    g = c.dev.groups(ch)
    return c.mix(c.norm(groups=g // 2 if g % 2 == 0 else 1))


@fault("I23", "logic", "norm", "statistics of training, not of evaluation", need={"normalization": ["batch"]})
def _(c):
    def moments(x):
        m, v = x.mean(axis=(0, 2), keepdims=True), x.var(axis=(0, 2), keepdims=True)
        return np.broadcast_to(m, (len(x),) + m.shape[1:]), np.broadcast_to(v, (len(x),) + v.shape[1:])
    return c.mix(c.norm(moments=moments))


@fault("I23b", "logic", "norm", "running statistics (0 and 1) for the sample's", need=STATS)
def _(c):
    return c.mix(c.norm(moments=lambda x: (np.zeros(x.shape[:2] + (1,), np.float32), np.ones(x.shape[:2] + (1,), np.float32))))


@fault("I23c", "logic", "norm", "statistics over the batch", need=STATS)
def _(c):
    def moments(x):
        m = x.mean(axis=(0, 2), keepdims=True)
        v = np.mean((x - m) ** 2, axis=(0, 2), keepdims=True)
        return np.broadcast_to(m, x.shape[:2] + (1,)), np.broadcast_to(v, x.shape[:2] + (1,))
    return c.mix(c.norm(moments=moments))


@fault("I23d", "logic", "norm", "statistics of the sample before", need=STATS)
def _(c):
    return c.mix(c.norm(moments=lambda x: tuple(np.roll(v, 1, axis=0) for v in c.dev.moments(x))))


@fault("I24", "logic", "sum", "the residual is added twice", need={"num_layers": [4]})
def _(c):
    r, s = c.args
    return c.mix(r + s + s)


@fault("I24b", "logic", "sum", "no residual", need={"num_layers": [4]}, where="one")
def _(c):
    return c.mix(c.args[0])


@fault("I24c", "logic", "sum", "an activation after the residual sum", need={"num_layers": [4], "activation": ["gelu", "silu", "tanh"]})
def _(c):
    return c.mix(functions.exact(c.op.config["activation"], c.good()))


@fault("I25", "logic", "conv", "height and width swapped in a reshape", where="one", need={"square": False})
def _(c):
    v = c.good()
    n, ch, h, w = v.shape
    return c.mix(v.reshape(n, ch, w, h).transpose(0, 1, 3, 2))


@fault("I26", "logic", "norm", "gamma and beta of the next channel", need={**NORMED, "trained": True})
def _(c):
    p = c.args[1]
    return c.mix(c.norm(p={"weight": np.roll(p["weight"], 1), "bias": np.roll(p["bias"], 1)}))


@fault("I26b", "logic", "norm", "no beta", need={**NORMED, "trained": True})
def _(c):
    return c.mix(c.norm(p={"bias": c.args[1]["bias"] * 0}))


@fault("I26c", "logic", "norm", "no gamma", need={**NORMED, "trained": True})
def _(c):
    return c.mix(c.norm(p={"weight": c.args[1]["weight"] * 0 + 1}))


@fault("I26d", "logic", "norm", "no norm in one layer", need=NORMED, where="one")
def _(c):
    return c.mix(c.args[0])


@fault("I26e", "logic", "norm", "the norm's scale is the variance, not its root", need=NORMED, where="one")
def _(c):
    return c.mix(c.norm(inverse=lambda v: f32(1 / (v + 1e-5))))


@fault("I27", "logic", "conv", "no bias", need={"normalization": ["none"]})
def _(c):
    return c.mix(c.conv(b=None))


@fault("I27b", "logic", CONVS, "the bias is added twice", need={"normalization": ["none"]})
def _(c):
    b = c.args[2]
    return c.good() if b is None else c.mix(c.conv(b=2 * b))


@fault("I27c", "logic", "out", "the output layer's bias is the next channel's")
def _(c):
    return c.mix(c.conv(b=np.roll(c.args[2], 1)))


@fault("I28", "logic", "act", "leaky ReLU for ReLU", need={"activation": ["relu"]})
def _(c):
    x = c.args[0]
    return c.mix(np.where(x > 0, x, np.float32(.01) * x))


@fault("I28b", "logic", "act", "SiLU for GELU", need={"activation": ["gelu"]}, accept=("precision",))
def _(c):
    return c.mix(functions.exact("silu", c.args[0]))


@fault("I28c", "logic", "act", "GELU for SiLU", need={"activation": ["silu"]}, accept=("precision",))
def _(c):
    return c.mix(functions.exact("gelu", c.args[0]))


@fault("I28d", "logic", "act", "ReLU for the activation", need={"activation": ["gelu", "silu"]}, accept=("precision",))
def _(c):
    return c.mix(np.maximum(c.args[0], 0))


@fault("I28e", "logic", "act", "no activation in one layer", need={"activation": ["gelu", "silu", "tanh", "relu"]}, where="one")
def _(c):
    return c.mix(c.args[0])


@fault("I28f", "logic", "act", "ReLU6 and its cousins: results above 2 are cut off", accept=("precision", "rare"))
def _(c):
    return c.mix(np.minimum(c.good(), 2 if c.op.config["activation"] != "tanh" else .9))


@fault("I28g", "logic", "act", "hard tanh", need={"activation": ["tanh"]})
def _(c):
    return c.mix(np.clip(c.args[0], -1, 1))


@fault("I29", "logic", "act", "dropout is active", accept=("rng",))
def _(c):
    v = c.good()
    keep = c.rng_t.random(v.shape[:2] + (1, 1)) >= .1
    return c.mix(v * keep / np.float32(.9))


@fault("I30", "logic", CONVS, "one channel keeps the last step's result", where="one", history=True, accept=("rare",))
def _(c):
    v = c.good().copy()
    i = int(c.rng.integers(v.shape[1]))
    v[:, i] = c.before[:, i]
    return c.mix(v)


@fault("I31", "logic", "out", "the output's channels are in reverse order (BGR)")
def _(c):
    return c.mix(c.good()[:, ::-1])


@fault("I32", "logic", "conv", "the kernel is dilated by 2", where="one", need={"kernel_size": [3]})
def _(c):
    w = np.zeros(c.args[1].shape[:2] + (5, 5), np.float32)
    w[:, :, ::2, ::2] = c.args[1]
    return c.mix(c.conv(w=w))


@fault("I33", "logic", "conv", "every second row of a tile is swapped", where="one")
def _(c):
    v = c.good().copy()
    v[:, :, 0:8:2], v[:, :, 1:8:2] = c.good()[:, :, 1:8:2], c.good()[:, :, 0:8:2]
    return c.mix(v)
