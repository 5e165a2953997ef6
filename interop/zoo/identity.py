"""How much of a fault can be seen at all.

From each state that the faulty device recorded, legal devices (variants.SPREAD, and
in half modes the fused patterns) make the next one. Their least and greatest values,
one ulp wider, are what a correct device may have returned: a fault whose every step
lies inside is an identity. `gain` compares the fault with the scatter of the legal
devices: the norm of (faulty - plain)/s over all elements, s their standard deviation
about the plain one. It is what the best linear filter could gather; below about 3,
nobody can see the fault in this trajectory. `size` is the fault in units of the mode's
own rounding errors: rms(faulty - plain) over rms(plain - float64), at its largest step.
"""

import numpy as np

import reference
import variants
from device import Device
from formats import ulp


def judge(made):
    """identity (None or why), gain and strength of a made faulty case."""
    op, mode, states = made.operator, made.mode, made.states
    if made.truth.get("first_step") is None:
        return {"identity": "never acts", "outside": 0, "gain": 0.0, "strength": 0.0, "peak": 0.0, "first_visible": None, "size": 0.0}
    kind = mode if mode in ("float16", "bfloat16") and op.rollout["policy_type"] == "autoregressive" else "float32"
    plain = made.device.other()
    legal = [Device(op, mode, variants.kernels(n), None, made.device.autocast) for n in variants.SPREAD[mode] if fits(n, op)]
    outside, gain, count, worst, visible, size = 0, 0.0, 0, 0.0, None, 0.0
    with np.errstate(all="ignore"):
        for t in range(1, states.shape[1]):
            x, got = states[:, t - 1], states[:, t].astype(np.float64)
            if not np.all(np.isfinite(x)):
                break
            draws = tuple(d[t - 1] for d in made.tape)
            want = plain.step(x, draws, t).astype(np.float64)
            if np.array_equal(want, got):
                continue
            steps = np.stack([want] + [d.step(x, draws, t).astype(np.float64) for d in legal])
            one = ulp(want, kind)
            if not np.array_equal(np.isfinite(got), np.isfinite(want)):
                return {"identity": None, "outside": int(np.sum(~np.isfinite(got))), "gain": 1e9, "strength": 1e9, "peak": 1e9, "first_visible": t, "size": 1e9}
            beyond = int(np.sum((got < steps.min(0) - one) | (got > steps.max(0) + one)))
            outside += beyond
            if beyond and visible is None:
                visible = t
            own = np.mean((want - reference.step(op, x, draws)) ** 2)
            size = max(size, float((np.mean((got - want) ** 2) / max(own, 1e-30)) ** .5))
            s2 = np.mean((steps - want) ** 2, axis=0)
            s2 = np.maximum(s2, np.mean(s2, axis=(-1, -2), keepdims=True)) + one ** 2 / 12
            z = (got - want) ** 2 / s2
            gain += float(z.sum())
            count += z.size
            worst = max(worst, float(z.max()))
    return {"identity": None if outside else "within legal devices", "outside": outside,
            "gain": round(gain ** .5, 3), "strength": round((gain / max(count, 1)) ** .5, 4), "peak": round(worst ** .5, 3), "first_visible": visible, "size": round(size, 4)}


def fits(name, op):
    k = variants.VARIANTS[name][2]
    return all(op.config.get(key, op.rollout.get(key)) in v for key, v in k.items() if isinstance(v, list))
