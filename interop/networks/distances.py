"""How far float32 results lie from the same network in float64: refrun's and PyTorch's.

    python distances.py --files DIR           # NAME.onnx, and NAME.npz with inputs, torch_float32 and float64
    python distances.py resnet18 vit_b_16     # of torchvision and timm, random weights, one image

Distances are root mean squares, in the deviation of the float64 result (a single number: over its size). A file may
compute another function than its module; "of the file" is refrun's distance to the file itself in float64.
The last column is the SHA-256 of refrun's numbers, the same with every REFRUN_ISA. --layers also holds PyTorch's
layers to refrun's.
"""

import argparse
import copy
import glob
import hashlib
import os
import subprocess
import tempfile
import warnings

import numpy as np

import refrun


def distance(y, truth):
    size = truth.std() if truth.size > 1 else abs(truth).max()
    return float(np.sqrt(np.mean((np.asarray(y, np.float64) - truth) ** 2)) / size)


def line(name, ours, theirs, truth, own=None):
    beside = f"  {distance(ours, own):8.1e} of the file" if own is not None else ""
    digest = hashlib.sha256(np.ascontiguousarray(ours, np.float32).tobytes()).hexdigest()[:12]
    print(f"{name:24} refrun {distance(ours, truth):8.1e}  PyTorch {distance(theirs, truth):8.1e}{beside}  {digest}", flush=True)


def evaluated(path, inputs, work, *flags):
    """The first output of an ONNX file."""
    args = []
    for k, x in inputs.items():
        np.save(f"{work}/{k}.npy", x)
        args += ["--input", f"{k}={work}/{k}.npy"]
    command = [refrun.binary(), "run", "--onnx", path, "-o", f"{work}/y.npz", "--force", "--quiet", *flags, *args]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    y = np.load(f"{work}/y.npz")
    return y[y.files[0]].astype(np.float64)


def of_files(folder):
    with tempfile.TemporaryDirectory() as work:
        for path in sorted(glob.glob(folder + "/*.onnx")):
            d = np.load(path[:-5] + ".npz")
            inputs = {k: d[k] for k in d.files if k not in ("torch_float32", "float64")}
            ours, own = evaluated(path, inputs, work), evaluated(path, inputs, work, "--precision", "float64")
            line(os.path.basename(path)[:-5], ours, d["torch_float32"], d["float64"], own)


def of_module(name, layers):
    import torch

    import survey

    module, x = survey.build(name)
    for w in module.parameters():  # a head of zeros shows nothing
        if not w.any():
            torch.nn.init.normal_(w, std=0.02)
    with torch.no_grad():
        theirs, truth = module(x), copy.deepcopy(module).double()(x.double()).numpy()
        line(name, refrun.reference(module)(x).numpy(), theirs.numpy(), truth)
        if layers:
            with refrun.Layers(module) as seen:
                module(x)
            r = refrun.check_model(module, (x,), theirs, layers=seen)
            print(f"{name:24} {len(seen)} layers recorded: {r.verdict}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("modules", nargs="*")
    p.add_argument("--files", help="folder of NAME.onnx and NAME.npz")
    p.add_argument("--layers", action="store_true")
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    if o.files:
        of_files(o.files)
    for name in o.modules:
        of_module(name, o.layers)


main()
