"""Writes torch.safetensors: what PyTorch's CPU transforms return in float64, by the graph's
operation and its attributes, of float32 numbers; and which attributes it refuses.

    pip install torch==2.9.1
    python record.py
"""
import json
import struct

import torch

torch.manual_seed(11)
FUNCTIONS = {"fft_fft": torch.fft.fftn, "fft_ifft": torch.fft.ifftn, "fft_rfft": torch.fft.rfftn, "fft_irfft": torch.fft.irfftn}
real = {"7": torch.randn(7), "1": torch.randn(1), "4x6": torch.randn(4, 6), "2x3x5": torch.randn(2, 3, 5), "2x2x4x4": torch.randn(2, 2, 4, 4)}
inputs = {}
for name, x in real.items():
    inputs["real " + name] = x.double()
    inputs["complex " + name] = torch.complex(x, torch.randn_like(x)).to(torch.complex128)

out = {name: torch.view_as_real(x) if x.is_complex() else x for name, x in inputs.items()}
refused = []


def record(op, name, dim, n, norm):
    attributes = {k: v for k, v in (("dim", dim), ("n", n), ("norm", norm)) if v is not None}
    call = json.dumps({"op": op, "input": name, "attributes": attributes})
    try:
        y = FUNCTIONS[op](inputs[name], s=n, dim=dim or [-1], norm=norm)
    except Exception:
        refused.append(call)
        return
    out[call] = torch.view_as_real(y) if y.is_complex() else y


for op in FUNCTIONS:
    for name, x in inputs.items():
        if x.is_complex() == (op == "fft_rfft") or (op in ("fft_fft", "fft_ifft") and not x.is_complex()):
            continue
        record(op, name, None, None, None)
        record(op, name, [0], [6], "ortho")
        if x.dim() > 1:
            record(op, name, [-2, -1], None, "ortho")
            record(op, name, [0, 1], [3, 4], "forward")
            record(op, name, [-1, 0], [5, 2], "backward")
        if x.dim() > 2:
            record(op, name, [2, 0, 1], None, "forward")
    for dim, n in (([0, 0], None), ([0, -2], None), ([2], None), ([-3], None), ([0], [0]), ([0], [-1]), ([0, 1], [1, 2, 3])):
        record(op, ("real" if op == "fft_rfft" else "complex") + " 4x6", dim, n, None)

header, data = {"__metadata__": {"torch": torch.__version__, "refused": json.dumps(refused)}}, b""
for name, t in out.items():
    raw = t.contiguous().numpy().tobytes()
    header[name] = {"dtype": "F64", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("torch.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
