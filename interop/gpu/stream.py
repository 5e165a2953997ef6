"""Holds refrun's torch-cuda stream against a device's numbers, or against philox.py where there is no device."""

import json
import subprocess

import numpy as np
from safetensors.numpy import load_file

import philox
from refrun import Case

SEED = 42
# cuRAND makes a normal number of sqrtf(-2 logf(u)), three roundings, times __sincosf(v), whose error is 2^-20.5 at most in
# [0, 2 pi] (PTX, sin.approx and cos.approx), and rounds the product: in units of the radius that is
NORMALS = 2**-20.5 + 4 * 2**-24
SIZES = ((1, 8), (16, 64), (64, 256))  # channels and sides of a draw: below a wave of threads, and beyond any
MASKS = (16, 32768)  # realizations and channels of a draw of masks, beyond any wave


def tape(binary, path, sms, threads, kind, m, c, side):
    """What refrun draws at the first step from seed SEED for m images of c channels: normals, or for dropout a mask for each channel."""
    noise = {"gaussian": 1.0, "dropout": 0.5}[kind]
    case = Case(path, {"input_channels": 1, "nodes": [
        {"op": "conv", "name": "a", "out_channels": c, "kernel_size": 1}, {"op": "noise", "name": "n", "noise_type": kind, "noise_scale": noise},
        {"op": "conv", "name": "b", "out_channels": 1, "kernel_size": 1}]}, policy_type="autoregressive", precision="float32", base_seed=SEED - 1)
    case.weights({"a.weight": np.zeros((c, 1, 1, 1), np.float32), "a.bias": np.zeros(c, np.float32), "n.noise_scale": np.full(1, noise, np.float32),
                  "b.weight": np.zeros((1, c, 1, 1), np.float32), "b.bias": np.zeros(1, np.float32)})
    case.info = {"torch": {"version": "2.9.1", "sm_count": sms, "max_threads_per_sm": threads}}
    case.states(np.zeros((m, 2, 1, side, side), np.float32))
    case.close()
    out = path / "tape.safetensors"
    subprocess.run([binary, "run", "--case", str(path), "--noise", f"torch-cuda:{sms}:{threads}", "--record", str(out), "-o", str(path / "states.npy"),
                    "--force", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    drawn = load_file(out)["batch0"]  # beside it are hashes
    for p in path.iterdir():
        p.unlink()
    path.rmdir()
    return drawn.reshape(-1)


def rows(binary, out, sms, threads, torch=None):
    """A row for each size: how many uniforms differ in a bit, and the largest difference of the normals over what it may be.

    The device's numbers are torch's, or without torch those of philox.py. refrun
    prints no uniforms: they are philox.py's, which is held against refrun by the
    masks, which are uniforms below 1/2, and by the normals.
    """
    found = []
    for c, side in SIZES:
        n = c * side * side
        normals = tape(binary, out / "draws", sms, threads, "gaussian", 1, c, side)
        uniform = ours = philox.rand(n, SEED, sms, threads)
        normal = mine = philox.randn(n, SEED, sms, threads)
        most = NORMALS * philox.polar(n, SEED, sms, threads)[0]
        if torch is not None:
            torch.manual_seed(SEED)
            uniform = torch.rand(n, device="cuda").cpu().numpy()
            torch.manual_seed(SEED)
            normal = torch.randn(n, device="cuda").cpu().numpy()
        row = {
            "numbers": n,
            "uniforms_differ": int((uniform.view(np.uint32) != ours.view(np.uint32)).sum()),
            "normals_max": float((np.abs(normals - normal) / most).max()),
            "port_max": float((np.abs(normals - mine) / most).max()),
        }
        row["right"] = row["uniforms_differ"] == 0 and max(row["normals_max"], row["port_max"]) <= 1
        found.append(row)
    m, c = MASKS
    masks = tape(binary, out / "draws", sms, threads, "dropout", m, c, 1)
    differ = int((masks.astype(bool) != (philox.rand(m * c, SEED, sms, threads) < 0.5)).sum())
    return found + [{"numbers": m * c, "masks_differ": differ, "right": differ == 0}]


def line(r):
    """A row in words."""
    if "masks_differ" in r:
        text = f"{r['numbers']} masks of refrun: {r['masks_differ']} differ from philox.py's uniforms below 1/2"
    else:
        text = f"{r['numbers']} numbers: {r['uniforms_differ']} uniforms differ in a bit, largest difference of normals {r['normals_max']:.2g} of what it may be"
    return text + ("" if r["right"] else "  **wrong**: " + json.dumps(r))
