"""Energies and forces of random molecules: refrun's float32 and PyTorch's, each beside refrun's float64
(which go test ./molecule -run Exact holds to exact arithmetic), and what an evaluation costs.

    go build -o refrun ../../cmd/refrun && python3 compare.py --refrun ./refrun --molecules 1000
    python3 compare.py --time

It needs numpy, torch and safetensors; the figures of docs/MOLECULES.md are of torch 2.9.1.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "molecule", "testdata")
W = load_file(os.path.join(DATA, "weights.safetensors"))
H, RADIAL, CUTOFF, LAYERS = 32, 20, 5.0, 3
SYMBOLS = "X H He Li Be B C N O F Ne".split()


def mlp(name, x):
    x = F.silu(F.linear(x, W[name + ".0.weight"], W[name + ".0.bias"]))
    return F.linear(x, W[name + ".2.weight"], W[name + ".2.bias"])


def atom_energies(z, pos, edges):
    """The textbook's PaiNN as people write it, in the type of pos."""
    i, j = edges
    r = pos[j] - pos[i]
    d = torch.sqrt((r * r).sum(-1))
    u = r / d[:, None]
    n = torch.arange(1, RADIAL + 1, dtype=pos.dtype)
    rbf = torch.sin(n * torch.pi * d[:, None] / CUTOFF) / d[:, None]
    fc = (0.5 * (torch.cos(torch.pi * d / CUTOFF) + 1) * (d < CUTOFF).to(pos.dtype))[:, None]
    q, v = W["embedding.weight"][z], torch.zeros(len(z), 3, H, dtype=pos.dtype)
    for l in range(LAYERS):
        filters = F.linear(rbf, W[f"filters.{l}.weight"], W[f"filters.{l}.bias"]) * fc
        a, b, c = torch.split(mlp(f"message.{l}", q)[j] * filters, H, -1)
        q = q + torch.zeros_like(q).index_add(0, i, a)
        v = v + torch.zeros_like(v).index_add(0, i, u[:, :, None] * b[:, None, :] + v[j] * c[:, None, :])
        Vv, Uv = torch.split(F.linear(v, W[f"mix.{l}.weight"]), H, -1)
        nv = torch.sqrt((Vv * Vv).sum(1) + 1e-8)
        a, b, c = torch.split(mlp(f"update.{l}", torch.cat([q, nv], -1)), H, -1)
        v = v + Uv * a[:, None, :]
        q = q + b + c * (Uv * Vv).sum(1)
    return mlp("readout", q)


def evaluate(z, pos, edges):
    pos = pos.clone().requires_grad_(True)
    e = atom_energies(z, pos, edges).sum()
    return e.detach(), -torch.autograd.grad(e, pos)[0]


def pairs(pos):
    d = torch.cdist(pos.double(), pos.double())
    return ((d < CUTOFF) & ~torch.eye(len(pos), dtype=bool)).nonzero().t().contiguous()


def random_molecule(rng):
    atoms, pos = rng.integers(2, 13), []
    while len(pos) < atoms:
        x = rng.uniform(0, 4.5, 3).astype(np.float32)
        if all(np.linalg.norm(x - y) > 0.8 for y in pos):
            pos.append(x)
    return rng.integers(1, 10, atoms), np.array(pos, dtype=np.float32)


def read(path):
    """What refrun has written: an energy and forces of each molecule."""
    lines, at, all = open(path).read().splitlines(), 0, []
    while at < len(lines):
        n = int(lines[at])
        energy = float([w for w in lines[at + 1].split() if w.startswith("energy=")][0][7:])
        forces = np.array([[float(v) for v in line.split()[4:7]] for line in lines[at + 2 : at + 2 + n]])
        all.append((energy, forces))
        at += 2 + n
    return all


def compare(refrun, count):
    rng = np.random.default_rng(23)
    molecules = [random_molecule(rng) for _ in range(count)]
    with tempfile.TemporaryDirectory() as dir:
        path = lambda name: os.path.join(dir, name)
        with open(path("in.xyz"), "w") as f:
            for z, pos in molecules:
                f.write(f"{len(z)}\n\n" + "".join(f"{SYMBOLS[a]} " + " ".join(repr(float(v)) for v in x) + "\n" for a, x in zip(z, pos)))
        with open(path("painn.json"), "w") as f:
            json.dump({"model": "painn", "cutoff": CUTOFF}, f)
        ours = {}
        for precision in ("float64", "float32"):
            subprocess.run([refrun, "molecule", path("in.xyz"), "--model", path("painn.json"), "--weights", os.path.join(DATA, "weights.safetensors"),
                            "--precision", precision, "-o", path(precision + ".xyz"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
            ours[precision] = read(path(precision + ".xyz"))
    errors = {"refrun": [[], []], "PyTorch": [[], []]}
    nearer = 0
    for (z, pos), (e64, f64), (e32, f32) in zip(molecules, ours["float64"], ours["float32"]):
        x = torch.tensor(pos)
        e, f = evaluate(torch.tensor(z), x, pairs(x))
        worst = {}
        for who, ee, ff in (("refrun", e32, f32), ("PyTorch", float(e), f.double().numpy())):
            errors[who][0].append(ee - e64)
            errors[who][1].extend((ff - f64).ravel())
            worst[who] = np.sqrt(np.mean((ff - f64) ** 2))
        nearer += worst["refrun"] <= worst["PyTorch"]
    rms = lambda v: np.sqrt(np.mean(np.square(v)))
    size = [rms([e for e, _ in ours["float64"]]), rms(np.concatenate([f.ravel() for _, f in ours["float64"]]))]
    for k, name in enumerate(("energies", "forces")):
        o, t = rms(errors["refrun"][k]), rms(errors["PyTorch"][k])
        print(f"{name}: RMS error of float32: refrun {o:.3g}, PyTorch {t:.3g}, ratio {o / t:.2f}; largest: refrun {np.abs(errors['refrun'][k]).max():.3g}, "
              f"PyTorch {np.abs(errors['PyTorch'][k]).max():.3g}; RMS size {size[k]:.3g}")
    print(f"forces of refrun are nearer for {nearer} of {count} molecules")


def cost():
    torch.set_num_threads(1)
    for n in (12, 30, 60, 100):
        g = torch.Generator().manual_seed(n)
        side = int(np.ceil(n ** (1 / 3) - 1e-9))
        grid = torch.tensor([(i // side // side, i // side % side, i % side) for i in range(n)]).float()
        pos, z = 1.5 * grid + 0.1 * torch.randn(n, 3, generator=g), torch.randint(1, 9, (n,), generator=g)
        edges, times = pairs(pos), []
        for _ in range(20):
            began = time.process_time()
            evaluate(z, pos, edges)
            times.append(time.process_time() - began)
        times.sort()
        print(f"{n} atoms, {edges.shape[1]} pairs: PyTorch {torch.__version__}, one thread, energy and forces: {1e3 * times[10]:.2f} ms of processor time (median), {1e3 * times[0]:.2f} (least)")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--refrun", default="refrun")
    p.add_argument("--molecules", type=int, default=1000)
    p.add_argument("--time", action="store_true", help="what PyTorch needs; of refrun go test ./molecule -run xxx -bench Forces says it")
    a = p.parse_args()
    cost() if a.time else compare(a.refrun, a.molecules)
