"""The family of operators: one for each seed, drawn with its weights, start and noise.

A fault may need something of the operator (`need`): what it names is drawn from the
given choices instead, and all else stays as the seed has it. `small` makes an operator of two blocks; "noisy" one
whose draws are float16 numbers, so that files are smaller, "silent" one without noise.
"""

import numpy as np

from device import Operator
from formats import f32, half

CHOICES = {
    "normalization": (["instance"] * 8 + ["batch"] * 3 + ["group"] * 3 + ["layer"] * 3 + ["none"] * 3),
    "activation": ["gelu"] * 8 + ["silu"] * 5 + ["relu"] * 3 + ["tanh"] * 4,
    "num_layers": [2, 2, 2, 3, 3, 4],
    "base_channels": [8, 8, 8, 12, 16],
    "kernel_size": [3, 3, 3, 5],
    "noise_type": ["gaussian"] * 9 + ["laplace"] * 3 + ["multiplicative"] * 3 + ["dropout"] * 2 + [None] * 2,
    "policy_type": ["convex"] * 5 + ["residual"] * 3 + ["autoregressive"] * 2,
    "alpha": [.3, .5, .7, .9],
    "dt": [.01, .05, .1],
    "side": [(16, 16), (17, 17), (20, 20), (24, 24)],
    "oblong": [(16, 20), (20, 16), (17, 23), (24, 18)],
}


def draw(seed, mode, need=None, steps=6, realizations=2, small=False):
    """The operator of a seed, its start [M,C,H,W] and its tape, for a mode."""
    need = dict(need or {})
    rng = np.random.default_rng([seed, 77])
    pick = {}
    for key, values in CHOICES.items():       # every key draws once, so that a need moves nothing else
        r = rng.random()
        v = need.get(key, values)
        pick[key] = v[int(r * len(v))]
    square, trained, gain = rng.random() < .6, rng.random() < .6, float(rng.choice([1, 1, 2, 4]))
    clamp, minmax, cpu = rng.random() < .15, rng.random() < .08, rng.random() < .25
    scale = float(np.exp(rng.uniform(np.log(.01), np.log(.2))))
    drop = float(rng.choice([.1, .2, .3]))
    trained = need.get("trained", trained)
    clamp, minmax = need.get("clamp", clamp), need.get("minmax", minmax)
    oblong = not need.get("square", square)
    h, w = pick["oblong"] if oblong else pick["side"]
    if need.get("tall") and h == 16:
        h = 20
        w = w if oblong else 20
    if small:                                 # for files that are kept: 4608 elements in three steps
        h, w, pick["base_channels"] = 20 if need.get("tall") else 16, 16, 8
        pick["num_layers"] = max(need.get("num_layers", [1]))
        if small == "silent":
            pick["noise_type"] = None
    half_mode = mode in ("float16", "bfloat16")
    if pick["normalization"] == "group" and pick["base_channels"] == 12:
        pick["base_channels"] = 8             # groups must divide the channels
    if half_mode and pick["policy_type"] == "autoregressive":
        clamp = minmax = False
    c = {"num_layers": pick["num_layers"], "base_channels": pick["base_channels"], "input_channels": 3, "output_channels": 3,
         "kernel_size": pick["kernel_size"], "activation": pick["activation"], "normalization": pick["normalization"]}
    if h == w:
        c["grid_size"] = h
    if pick["noise_type"]:
        c["noise_type"] = pick["noise_type"]
        c["noise_scale"] = drop if pick["noise_type"] == "dropout" else float(np.float32(scale))
    r = {"policy_type": pick["policy_type"], "num_timesteps": steps, "num_realizations": realizations,
         "base_seed": int(seed), "precision": mode}
    if half_mode:
        r["autocast"] = "cpu" if cpu else "cuda"
    if pick["policy_type"] == "convex":
        r["alpha"] = pick["alpha"]
    if pick["policy_type"] == "residual":
        r["dt"] = pick["dt"]
    if minmax:
        r["normalization"] = "minmax"
    elif clamp:
        r["clamp_range"] = [-.75, .75]
    op = Operator(c, r, {})
    op.weights = weights(op, rng, trained, gain)
    x0 = unusual(rng, realizations, h, w) if need.get("unusual") else start(rng, realizations, h, w)
    draws = tape(op, rng, steps, realizations, h, w)
    if half_mode and pick["policy_type"] == "autoregressive":
        x0 = half(x0, mode)                   # so that the half file holds it as it is
    return op, x0, tuple(half(d, "float16") for d in draws) if small in ("noisy", "silent") else draws


def weights(op, rng, trained, gain):
    """A state_dict in the manner of PyTorch's initialization, perhaps trained a little."""
    out, k = {}, op.config["kernel_size"]

    def conv(name, o, i, k, bias):
        bound = 1 / np.sqrt(i * k * k)
        out[name + ".weight"] = f32(rng.uniform(-bound, bound, (o, i, k, k)))
        if bias:
            out[name + ".bias"] = f32(rng.uniform(-bound, bound, o))

    def block(name, i, o):
        norm = op.config["normalization"]
        conv(name + ".block.0", o, i, k, norm == "none")
        if norm == "none":
            if gain > 1:                      # keeps signals alive where no norm does
                out[name + ".block.0.weight"] *= np.float32(2)
            return
        g, b = (rng.normal(1, .2, o), rng.normal(0, .2, o)) if trained else (np.ones(o), np.zeros(o))
        out[name + ".block.1.weight"], out[name + ".block.1.bias"] = f32(g), f32(b)
        if norm == "batch":
            m, v = (rng.normal(0, .1, o), rng.uniform(.1, .6, o)) if trained else (np.zeros(o), np.ones(o))
            out[name + ".block.1.running_mean"], out[name + ".block.1.running_var"] = f32(m), f32(v)
            out[name + ".block.1.num_batches_tracked"] = np.array([100 if trained else 0], np.int64)

    for name, kind, i, o in op.blocks:
        if kind == "plain":
            block(name, i, o)
        else:
            block(name + ".blocks.0", i, o)
            block(name + ".blocks.1", o, o)
            if i != o:
                conv(name + ".projection", o, i, 1, False)
    if op.noise:
        out["stochastic_block.noise_scale"] = f32([op.config["noise_scale"]])
    conv("output_layer.conv", 3, op.width(), 1, True)
    out["output_layer.conv.weight"] *= np.float32(gain)
    return out


def start(rng, m, h, w):
    """A smooth field and some white noise, of standard deviation 1, a realization each."""
    ky, kx = np.fft.fftfreq(h)[:, None], np.fft.fftfreq(w)[None]
    f = np.fft.ifft2(np.fft.fft2(rng.normal(size=(3, h, w))) * np.exp(-60 * (kx * kx + ky * ky))).real
    f = f / f.std() + .3 * rng.normal(size=(m, 3, h, w))
    return f32(f / f.std())


UNUSUAL = ("large", "small", "offset", "integers", "levels", "ramp", "point", "rows", "half-plane", "outliers", "equal-realizations", "white")


def unusual(rng, m, h, w):
    """A start that few think of, but which varies enough to judge what follows."""
    x, white = start(rng, m, h, w), rng.normal(size=(m, 3, h, w))
    y, kind = np.arange(h)[:, None] / h + np.arange(w)[None] / w, UNUSUAL[int(rng.random() * len(UNUSUAL))]
    return f32({
        "large": x * 1000, "small": x * 1e-4, "offset": x + 30, "integers": np.rint(3 * x), "levels": np.rint(8 * x) / 8,
        "ramp": y + 1e-3 * white, "point": np.where((y == y.max()) & (white < 9), 50, 1e-3 * white), "rows": x[..., :1] + 1e-3 * white,
        "half-plane": np.where(np.arange(w) < w // 2, 0, x), "outliers": np.where(np.abs(white) > 2.6, 40 * white, x),
        "equal-realizations": np.broadcast_to(x[:1], x.shape), "white": white}[kind])


def tape(op, rng, steps, m, h, w):
    """The draws that the rollout is to use: [T-1,M,C,H,W] each."""
    shape = (steps - 1, m, op.width(), h, w)
    if op.noise in ("gaussian", "multiplicative"):
        return (f32(rng.normal(size=shape)),)
    if op.noise == "laplace":
        return f32(rng.exponential(size=shape)), f32(rng.normal(size=shape))
    if op.noise == "dropout":
        return (f32(rng.random(shape[:3] + (1, 1)) >= op.config["noise_scale"]),)
    return ()
