"""Runs the binary: `refrun check` on a folder, and `refrun probe` with a device that answers.

  python3 respond.py FOLDER --device P15 --mode float16     # answers every probe in FOLDER
"""

import argparse
import json
import os
import subprocess

import numpy as np

import cases
import faults
import tensors
import variants
from device import Device, Operator
from formats import f32

LIMIT = 120  # seconds for one check


def numbers(text):
    """0-3,7 as a list."""
    out = []
    for part in text.split(","):
        lo, _, hi = part.partition("-")
        out += range(int(lo), int(hi or lo) + 1)
    return out


def run_check(binary, folder, flags=()):
    """What `refrun check --json` says of a folder, or {"error": ...}."""
    try:
        r = subprocess.run([binary, "check", "--case", folder, "--json", "--threads", "1", *flags], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {LIMIT} s"}
    if r.returncode not in (0, 1, 3):
        return {"error": f"exit code {r.returncode}: {r.stderr.strip().splitlines()[-1][:300] if r.stderr.strip() else ''}"}
    j = json.loads(r.stdout)
    out = {k: j.get(k) for k in ("verdict", "first_step", "first_layer", "diagnosis", "seconds")}
    out["reason"] = str(j.get("reason", ""))[:400]
    out["blind"] = [b.get("name") for b in j.get("blind") or []]
    return out


def folders(root):
    """The case folders at or below root, in order."""
    return sorted(d for d, _, files in os.walk(root) if "case.json" in files)


def answer(folder, mode, kernels, fault, seed, amplitude, layers=False):
    """Runs a device on one probe and writes its trajectory, and perhaps its layers, beside it."""
    with open(os.path.join(folder, "case.json")) as f:
        c = json.load(f)
    weights, _ = tensors.load(os.path.join(folder, "weights.safetensors"))
    inputs, _ = tensors.load(os.path.join(folder, "trajectory.safetensors"))
    op = Operator(c["operator"], {"policy_type": "convex", "alpha": .5, "dt": .01, **c["rollout"]}, weights)
    steps, m = op.rollout["num_timesteps"], op.rollout["num_realizations"]
    x0 = f32(inputs["initial_condition"]) if "initial_condition" in inputs else f32(inputs["trajectory"][:, 0])
    x0 = np.broadcast_to(x0, (m,) + x0.shape).copy() if x0.ndim == 3 else x0
    tape, path = (), os.path.join(folder, "noise.safetensors")
    if os.path.exists(path):
        t, _ = tensors.load(path)
        tape = tuple(f32(t[k]) for k in sorted(t))
    bound = None
    if fault is not None:
        bound = faults.Bound(fault, amplitude, seed, op, steps)
        bound.start, bound.only = 1, False
    device = Device(op, mode, kernels, bound, op.rollout.get("autocast") or "cuda")
    with np.errstate(all="ignore"):
        states, taps = device.run(x0, tape, steps, range(1, steps))
    cases.write(cases.Made(device, op, mode, x0, tape, states, taps, {}), folder, layers)


def probed(binary, made, root):
    """The trajectory's verdict, or that of a probe which the device of the case answered, if it fails."""
    subject = os.path.join(root, "case")
    cases.write(made, subject, layers=False)
    v = run_check(binary, subject)
    if "error" in v or v["verdict"].startswith("FAIL"):
        return v
    worst = {"P": 1, "N": 0}[v["verdict"][0]], {**v, "probe": ""}
    out = os.path.join(root, "probes")
    r = subprocess.run([binary, "probe", "--case", subject, "-o", out, "--json"], capture_output=True, text=True, timeout=LIMIT)
    if r.returncode:
        return {"error": f"probe: exit code {r.returncode}: {r.stderr.strip()[:300]}"}
    bound = made.device.fault
    for folder in folders(out):
        answer(folder, made.mode, made.device.k, bound and bound.fault, made.truth["seed"], made.truth.get("amplitude", 1.0))
        v = run_check(binary, folder)
        if "error" in v:
            return v
        rank = {"F": 2, "P": 1, "N": 0}[v["verdict"][0]]
        if rank > worst[0]:
            worst = rank, {**v, "probe": os.path.basename(folder)}
    return worst[1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--device", default="sequential", help="a fault or a correct device")
    p.add_argument("--mode", required=True, choices=faults.ALL)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--amplitude", type=float, default=1.0)
    p.add_argument("--layers", action="store_true", help="write layers.safetensors as well")
    a = p.parse_args()
    f = faults.load().get(a.device)
    for folder in folders(a.folder):
        answer(folder, a.mode, variants.kernels("sequential" if f else a.device), f, a.seed, a.amplitude, a.layers)
        print(folder)


if __name__ == "__main__":
    main()
