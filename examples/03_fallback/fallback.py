"""A rollout on the CPU where there is no GPU: exact, with the same bits on every machine.

    python fallback.py       # needs numpy and refrun
"""

import numpy as np

import refrun

OPERATOR = {"input_channels": 3, "nodes": [
    {"op": "conv", "name": "first", "out_channels": 16, "kernel_size": 3},
    {"op": "norm", "name": "norm", "normalization": "instance", "affine": False},
    {"op": "act", "name": "gelu", "activation": "gelu"},
    {"op": "noise", "name": "noise", "noise_type": "gaussian", "noise_scale": 0.02},
    {"op": "conv", "name": "last", "out_channels": 3, "kernel_size": 1}]}
rng = np.random.default_rng(0)
weights = {"first.weight": rng.normal(size=(16, 3, 3, 3)) / 5, "first.bias": np.zeros(16), "noise.noise_scale": np.array([0.02]),
           "last.weight": rng.normal(size=(3, 16, 1, 1)) / 4, "last.bias": np.zeros(3)}
weights = {name: w.astype(np.float32) for name, w in weights.items()}
x0 = rng.normal(size=(4, 3, 32, 32)).astype(np.float32)  # [M,C,H,W]

# A whole rollout: X -> 0.5 X + 0.5 O(X), forty times.
r = refrun.run(OPERATOR, x0, weights=weights, steps=40, alpha=0.5, noise="counter", seed=7)
print("states", r.states.shape, r.mode)
print("digest", r.digest)  # of all bits; `refrun run` prints the same

# Or the operator as a function, for a loop of your own.
with refrun.reference(OPERATOR, weights=weights, noise="none", precision="float16", autocast="cuda") as exact:
    y = exact(x0)
    print("one application", y.shape, y.dtype, exact.mode)
