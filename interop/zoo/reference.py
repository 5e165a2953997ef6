"""The same operator and policy in float64, without roundings: what baselines compare with."""

import numpy as np

import functions
import sums


def conv(x, w, b=None):
    o, c, k, _ = w.shape
    n, _, h, wd = x.shape
    y = (w.reshape(o, -1).astype(np.float64) @ sums.columns(x, k)).reshape(o, n, h, wd).transpose(1, 0, 2, 3)
    return y if b is None else y + b[:, None, None]


def norm(x, kind, p):
    n, c, h, w = x.shape
    if kind == "batch":
        m, v = p["running_mean"][:, None, None], p["running_var"][:, None, None]
        y = (x - m) / np.sqrt(v.astype(np.float64) + 1e-5)
    else:
        g = x.reshape(n, {"instance": c, "group": min(32, c), "layer": 1}[kind], -1)
        y = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    return y * p["weight"][:, None, None] + p["bias"][:, None, None]


def forward(op, x, draws):
    """The operator's output for x [N,C,H,W]."""
    c, w = op.config, op.weights

    def block(name, x):
        x = conv(x, w[name + ".block.0.weight"], w.get(name + ".block.0.bias"))
        if c["normalization"] != "none":
            p = name + ".block.1."
            x = norm(x, c["normalization"], {k[len(p):]: v for k, v in w.items() if k.startswith(p)})
        return functions.EXACT[c["activation"]](x)

    for name, kind, i, o in op.blocks:
        if kind == "plain":
            x = block(name, x)
        else:
            x = block(name + ".blocks.1", block(name + ".blocks.0", x)) + (x if i == o else conv(x, w[name + ".projection.weight"]))
    if op.noise:
        s = float(w["stochastic_block.noise_scale"].reshape(-1)[0])
        d = [v.astype(np.float64) for v in draws]
        if op.noise == "dropout":
            x = x * d[0].reshape(d[0].shape[:2] + (1, 1)) / (1 - s)
        elif op.noise == "multiplicative":
            x = x * (1 + d[0] * s)
        else:
            x = x + s * (d[0] * np.sign(d[1]) if op.noise == "laplace" else d[0])
    return conv(x, w["output_layer.conv.weight"], w["output_layer.conv.bias"])


def step(op, x, draws):
    """The next state."""
    x, r = x.astype(np.float64), op.rollout
    o = forward(op, x, draws)
    if r["policy_type"] == "residual":
        o = x + r["dt"] * o
    elif r["policy_type"] == "convex":
        o = r["alpha"] * x + (1 - r["alpha"]) * o
    if r.get("normalization") == "minmax":
        lo, hi = o.min(axis=(1, 2, 3), keepdims=True), o.max(axis=(1, 2, 3), keepdims=True)
        o = (o - lo) / (hi - lo)
    if r.get("clamp_range"):
        o = np.clip(o, *r["clamp_range"])
    return o
