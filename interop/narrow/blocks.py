"""What torchao's quantizers to MX and NVFP4 return, for package quantize's tests; needs torchao 0.14.1.

    python interop/narrow/blocks.py internal/op/quantize/testdata --seed 3 --rows 4 --columns 64

mx.safetensors: NAME.input, and NAME.TYPE.RULE.scale and .data, codes one a byte but of float4_e2m1fn_x2, which
has two, the first in the high half. nvfp4.safetensors: NAME.one_level and NAME.two_level, with .global.
"""
import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

TYPES = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "fp6_e3m2": "fp6_e3m2", "fp6_e2m3": "fp6_e2m3",
         "float4_e2m1fn_x2": torch.float4_e2m1fn_x2}


def inputs(rows, columns):
    """Hard tensors: ties of all types, amaxes at the edges of the rules, subnormal numbers, what is not finite."""
    n = (rows, columns)
    edges = torch.tensor([448.0, 449, 480, 57344, 6, 7, 7.5, 7.75, 28, 30, 4, 5, 1, 1.75, 1.999], dtype=torch.float32)
    odd = torch.randn(n)
    odd[0, 3], odd[1, 5], odd[2, 40] = float("inf"), float("nan"), float("-inf")
    top = torch.randn(n)
    top[:, ::32] = edges[torch.randint(len(edges), (rows, columns // 32))] * 2.0 ** torch.randint(-3, 9, (rows, 1))
    yield "ties", torch.randint(-24, 25, n).float() / 4
    yield "normal", torch.randn(n)
    yield "edges", top
    yield "near", torch.nextafter(top, torch.full(n, 1e9))
    yield "bfloat16", torch.randn(n).bfloat16().float()
    yield "tiny", torch.randn(n) * 1e-38
    yield "tiniest", torch.randn(n) * 1e-43
    yield "zeros", torch.zeros(n)
    yield "wide", torch.randn(n) * 2.0 ** torch.randint(-30, 30, n)
    yield "huge", torch.randn(n) * 1e38
    yield "odd", odd


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--columns", type=int, default=128)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    mx, nv = {}, {}
    for name, x in inputs(a.rows, a.columns):
        mx[name + ".input"] = nv[name + ".input"] = x
        for kind, element in TYPES.items():
            for rule in ScaleCalculationMode:
                scale, data = to_mx(x, element, 32, rule)
                mx[f"{name}.{kind}.{rule.value}.scale"] = scale.view(torch.uint8)
                mx[f"{name}.{kind}.{rule.value}.data"] = data.view(torch.uint8)
        for level, g in (("one_level", None), ("two_level", per_tensor_amax_to_scale(x.abs().max()))):
            scale, data = nvfp4_quantize(x, 16, g)
            nv[f"{name}.{level}.scale"], nv[f"{name}.{level}.data"] = scale.view(torch.uint8), data
            if g is not None:
                nv[f"{name}.{level}.global"] = g.reshape(1)
    a.folder.mkdir(parents=True, exist_ok=True)
    save_file(mx, a.folder / "mx.safetensors")
    save_file(nv, a.folder / "nvfp4.safetensors")


if __name__ == "__main__":
    main()
