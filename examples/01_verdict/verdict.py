"""A rollout in numpy, recorded and judged: once as it should be, once with a tile that was not written.

    python verdict.py        # needs numpy and refrun; no torch, no GPU
"""

import tempfile

import numpy as np

import refrun

# The operator O: a 3x3 convolution with circular padding, tanh, and a 1x1 convolution.
OPERATOR = {"input_channels": 2, "nodes": [
    {"op": "conv", "name": "mix", "out_channels": 8, "kernel_size": 3, "padding_mode": "circular"},
    {"op": "act", "name": "tanh", "activation": "tanh"},
    {"op": "conv", "name": "out", "out_channels": 2, "kernel_size": 1}]}
rng = np.random.default_rng(1)
WEIGHTS = {"mix.weight": rng.normal(size=(8, 2, 3, 3)) / 4, "mix.bias": rng.normal(size=8) / 4,
           "out.weight": rng.normal(size=(2, 8, 1, 1)) / 3, "out.bias": rng.normal(size=2) / 4}
WEIGHTS = {name: w.astype(np.float32) for name, w in WEIGHTS.items()}


def conv(x, w, b):
    """A convolution of images [N,C,H,W] in float32."""
    k = w.shape[2] // 2
    y = b[None, :, None, None]
    for i in range(-k, k + 1):
        for j in range(-k, k + 1):
            y = y + np.einsum("nchw,oc->nohw", np.roll(x, (-i, -j), (2, 3)), w[:, :, i + k, j + k])
    return y


def step(x, broken):
    """The "device": X -> 0.5 X + 0.5 O(X). A broken one leaves an 8x8 tile as it was."""
    y = np.tanh(conv(x, WEIGHTS["mix.weight"], WEIGHTS["mix.bias"]))
    y = np.float32(0.5) * x + np.float32(0.5) * conv(y, WEIGHTS["out.weight"], WEIGHTS["out.bias"])
    if broken:
        y[:, :, 8:16, 16:24] = x[:, :, 8:16, 16:24]
    return y


for broken in (False, True):
    states = [rng.normal(size=(2, 2, 32, 32)).astype(np.float32)]  # [M,C,H,W]
    for t in range(8):
        states.append(step(states[-1], broken and t == 4))
    with tempfile.TemporaryDirectory() as folder:
        case = refrun.Case(folder, OPERATOR, policy_type="convex", alpha=0.5, precision="float32")
        case.weights(WEIGHTS)
        case.states(np.stack(states, 1))  # [M,T,C,H,W]
        case.close()
        report = refrun.check(folder)
    print("broken:" if broken else "right: ", report.verdict + ("" if report.ok else f" at step {report.first_step}, {report.diagnosis}"))
