"""Records what this GPU's matrix units return, one instruction at a time, and what its libraries return for the same
formats, as files that refrun's package tensorcore is tested on.

    python units.py --out DIR [--device cuda]

Needs torch with CUDA, safetensors, cupy and nvcc. units.cu has the instructions: mma.sync, and wgmma where the device is
sm_90. Leaves DIR/units.safetensors with, for each name, name.a [blocks,M,K], name.b [blocks,8,K], name.c and name.d
[blocks,M,8]; DIR/libraries.safetensors with products of PyTorch, name.a [M,K], name.b [K,N], name.d; and DIR/units.json
with the device, the versions and what did not run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
INPUT = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
WIDE = {"fp16": 7, "bf16": 14, "tf32": 14, "e4m3": 5, "e5m2": 8}  # exponents from -w to w, with room for 32 products


def numbers(g, dtype, name, *shape):
    """Numbers of a format: the exponents of each block of the leading axis from a range of its own, some zeros."""
    w = torch.linspace(1, WIDE[name], shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    x = torch.randn(shape, generator=g) * torch.exp2(((torch.rand(shape, generator=g) * 2 - 1) * w).round())
    return (x * (torch.rand(shape, generator=g) > 0.03)).to(dtype)


def accumulators(g, a, b, half):
    """C near the products in size; in every fourth row near what cancels them; zero in the first block and the last."""
    p = a.double() @ b.double().transpose(-1, -2)
    size = (a.double().abs() @ b.double().abs().transpose(-1, -2))
    c = size * torch.randn(p.shape, generator=g, dtype=torch.float64) * torch.exp2((torch.rand(p.shape, generator=g, dtype=torch.float64) * 2 - 1) * 6)
    c[:, ::4] = -p[:, ::4]
    c[0], c[-1] = 0, 0
    return c.float().clamp(-6e4, 6e4).half() if half else c.float()


def instructions(g, major, errors):
    """name.part: tensor, of one instruction each."""
    import cupy

    with tempfile.TemporaryDirectory() as tmp:
        cubin = f"{tmp}/units.cubin"
        arch = "sm_90a" if major == 9 else f"sm_{major}0"
        subprocess.run(["nvcc", "-cubin", f"-arch={arch}", *(["-DWGMMA"] if major == 9 else []), str(HERE / "units.cu"), "-o", cubin], check=True)
        module = cupy.RawModule(path=cubin)
        found = {}
        for kind, rows, blocks in (("mma", 16, 24), ("wgmma", 64, 6)):
            for full in ("fp16", "bf16", "tf32", "e4m3", "e5m2", "fp16_half", "e4m3_half", "e5m2_half"):
                name, half = full.split("_")[0], full.endswith("half")
                if (kind == "mma" and full in ("e4m3_half", "e5m2_half")) or (kind == "wgmma" and major != 9):
                    continue
                try:
                    dtype = INPUT[name]
                    k = 32 // dtype.itemsize
                    a, b = (numbers(g, dtype, name, blocks, m, k) for m in (rows, 8))
                    c = accumulators(g, a, b, half)
                    there = [cupy.asarray(x.contiguous().view(torch.uint8).numpy()) for x in (a, b, c)]
                    d = cupy.zeros(c.numel() * c.element_size(), cupy.uint8)
                    module.get_function(f"{kind}_{full}")((blocks,), (2 * rows,), (*there, d))
                    d = torch.from_numpy(cupy.asnumpy(d)).view(c.dtype).reshape(c.shape)
                    found.update({f"{kind}_{full}.{part}": x for part, x in (("a", a), ("b", b), ("c", c), ("d", d))})
                except Exception as e:
                    errors[f"{kind}_{full}"] = f"{type(e).__name__}: {e}"[:300]
    return found


def libraries(g, device, errors):
    """name.part: tensor, of PyTorch's products: K from one instruction to thousands."""
    one = torch.tensor(1.0, device=device)

    def scaled(fast, out):
        return lambda a, b: torch._scaled_mm(a, b.t().contiguous().t(), scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast)

    def to_float(a, b):
        return torch.mm(a, b, out_dtype=torch.float32)

    def halves(a, b):
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        try:
            return a @ b
        finally:
            torch.backends.cuda.matmul.allow_fp16_accumulation = False

    def tf32(a, b):
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return a @ b
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    ways = {
        "fp16": [("float32", to_float), ("own", torch.mm), ("halves", halves)], "bf16": [("float32", to_float), ("own", torch.mm)], "tf32": [("tf32", tf32), ("ieee", torch.mm)],
        "e4m3": [(f"{'fast' if fast else 'slow'}_{out}", scaled(fast, getattr(torch, out))) for fast in (True, False) for out in ("float32", "bfloat16")],
    }
    found = {}
    for name, functions in ways.items():
        for m, k, n in ((64, 16, 64), (64, 32, 64), (64, 64, 64), (64, 128, 64), (64, 256, 64), (32, 1024, 48), (16, 4096, 32), (256, 512, 256)):
            a, b = (numbers(g, INPUT[name], name, *shape) for shape in ((m, k), (k, n)))
            if k > 256:  # as networks have them
                a, b = torch.randn(m, k, generator=g).to(INPUT[name]), torch.randn(k, n, generator=g).to(INPUT[name])
            there, kept = [x.to(device) for x in (a, b)], False
            for way, f in functions:
                full = f"{name}_{m}x{k}x{n}"
                try:
                    found[f"{full}.{way}"] = f(*there).cpu()
                    kept = True
                except Exception as e:
                    errors[f"{full}.{way}"] = f"{type(e).__name__}: {e}"[:300]
            if kept:
                found[f"{full}.a"], found[f"{full}.b"] = a, b
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    from safetensors.torch import save_file

    out, errors, g = Path(a.out), {}, torch.Generator().manual_seed(11)
    out.mkdir(parents=True, exist_ok=True)
    about = {"torch": torch.__version__, "device": "CPU"}
    if a.device == "cuda":
        about = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(), "capability": torch.cuda.get_device_capability()}
        try:
            save_file(instructions(g, about["capability"][0], errors), out / "units.safetensors")
        except Exception as e:
            errors["instructions"] = f"{type(e).__name__}: {e}"[:500]
    save_file({k: v.contiguous() for k, v in libraries(g, a.device, errors).items()}, out / "libraries.safetensors")
    (out / "units.json").write_text(json.dumps({**about, "errors": errors}, indent=1))
    print(json.dumps({**about, "errors": errors}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
