"""Makes one case: an operator, a correct or faulty device, and the folder it leaves behind."""

import hashlib
import json
import os
import zlib
from dataclasses import dataclass

import numpy as np

import faults
import family
import tensors
import variants
from device import Device
from formats import half

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("formats", "sums", "functions", "cores", "device", "family", "variants", "faults", "faults_precision", "faults_logic", "faults_random",
           "faults_rollout", "cases", "identity")


def version():
    """A digest of what decides a case."""
    h = hashlib.sha256()
    for name in SOURCES:
        with open(os.path.join(HERE, name + ".py"), "rb") as f:
            h.update(f.read())
    return h.hexdigest()[:12]


@dataclass
class Made:
    """A case that was computed."""

    device: Device
    operator: object
    mode: str
    x0: np.ndarray
    tape: tuple
    states: np.ndarray       # [M,T,C,H,W]
    taps: dict               # {t: {module: (values, half)}}
    truth: dict              # what the checker should find


def make(subject, mode, seed, amplitude=1.0, steps=6, realizations=2, small=False):
    """subject is a fault's id or a variant's name. Layers are tapped at steps 1, 2 and where the fault begins."""
    catalogue = faults.load()
    f = catalogue.get(subject)
    need = f.need if f else variants.needs(subject)
    # Cases of the same seed have the same operator but for what they need.
    op, x0, tape = family.draw(seed, mode, need, steps, realizations, small)
    bound = faults.Bound(f, amplitude, seed, op, steps) if f else None
    kernel = variants.kernels("sequential" if f else subject, mode, seed)
    if f and mode != "float32" and seed % 3 == 0:
        kernel = variants.kernels("tensor-core")
    autocast = op.rollout.get("autocast", "cuda")
    if not f and variants.VARIANTS[subject][2].get("autocast"):
        autocast = op.rollout["autocast"] = variants.VARIANTS[subject][2]["autocast"]
    if kernel.parameters:
        op.weights = {n: v if n.endswith(("running_mean", "running_var")) else half(v, mode) for n, v in op.weights.items()}
    device = Device(op, mode, kernel, bound, autocast)
    at = sorted({1, 2, min(steps - 1, bound.start if bound else 3)} & set(range(1, steps)))
    with np.errstate(all="ignore"):
        states, taps = device.run(x0, tape, steps, at)
    truth = {"subject": subject, "mode": mode, "seed": seed, "expect": "fail" if f else "pass"}
    if f:
        t, place = device.first or (None, None)
        module = place if place in {n for _, n in op.modules()} else ""
        truth.update(family=f.family, accept=list(f.accept), amplitude=amplitude, what=f.what, known=f.known,
                     first_step=t, first_layer=module, place=place)
        if t is None:
            truth["identity"] = "never acts"
    return Made(device, op, mode, x0, tape, states, taps, truth)


def write(made, folder, layers=True, noise=True, compact=False):
    """The case folder of a case; truth is not in it. compact: the draws as F16, no start."""
    os.makedirs(folder, exist_ok=True)
    op, mode = made.operator, made.mode
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump({"version": 1, "operator": op.config, "rollout": op.rollout, "produced_by": "a device written in numpy"}, f, indent=1)
    tensors.save(os.path.join(folder, "weights.safetensors"), op.weights)
    half_mode = mode in ("float16", "bfloat16")
    half_draws = compact and all(np.array_equal(d, half(d, "float16")) for d in made.tape)
    start = {} if compact else {"initial_condition": made.x0}
    # Half states in a half file, if it holds the start as it is.
    kind = mode if half_mode and op.rollout["policy_type"] == "autoregressive" else "float32"
    if kind != "float32" and not np.array_equal(half(made.x0, mode), made.x0):
        kind = "float32"
    if kind == "float32":
        tensors.save(os.path.join(folder, "trajectory.safetensors"), {**start, "trajectory": made.states}, meta={"precision": mode})
    else:
        t = made.states.astype(np.float16) if kind == "float16" else made.states
        tensors.save(os.path.join(folder, "trajectory.safetensors"), {**start, "trajectory": t},
                     bf16=("trajectory",) if kind == "bfloat16" else (), meta={"precision": mode})
    if noise and made.tape:
        names = {"laplace": ["batch0.draw0.exponential", "batch0.draw1.normal"]}.get(op.noise, ["batch0"])
        tensors.save(os.path.join(folder, "noise.safetensors"), dict(zip(names, (d.astype(np.float16) if half_draws else d for d in made.tape))))
    if layers:
        for t, taps in sorted(made.taps.items()):
            out, bf16 = {}, []
            for name, (v, is_half) in taps.items():
                out[name] = v.astype(np.float16) if is_half and mode == "float16" else v
                if is_half and mode == "bfloat16":
                    bf16.append(name)
            for j, d in enumerate(made.tape):
                label = {"laplace": ["stochastic_block.draw0.exponential", "stochastic_block.draw1.normal"]}.get(op.noise, ["stochastic_block.draw"])[j]
                if noise:
                    out[label] = d[t - 1].reshape(d[t - 1].shape[:2] + (1, 1)) if op.noise == "dropout" else d[t - 1]
            name = "layers.safetensors" if t == 1 else f"layers.step{t:04d}.safetensors"
            tensors.save(os.path.join(folder, name), out, bf16, {"step": t, "realization": 0, "batch": len(made.states)})


def key(truth):
    return f"{truth['mode']}-{truth['subject']}-{truth.get('amplitude', 1):g}-{truth['seed']}"


def seed_of(text):
    return zlib.crc32(text.encode())
