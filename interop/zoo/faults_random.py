"""Faults of the stochastic block: the draws, their scale, or where they go."""

import numpy as np

import functions
from catalogue import fault
from formats import f32, half

GAUSS = {"noise_type": ["gaussian", "multiplicative"]}
NOISY = {"noise_type": ["gaussian", "multiplicative", "laplace"]}
ANY = {"noise_type": ["gaussian", "multiplicative", "laplace", "dropout"]}
DROP = {"noise_type": ["dropout"]}
PLUS = {"noise_type": ["gaussian", "laplace"]}


def redraw(c, rng=None):
    """Other draws of the same distribution."""
    rng = rng or c.rng_t
    kind, d = c.op.noise, c.args[1]
    if kind == "dropout":
        return (f32(rng.random(d[0].shape) >= c.args[2]),)
    if kind == "laplace":
        return f32(rng.exponential(size=d[0].shape)), f32(rng.normal(size=d[1].shape))
    return (f32(rng.normal(size=d[0].shape)),)


def with_draws(c, other):
    """The block with a share of its draws replaced."""
    return c.noise(draws=tuple(c.some(a, b, np.random.default_rng(c.seed)) for a, b in zip(c.args[1], other)))


@fault("R01", "rng", "noise", "all realizations have the same noise", need=ANY)
def _(c):
    return with_draws(c, [np.broadcast_to(d[:1], d.shape) for d in c.args[1]])


@fault("R02", "rng", "noise", "the same noise at every step", need=ANY, when="start")
def _(c):
    d = c.dev.memory.setdefault("draws", c.args[1])
    return with_draws(c, d)


@fault("R03", "rng", "noise", "the noise of the step before", need=ANY, when="start", known=True)
def _(c):
    last = c.dev.memory.get("last", c.args[1])
    c.dev.memory["last"] = c.args[1]
    return with_draws(c, last)


@fault("R04", "rng", "noise", "another stream", need=ANY, known=True)
def _(c):
    return with_draws(c, redraw(c))


@fault("R05", "rng", "noise", "the scale is squared", need=NOISY)
def _(c):
    s = float(c.args[2])
    return c.noise(scale=c.between(s, s * s))


@fault("R06", "rng", "noise", "the scale is larger by the root of 2", need=NOISY)
def _(c):
    s = float(c.args[2])
    return c.noise(scale=c.between(s, s * 2 ** .5))


@fault("R06b", "rng", "noise", "the scale is 1.2 times what it should be", need=NOISY)
def _(c):
    return c.noise(scale=c.between(float(c.args[2]), 1.2 * float(c.args[2])))


@fault("R06c", "rng", "noise", "the scale is 1 per cent too large", need=NOISY, known=True)
def _(c):
    return c.noise(scale=c.between(float(c.args[2]), 1.01 * float(c.args[2])))


@fault("R07", "rng", "noise", "no noise", need=ANY)
def _(c):
    return c.mix(c.args[0])


@fault("R08", "rng", "noise", "uniform noise of the same variance", need=GAUSS)
def _(c):
    d = c.args[1][0].astype(np.float64)
    u = .5 * functions.erfc(-d / np.sqrt(2))
    return with_draws(c, [f32(np.sqrt(3) * (2 * u - 1))])


@fault("R09", "rng", "noise", "Laplace noise of the same variance", need=GAUSS)
def _(c):
    d = c.args[1][0].astype(np.float64)
    tail = functions.erfc(np.abs(d) / np.sqrt(2))
    return with_draws(c, [f32(-np.sign(d) * np.log(np.maximum(tail, 1e-300)) / np.sqrt(2))])


@fault("R10", "rng", "noise", "a sum of four uniform numbers for a normal one", need=GAUSS)
def _(c):
    u = c.rng_t.random((4,) + c.args[1][0].shape)
    return with_draws(c, [f32((u.sum(0) - 2) * np.sqrt(3))])


@fault("R11", "rng", "noise", "u = 0 is not excluded: an infinity", need=GAUSS, when="once", accept=("rare", "logic"))
def _(c):
    d = c.args[1][0].copy()
    for _ in range(c.count(16)):
        d[c.element(d)] = np.inf
    return c.noise(draws=(d,))


@fault("R12", "rng", "noise", "Box-Muller with the root after the cosine", need=GAUSS)
def _(c):
    u, v = c.rng_t.random(c.args[1][0].shape), c.rng_t.random(c.args[1][0].shape)
    w = -2 * np.log(1 - u) * np.cos(2 * np.pi * v)
    return with_draws(c, [f32(np.sign(w) * np.sqrt(np.abs(w)))])


@fault("R13", "rng", "noise", "Box-Muller in pairs: every odd element is the sine of a wrong angle", need=GAUSS)
def _(c):
    d = c.args[1][0].reshape(-1).copy()
    d[1::2] = d[:len(d) // 2 * 2:2][:len(d[1::2])]
    return with_draws(c, [d.reshape(c.args[1][0].shape)])


@fault("R14", "rng", "noise", "seeds overlap: a realization has the next one's noise of the step before", need=ANY, when="start")
def _(c):
    last = c.dev.memory.get("last", c.args[1])
    new = [np.concatenate([d[:1], l[:-1]]) for d, l in zip(c.args[1], last)]
    c.dev.memory["last"] = tuple(new)
    return with_draws(c, new)


@fault("R15", "rng", "noise", "draws rounded to half", modes=("float32", "tf32"), need=NOISY, known=True, accept=("precision",))
def _(c):
    return c.mix(c.noise(draws=tuple(half(d, "float16") for d in c.args[1])))


@fault("R15b", "rng", "noise", "draws rounded to bfloat16", modes=("float32", "tf32", "float16"), need=NOISY, known=True, accept=("precision",))
def _(c):
    return c.mix(c.noise(draws=tuple(half(d, "bfloat16") for d in c.args[1])))


@fault("R16", "rng", "noise", "noise that is correlated in space", need=GAUSS)
def _(c):
    d = c.args[1][0]
    s = d + np.roll(d, 1, 2) + np.roll(d, 1, 3) + np.roll(np.roll(d, 1, 2), 1, 3)
    m = c.a * s / 2 + np.sqrt(1 - c.a ** 2) * d
    return c.noise(draws=(f32(m),))


@fault("R17", "rng", "noise", "noise with a mean of a tenth", need=GAUSS)
def _(c):
    return c.noise(draws=(c.args[1][0] + np.float32(.1 * c.a),))


@fault("R18", "rng", "noise", "every second step finds the old draws in the buffer", need=ANY, when="start")
def _(c):
    if c.t % 2:
        c.dev.memory["draws"] = c.args[1]
        return c.good()
    return with_draws(c, c.dev.memory.get("draws", c.args[1]))


@fault("R19", "rng", "noise", "draws transposed in space", need=GAUSS, known=True)
def _(c):
    d = c.args[1][0]
    n, ch, h, w = d.shape
    return with_draws(c, [np.ascontiguousarray(d.transpose(0, 1, 3, 2)).reshape(d.shape)])


@fault("R20", "rng", "noise", "dropout of elements, not of channels", need=DROP)
def _(c):
    x, d, p, _ = c.args
    keep = c.rng_t.random(x.shape) >= p
    return c.mix(x * keep / np.float32(1 - p))


@fault("R21", "rng", "noise", "dropout without 1/(1-p)", need=DROP)
def _(c):
    return c.mix(c.good() * (np.float32(1) - np.float32(c.args[2])))


@fault("R22", "rng", "noise", "dropout with p and 1-p swapped", need=DROP)
def _(c):
    p = float(c.args[2])
    return c.mix(c.args[0] * (c.rng_t.random(c.args[1][0].shape).reshape(c.args[0].shape[:2] + (1, 1)) >= 1 - p) / np.float32(p))


@fault("R24", "rng", "noise", "the noise has the wrong sign", need=PLUS, known=True)
def _(c):
    d = [(-v if c.op.noise == "gaussian" or i else v) for i, v in enumerate(c.args[1])]
    return with_draws(c, d)


@fault("R25", "rng", "noise", "the scale differs by channel", need=NOISY)
def _(c):
    ch = c.args[0].shape[1]
    s = np.linspace(.5, 1.5, ch)[:, None, None]
    g = f32(1 + c.a * (s - 1))
    return c.noise(draws=(c.args[1][0] * g,) + tuple(c.args[1][1:]))


@fault("R26", "rng", "noise", "one channel has no noise", need=NOISY)
def _(c):
    d = c.args[1][0].copy()
    d[:, int(c.rng.integers(d.shape[1]))] *= np.float32(1 - c.a)
    return c.noise(draws=(d,) + tuple(c.args[1][1:]))


@fault("R27", "rng", "noise", "one realization has no noise", need=NOISY)
def _(c):
    d = c.args[1][0].copy()
    d[-1] *= np.float32(1 - c.a)
    return c.noise(draws=(d,) + tuple(c.args[1][1:]))


@fault("R28", "rng", "noise", "all channels share one field of noise", need=NOISY)
def _(c):
    return with_draws(c, [np.broadcast_to(d[:, :1], d.shape) for d in c.args[1]])


@fault("R29", "rng", "noise", "draws cut off at two standard deviations", need=GAUSS)
def _(c):
    return with_draws(c, [np.clip(c.args[1][0], -2, 2)])


@fault("R30", "rng", "noise", "draws of 16 levels", need=GAUSS)
def _(c):
    return with_draws(c, [f32(np.round(c.args[1][0] * 2.5) / 2.5)])


@fault("R31", "rng", "noise", "added where it should multiply, or the reverse", need=GAUSS, accept=("logic",))
def _(c):
    x, d, s, _ = c.args
    n = d[0] * np.float32(s)
    return c.mix(x + n if c.op.noise == "multiplicative" else x * (1 + n))


@fault("R32", "rng", "noise", "Laplace noise without its signs", need={"noise_type": ["laplace"]})
def _(c):
    return with_draws(c, [c.args[1][0], np.abs(c.args[1][1])])


@fault("R33", "rng", "noise", "the scale decays with the steps", need=NOISY)
def _(c):
    s = float(c.args[2])
    return c.noise(scale=s * (1 - .2 * c.a * c.t))


@fault("R34", "rng", "noise", "noise before the last activation is meant: it passes one again", need={**NOISY, "activation": ["gelu", "silu", "tanh"]}, accept=("logic",))
def _(c):
    return c.mix(functions.exact(c.op.config["activation"], c.good()))


@fault("R35", "rng", "input", "noise is added to the input as well", need=NOISY, accept=("logic", "rollout"))
def _(c):
    x = c.args[0]
    s = float(c.op.weights["stochastic_block.noise_scale"].reshape(-1)[0])
    return c.mix(x + f32(c.rng_t.normal(size=x.shape)) * np.float32(s))


@fault("R36", "rng", "noise", "one step without noise", need=NOISY, when="once", accept=("rare",))
def _(c):
    return c.mix(c.args[0])


@fault("R37", "rng", "noise", "draws shifted by one element of the stream", need=GAUSS, known=True)
def _(c):
    d = c.args[1][0]
    return with_draws(c, [np.roll(d.reshape(-1), 1).reshape(d.shape)])


@fault("R38", "rng", "noise", "realizations have each other's noise", need=ANY, known=True)
def _(c):
    return with_draws(c, [d[::-1] for d in c.args[1]])


def box_muller(d, keep):
    """Draws whose uniform numbers are those of pairs of d, as keep leaves them."""
    f = d.reshape(-1).astype(np.float64)
    n = len(f) // 2
    a, b = f[:2 * n:2], f[1:2 * n:2]
    r = np.sqrt(-2 * np.log(keep(np.exp(-(a * a + b * b) / 2))))
    angle = np.arctan2(b, a)
    out = f.copy()
    out[:2 * n:2], out[1:2 * n:2] = r * np.cos(angle), r * np.sin(angle)
    return f32(out).reshape(d.shape)


def bits(n):
    """Uniform numbers of n bits, in the middle of their intervals."""
    return lambda u: (np.floor(u * 2.0 ** n) + .5) / 2.0 ** n


@fault("R39", "rng", "noise", "Box-Muller of 23-bit uniform numbers", need=GAUSS, known=True)
def _(c):
    return with_draws(c, [box_muller(c.args[1][0], bits(23))])


@fault("R39b", "rng", "noise", "Box-Muller of 16-bit uniform numbers", need=GAUSS, known=True)
def _(c):
    return with_draws(c, [box_muller(c.args[1][0], bits(16))])


@fault("R39c", "rng", "noise", "low entropy: draws from uniform numbers of 6 bits", need=GAUSS)
def _(c):
    return with_draws(c, [box_muller(c.args[1][0], bits(6))])


def coloured(d, power):
    """Draws with a spectrum of |k|^power and variance 1."""
    h, w = d.shape[2:]
    k = np.hypot(np.fft.fftfreq(h)[:, None] * h, np.fft.fftfreq(w) * w)
    k[0, 0] = 1
    g = k ** (power / 2)
    g /= np.sqrt(np.mean(g * g))
    return f32(np.fft.ifft2(np.fft.fft2(d) * g).real)


@fault("R40", "rng", "noise", "noise with a red spectrum", need=GAUSS)
def _(c):
    return with_draws(c, [coloured(c.args[1][0], -1)])


@fault("R40b", "rng", "noise", "noise with a blue spectrum", need=GAUSS)
def _(c):
    return with_draws(c, [coloured(c.args[1][0], 1)])


@fault("R41", "rng", "noise", "low entropy: a block of 64 draws again and again", need=GAUSS)
def _(c):
    d = c.args[1][0].reshape(-1)
    return with_draws(c, [d[np.arange(len(d)) % 64].reshape(c.args[1][0].shape)])
