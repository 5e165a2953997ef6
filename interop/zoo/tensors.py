"""Reads and writes safetensors files with numpy alone.

The format: 8 bytes, the length of a JSON header; the header, which gives each
tensor's type, shape and place; the bytes. A bfloat16 tensor is a float32 array
here, whose numbers are bfloat16 numbers, and is named in `bf16` when written.
"""

import json
import struct

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}


def load(path):
    """{name: array} and the metadata of a file. BF16 comes back as float32."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    meta, out = header.pop("__metadata__", {}), {}
    for name, h in header.items():
        lo, hi = h["data_offsets"]
        a = np.frombuffer(data[lo:hi], TYPES[h["dtype"]]).reshape(h["shape"])
        if h["dtype"] == "BF16":
            a = (a.astype(np.uint32) << 16).view(np.float32)
        out[name] = a
    return out, meta


def save(path, tensors, bf16=(), meta=None):
    """Writes {name: array}; the names in bf16 are stored as BF16."""
    header, parts, at = {}, [], 0
    if meta:
        header["__metadata__"] = {k: str(v) for k, v in meta.items()}
    for name, a in tensors.items():
        a = np.ascontiguousarray(a)
        if name in bf16:
            kind, a = "BF16", (a.astype(np.float32).view(np.uint32) >> 16).astype("<u2")
        else:
            kind = next(k for k, t in TYPES.items() if k != "BF16" and np.dtype(t) == a.dtype)
        raw = a.tobytes()
        header[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
