"""What common validators say of the same trajectories.

Each gets what the oracle gets, one step at a time from the device's own state: the
float64 step, a float32 or same-precision step of a correct device, and the device's.
A trajectory is flagged if any step is. Constants are those of the tools.
"""

import numpy as np

import reference
import variants
from device import Device

EPS = {"float32": 2.0 ** -23, "tf32": 2.0 ** -10, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}
TORCH = {"float32": 1.3e-6, "tf32": 1e-3, "float16": 1e-3, "bfloat16": 1.6e-2}
ORT = {"float32": (1e-5, 1e-4), "tf32": (2.5e-3, 1e-3), "float16": (2.5e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
MIOPEN = {"float32": 1.5e-6, "tf32": 8.2e-3, "float16": 8.2e-3, "bfloat16": 6.6e-2}


def close(got, want, rtol, atol):
    return bool(np.all(np.abs(got - want) <= atol + rtol * np.abs(want)))


def rms(d):
    return float(np.sqrt(np.mean(np.square(d))))


def benchdnn(got, want, mode):
    d = np.abs(got - want)
    r = d / np.where(np.abs(want) > 1.2e-38, np.abs(want), 1)
    return bool(np.all((d <= max(EPS[mode], 2e-5)) | (r <= max(EPS[mode], 8e-6))))


def dynamo(got, same, f64, mode):
    tol = 1e-4 if mode == "float32" else 1e-3
    if close(got, same, tol, tol):
        return True
    return rms(got - f64) <= (2 if mode == "float32" else 3) * rms(same - f64) + tol / 10


def sdpa(got, same, f64, mode):
    """PyTorch's attention tests: twice the same-precision reference's own error."""
    atol = max(2 * float(np.max(np.abs(f64 - same))), 1e-5)
    rtol = max(2 * float(np.max(np.abs((f64 - same) / np.where(same == 0, 1, same)))), TORCH[mode])
    return close(got, f64, min(rtol, 1), atol)


def miopen(got, want, mode):
    return rms(got - want) / max(float(np.abs(got).max()), float(np.abs(want).max()), 1e-30) <= MIOPEN[mode]


def cosine(got, want):
    return float(np.vdot(got, want) / max(np.linalg.norm(got) * np.linalg.norm(want), 1e-300)) >= .997


RULES = {
    "assert_close float32": lambda g, f, s, d, m: close(g, f, 1.3e-6, 1e-5),
    "assert_close of the mode": lambda g, f, s, d, m: close(g, f, TORCH[m], 1e-5),
    "assert_close, same precision": lambda g, f, s, d, m: close(g, s, TORCH[m], 1e-5),
    "benchdnn with a post-op": lambda g, f, s, d, m: benchdnn(g, f, m),
    "ONNX Runtime": lambda g, f, s, d, m: close(g, f, ORT[m][1], ORT[m][0]),
    "dynamo same()": lambda g, f, s, d, m: dynamo(g, s, d, m),
    "SDPA, twice the error": lambda g, f, s, d, m: sdpa(g, s, d, m),
    "allclose 1e-2": lambda g, f, s, d, m: close(g, f, 1e-2, 1e-2),
    "MIOpen RMS": lambda g, f, s, d, m: miopen(g, f, m),
    "cosine 0.997": lambda g, f, s, d, m: cosine(g, f),
}


def judge(made):
    """{rule: flagged} of a made case."""
    op, states = made.operator, made.states
    f32 = Device(op, "float32", variants.kernels("sequential"))
    same = Device(op, made.mode, variants.kernels("pairwise"), None, made.device.autocast)
    flagged = dict.fromkeys(RULES, False)
    with np.errstate(all="ignore"):
        for t in range(1, states.shape[1]):
            x, g = states[:, t - 1], states[:, t].astype(np.float64)
            if not np.all(np.isfinite(x)):
                break
            draws = tuple(d[t - 1] for d in made.tape)
            a, b = (d.step(x, draws, t).astype(np.float64) for d in (f32, same))
            truth = reference.step(op, x, draws)
            for name, rule in RULES.items():
                flagged[name] = flagged[name] or not rule(g, a, b, truth, made.mode)
    return flagged
