"""Writes torch.safetensors: what PyTorch's CPU operations return, by function and type.

    pip install torch==2.9.1
    python record.py
"""
import json
import struct

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
torch.manual_seed(7)
x = torch.cat([
    torch.tensor([nan, -inf, inf, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, 20.0, 21.0, -20.0, 90.0, -90.0, 100.0,
                  -100.0, -103.5, 1000.0, -1000.0, 1e10, -1e10, 3e38, -3e38, 1e-30, -1e-30, 1e-40, -1e-40, 0.9999999, 1.0000001]),
    torch.randn(93), 4 * torch.randn(64), 30 * torch.randn(32), torch.randn(32) * torch.logspace(-8, 0, 32)])
y = torch.cat([x.flip(0)[:128], torch.randn(64), torch.randint(-4, 5, (64,)).float() / 2])

unary = {name: getattr(torch, name) for name in
         "exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal square sin cos tan atan erf abs neg sign floor ceil trunc round sigmoid".split()}
unary |= {name: getattr(F, name) for name in "softplus elu celu selu leaky_relu hardtanh relu6 hardsigmoid hardswish softsign mish".split()}
unary |= {
    "isnan": lambda v: torch.isnan(v).to(v.dtype),
    "isinf": lambda v: torch.isinf(v).to(v.dtype),
    "hardshrink lambd=0.7": lambda v: F.hardshrink(v, 0.7),
    "logical_not": lambda v: torch.logical_not(v).to(v.dtype),
    "softplus beta=2 threshold=5": lambda v: F.softplus(v, 2, 5),
    "elu alpha=0.7 scale=1.3": lambda v: torch.ops.aten.elu(v, 0.7, 1.3),
    "celu alpha=0.3": lambda v: F.celu(v, 0.3),
    "leaky_relu negative_slope=0.2": lambda v: F.leaky_relu(v, 0.2),
    "hardtanh min_val=-0.3 max_val=2": lambda v: F.hardtanh(v, -0.3, 2),
    "clip min=-3": lambda v: torch.clip(v, -3),
}
binary = {name: getattr(torch, name) for name in
          "add sub mul div pow atan2 minimum maximum fmin fmax eq ne lt le gt ge logical_and logical_or logical_xor".split()}
binary |= {"fmod": torch.fmod, "remainder": torch.remainder, "floor_divide": torch.floor_divide,
           "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc")}

out = {"x": x, "y": y}
for dtype, kind in (torch.float32, "float32"), (torch.float16, "float16"), (torch.bfloat16, "bfloat16"):
    a, b = x.to(dtype), y.to(dtype)
    for name, f in unary.items():
        out[f"{name}/{kind}"] = f(a)
    for name, f in binary.items():
        out[f"{name}/{kind}"] = f(a, b).to(dtype)

header, data = {"__metadata__": {"torch": torch.__version__}}, b""
for name, t in out.items():
    raw = t.float().numpy().tobytes()
    header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("torch.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
