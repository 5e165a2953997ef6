"""Faults of the rollout, and rare ones that touch one step or a few elements."""

import numpy as np

from catalogue import CONVS, fault
from formats import f32, half

BLEND = {"policy_type": ["convex"], "alpha": [.3, .7, .9]}
EULER = {"policy_type": ["residual"]}


@fault("S01", "rollout", "policy", "alpha and 1 - alpha swapped", need=BLEND)
def _(c):
    x, o, _ = c.args
    a = np.float32(c.op.rollout["alpha"])
    return c.mix((1 - a) * x + a * o)


@fault("S01b", "rollout", "policy", "alpha is 1 per cent too large", need={"policy_type": ["convex"]})
def _(c):
    x, o, _ = c.args
    a = np.float32(c.op.rollout["alpha"] * 1.01)
    return c.mix(a * x + (1 - a) * o)


@fault("S01c", "rollout", "policy", "dt is twice what it should be", need=EULER)
def _(c):
    x, o, _ = c.args
    return c.mix(x + np.float32(2 * c.op.rollout["dt"]) * o)


@fault("S01d", "rollout", "policy", "dt is half a per cent too large", need=EULER)
def _(c):
    x, o, _ = c.args
    return c.mix(x + np.float32(1.005 * c.op.rollout["dt"]) * o)


@fault("S01e", "rollout", "policy", "the weights of the blend do not add up to 1", need={"policy_type": ["convex"]})
def _(c):
    x, o, _ = c.args
    a = np.float32(c.op.rollout["alpha"])
    return c.mix(a * x + (np.float32(.98) - a) * o)


@fault("S01f", "rollout", "policy", "the residual is subtracted", need=EULER)
def _(c):
    x, o, _ = c.args
    return c.mix(x - np.float32(c.op.rollout["dt"]) * o)


@fault("S02", "rollout", "policy", "the state is overwritten while it is still read: the lower half sees the new upper half", accept=("logic",))
def _(c):
    x, o, is_half = c.args
    y = c.good()
    h = x.shape[2] // 2
    mixed = x.copy()
    mixed[:, :, :h] = y[:, :, :h]
    clean = c.dev.other()                     # the operator again, on what it now reads
    clean.t = c.t
    o2, _ = clean.forward(mixed, c.dev.memory["this_draws"], False)
    z = f32(c.compute(x, o2, is_half))
    out = y.copy()
    out[:, :, h:] = z[:, :, h:]
    return c.mix(out)


@fault("S03", "rollout", "record", "states are stored one step late")
def _(c):
    s = c.args[0]
    out = s.copy()
    k = c.bound.start
    out[:, k:] = s[:, k - 1:-1]
    return f32(s + c.a * (out - s))


@fault("S04", "rollout", "record", "all stored states are one buffer: the last")
def _(c):
    s = c.args[0]
    out = s.copy()
    out[:, c.bound.start:] = s[:, -1:]
    return f32(s + c.a * (out - s))


@fault("S05", "rollout", "input", "a replayed graph reads the state before the last", history=True)
def _(c):
    return c.good() if c.t == 1 else c.mix(c.before)


@fault("S06", "rollout", "record", "two states are stored in each other's place", when="once")
def _(c):
    s = c.args[0]
    k = min(c.bound.start, s.shape[1] - 2)
    out = s.copy()
    out[:, [k, k + 1]] = s[:, [k + 1, k]]
    return f32(s + c.a * (out - s))


@fault("S07", "rollout", "policy", "one step is not made", when="once", accept=("rare",))
def _(c):
    return c.mix(c.args[0])


@fault("S08", "rollout", "policy", "one step is made twice", when="once", accept=("rare",))
def _(c):
    x, o, h = c.args
    return c.mix(f32(c.compute(c.good(), o, h)) if c.op.rollout["policy_type"] != "autoregressive" else o + (o - x) * np.float32(.1))


@fault("S09", "rollout", "post", "one realization is frozen", history=True)
def _(c):
    v = c.good().copy()
    if c.t > 1:
        v[-1] = c.before[-1]
    return c.mix(v)


@fault("S10", "rollout", "input", "the state passes through bfloat16 when it is loaded again", need={"policy_type": ["convex", "residual"]}, accept=("precision",), modes=("float32", "tf32", "float16"))
def _(c):
    return c.mix(half(c.args[0], "bfloat16"))


@fault("S11", "rollout", "post", "the clamp is missing", need={"clamp": True, "minmax": False, "policy_type": ["convex", "residual"]})
def _(c):
    return c.mix(c.args[0])


@fault("S11b", "rollout", "post", "a clamp that nobody asked for", need={"clamp": False})
def _(c):
    lim = np.float32(1.5 * np.std(c.args[0]))
    return c.mix(np.clip(c.good(), -lim, lim))


@fault("S12", "rollout", "post", "the state is quantized to 8 bits", accept=("precision",))
def _(c):
    v = c.good()
    s = np.abs(v).max() / np.float32(127)
    return c.mix(f32(np.round(v / s) * s) if s > 0 else v)


@fault("S13", "rollout", "policy", "the blend with the state of another realization", need={"policy_type": ["convex", "residual"]}, accept=("logic",))
def _(c):
    x, o, h = c.args
    return c.mix(c.compute(np.roll(x, 1, axis=0), o, h))


@fault("S14", "rollout", "record", "the channels are stored in another order", accept=("logic",))
def _(c):
    s = c.args[0]
    out = s.copy()
    out[:, c.bound.start:] = s[:, c.bound.start:, ::-1]
    return f32(s + c.a * (out - s))


@fault("S15", "rollout", "record", "states are stored in half", need={"policy_type": ["convex", "residual"]}, accept=("precision",))
def _(c):
    s = c.args[0]
    out = s.copy()
    out[:, c.bound.start:] = half(s[:, c.bound.start:], c.dev.mode if c.dev.half_mode else "float16")
    return f32(s + c.a * (out - s))


@fault("S16", "rollout", "post", "the state leaks: 0.1 per cent a step", accept=("precision",))
def _(c):
    return c.mix(c.good() * np.float32(.999))


@fault("S17", "rollout", "policy", "another policy", need={"policy_type": ["convex"], "alpha": [.3, .7, .9]})
def _(c):
    x, o, _ = c.args
    return c.mix(x + np.float32(1 - c.op.rollout["alpha"]) * o)


@fault("S18", "rollout", "post", "the mean is removed from the state", accept=("logic",))
def _(c):
    v = c.good()
    return c.mix(v - v.mean(axis=(2, 3), keepdims=True))


@fault("S19", "rollout", "post", "min-max over the batch, not over each realization", need={"minmax": True, "policy_type": ["convex", "residual"]}, accept=("logic",))
def _(c):
    x = c.args[0]
    return c.mix((x - x.min()) / (x.max() - x.min()))


@fault("S20", "rollout", "post", "the realizations change places", accept=("logic",), when="once")
def _(c):
    return c.mix(c.good()[::-1])


# Rare: one step, a few elements.

@fault("X01", "rare", "conv", "one element of a convolution is wrong", where="one", when="once", accept=("logic", "precision"))
def _(c):
    v = c.good().copy()
    v[c.element(v)] += np.float32(c.a * 3 * np.std(v))
    return v


@fault("X02", "rare", "act", "one element of an activation is wrong", where="one", when="once", accept=("logic", "precision"))
def _(c):
    v = c.good().copy()
    v[c.element(v)] += np.float32(c.a * np.std(v))
    return v


@fault("X03", "rare", "conv", "one NaN", where="one", when="once", accept=("logic", "rollout"))
def _(c):
    v = c.good().copy()
    v[c.element(v)] = np.nan
    return v


@fault("X03b", "rare", "post", "one infinity in the state", when="once", accept=("logic", "rollout"))
def _(c):
    v = c.good().copy()
    v[c.element(v)] = np.inf
    return v


@fault("X04", "rare", "conv", "a tile keeps the last step's result, at one step", where="one", when="once", history=True, accept=("logic",))
def _(c):
    return c.tile(c.good(), c.before)


@fault("X04b", "rare", "post", "a tile of the state is the last step's, at one step", when="once", history=True, accept=("logic", "rollout"))
def _(c):
    return c.tile(c.good(), c.before) if c.t > 1 else c.good()


@fault("X05", "rare", "conv", "a tile is never written, at one step", where="one", when="once", accept=("logic",))
def _(c):
    v = c.good()
    return c.tile(v, np.zeros_like(v))


@fault("X06", "rare", "post", "one bit of the state flips, at one step", when="once", accept=("logic", "rollout", "precision"))
def _(c):
    v = c.good().copy()
    i = c.element(v)
    bit = {1: 22, .25: 20, .0625: 18}[c.a]
    v[i] = np.array(v[i]).view(np.uint32).__xor__(np.uint32(1 << bit)).view(np.float32)
    return v


@fault("X07", "rare", "norm", "one channel of one sample has another's mean, at one step", where="one", when="once", need={"normalization": ["instance"]}, accept=("logic",))
def _(c):
    x, p = c.args
    v = c.good().copy()
    i, j = int(c.rng.integers(v.shape[0])), int(c.rng.integers(v.shape[1]))
    m = x[i].mean(axis=(1, 2))
    s = 1 / np.sqrt(x[i, j].var() + 1e-5)
    v[i, j] += np.float32((m[j] - m[j - 1]) * s * c.a) * p["weight"][j]
    return v


@fault("X08", "rare", "act", "a thousandth of the elements, at random, is a hundredth off", accept=("logic", "precision"))
def _(c):
    v = c.good()
    hit = c.rng_t.random(v.shape) < .001
    return np.where(hit, v * np.float32(1 + .01 * c.a), v)


@fault("X09", "rare", CONVS, "an element in three thousand is stale", history=True, accept=("logic",))
def _(c):
    v = c.good()
    return np.where(c.rng_t.random(v.shape) < c.a / 3000, c.before, v) if c.t > 1 else v


@fault("X10", "rare", "out", "one row of one channel is zero, at one step", when="once", accept=("logic",))
def _(c):
    v = c.good().copy()
    n, ch, h, w = v.shape
    i, j, r = int(c.rng.integers(n)), int(c.rng.integers(ch)), int(c.rng.integers(h))
    v[i, j, r, :c.count(w)] = 0
    return v


@fault("X11", "rare", "conv", "one sample of one layer is computed in the half type, at one step", where="one", when="once", modes=("float32", "tf32"), accept=("precision",))
def _(c):
    v = c.good().copy()
    v[-1] = half(v[-1], "float16")
    return c.mix(v)


@fault("X12", "rare", "act", "numbers below zero by less than 0.01 become zero", need={"activation": ["gelu", "silu", "tanh"]}, accept=("logic", "precision"))
def _(c):
    v = c.good()
    return np.where((v < 0) & (v > -.01 * c.a), np.float32(0), v)


@fault("X20", "rare", "post", "one element of the state is a twentieth off, at one step", when="once", accept=("logic", "rollout", "precision"))
def _(c):
    v = c.good().copy()
    v[c.element(v)] *= np.float32(1 + 0.05 * c.a)
    return v
