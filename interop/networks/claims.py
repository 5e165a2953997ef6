"""What three reports claim of speed, measured on this CPU, each with the least and the median.

    python claims.py [--threads 2] [half] [compile] [kernels]

half: a small molecule network in float32, under autocast, in a half format, and as TorchScript. compile: the
first call, the calls after it, and after how many calls the first has paid. kernels: how many kernels PyTorch
starts for one forward of a small vision transformer, eager and compiled, and how many passes refrun's plan has.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
import warnings

import torch
from torch.profiler import ProfilerActivity, profile

import networks
import refrun
from refrun.binary import binary


def times(f, seconds=2.0, least=5):
    f(), f()
    all, end = [], time.perf_counter() + seconds
    while len(all) < least or time.perf_counter() < end:
        began = time.perf_counter()
        f()
        all.append(1e3 * (time.perf_counter() - began))
    return min(all), statistics.median(all)


def cast(dtype, module, inputs):
    def f():
        with torch.autocast("cpu", dtype):
            return module(*inputs)

    return f


def half():
    """MLFF-Distiller: 0.93 of the speed under FP16 autocast, 0.54 as TorchScript."""
    module, inputs = networks.build("painn")
    print(f"PaiNN, {sum(p.numel() for p in module.parameters())} parameters, {len(inputs[0])} atoms, {inputs[2].shape[1]} pairs")
    narrow = [x.half() if x.is_floating_point() else x for x in inputs]
    halved = networks.build("painn")[0].half()
    script = torch.jit.trace(module, inputs)
    runs = {"float32": lambda: module(*inputs), "autocast bfloat16": cast(torch.bfloat16, module, inputs), "autocast float16": cast(torch.float16, module, inputs),
            "module.half()": lambda: halved(*narrow), "TorchScript": lambda: script(*inputs)}
    base = None
    for name, f in runs.items():
        low, mid = times(f)
        base = base or mid
        print(f"  {name:18s} {mid:8.3f} ms ({low:.3f})  speed {base / mid:.2f}", flush=True)


def compiled():
    """MASE's lab: slower at first, then faster; Spinlock: 15 s of compiling for 1.09 times."""
    for name in ("resnet18", "unet"):
        module, inputs = networks.build(name)
        low, mid = times(lambda: module(*inputs))
        torch._dynamo.reset()
        fast = torch.compile(module)
        began = time.perf_counter()
        fast(*inputs)
        first = time.perf_counter() - began
        clow, cmid = times(lambda: fast(*inputs))
        paid = f"pays after {first / (1e-3 * (mid - cmid)):.0f} calls" if cmid < mid else "never pays"
        print(f"{name}: eager {mid:.2f} ms ({low:.2f}), compiled {cmid:.2f} ms ({clow:.2f}), speed {mid / cmid:.2f}; first call {first:.1f} s, {paid}", flush=True)


def kernels():
    """proj-lvm: 27,500 kernels of a small ViT became 387."""
    from torchvision.models.vision_transformer import VisionTransformer

    module = VisionTransformer(image_size=224, patch_size=16, num_layers=6, num_heads=6, hidden_dim=384, mlp_dim=1536).eval()
    x = torch.randn(1, 3, 224, 224)
    views = ("view", "reshape", "permute", "transpose", "expand", "select", "slice", "unsqueeze", "squeeze", "flatten", "unflatten", "as_strided", "aten::t", "detach", "empty", "chunk", "split")

    def started(f):
        f()
        with profile(activities=[ProfilerActivity.CPU]) as p:
            f()
        names = [e.name for e in p.events() if not e.cpu_children and (e.name.startswith(("aten::", "mkl", "graph_", "cpp_fused")))]
        return len([n for n in names if not any(v in n for v in views)])

    torch._dynamo.reset()
    fast = torch.compile(module)
    eager, fused = started(lambda: module(x)), started(lambda: fast(x))
    with tempfile.TemporaryDirectory() as d:
        refrun.describe(module, (x,)).save(f"{d}/net.json")
        torch.save(x, f"{d}/x.pt")
        from safetensors.torch import save_file

        save_file({"x": x}, f"{d}/x.safetensors")
        out = subprocess.run([binary(), "plan", "--graph", f"{d}/net.json", "--input", f"{d}/x.safetensors"], capture_output=True, text=True)
    passes = re.search("([0-9]+) passes", out.stdout)[1]
    print(f"ViT of 6 layers, 384 wide, one image: PyTorch eager starts {eager} kernels, compiled {fused}; refrun's plan: {passes} passes")
    print("\n".join(out.stdout.splitlines()[-6:]) + out.stderr)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("what", nargs="*", default=["half", "compile", "kernels"])
    p.add_argument("--threads", type=int, default=os.cpu_count())
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(o.threads)
    print(f"PyTorch {torch.__version__}, {o.threads} threads")
    with torch.no_grad():
        for name in o.what:
            {"half": half, "compile": compiled, "kernels": kernels}[name]()
