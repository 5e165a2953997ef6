"""Numbers of 8 bits and fewer, and the kernels that write and read them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .binary import binary
from .case import CaseError, Raw, raw, write_safetensors
from .check import Report

# What safetensors calls the formats; those that it lacks are kept as bytes.
_NARROW = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
           "float8_e8m0fnu": "F8_E8M0", "float8_e4m3b11fnuz": "U8", "float8_e3m4": "U8", "float6_e3m2fn": "U8", "float6_e2m3fn": "U8",
           "float4_e2m1fn": "U8", "float4_e2m1fn_x2": "U8", "int4": "I8", "uint4": "U8"}
_BYTES = {"uint8": "U8", "int8": "I8"}
OPERATIONS = ("quantize", "dequantize", "scaled_mm")
# What an operation reads and writes, in the order in which it is given.
_INPUTS = {"quantize": ("input", "scale", "zero_point"), "dequantize": ("data", "scale", "zero_point"),
           "scaled_mm": ("input", "other", "scale_a", "scale_b", "bias")}
_OUTPUTS = {"quantize": ("data", "scale", "zero_point"), "dequantize": ("output",), "scaled_mm": ("output",)}


def narrow(value: Any) -> Optional[Raw]:
    """The codes of a torch tensor, a JAX or ml_dtypes array of 8 bits and fewer; None of anything else."""
    kind = str(getattr(value, "dtype", ""))
    name = kind.replace("torch.", "")
    code = _NARROW.get(name)
    if code is None:
        return None
    if kind.startswith("torch."):
        import torch

        t = value.detach().cpu().contiguous()
        return Raw(code, t.shape, t.view(torch.uint8).numpy().tobytes())
    a = np.ascontiguousarray(np.asarray(value))
    return Raw(code, a.shape, (a.astype(np.int8) if name in ("int4", "uint4") else a.view(np.uint8)).tobytes())


def _tensor(value: Any, name: str) -> Raw:
    """narrow, of bytes and of wider numbers too."""
    of = narrow(value)
    if of is not None:
        return of
    kind = str(getattr(value, "dtype", "")).replace("torch.", "")
    if kind in _BYTES or (name == "zero_point" and "int" in kind):
        a = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        a = np.ascontiguousarray(a if kind in _BYTES else a.astype(np.int64))
        return Raw(_BYTES.get(kind, "I64"), a.shape, a.tobytes())
    return raw(value, name)


def _named(values: Any, names: Sequence[str], what: str) -> Dict[str, Any]:
    """Values by their names, as they are given or in order."""
    if isinstance(values, Mapping):
        return dict(values)
    if not isinstance(values, (tuple, list)):
        values = (values,)
    if len(values) > len(names):
        raise CaseError(f"{what}: {len(values)} tensors: want {', '.join(names)} at most, or a dict by these names")
    return dict(zip(names, values))


def check_quantized(op: str, inputs: Any, output: Any, report: Union[str, Path, None] = None, **attributes: Any) -> Report:
    """check_kernel of quantize, dequantize and scaled_mm."""
    tensors: Dict[str, Raw] = {}
    takes = _INPUTS[op]
    if attributes.get("format") == "nvfp4" and op != "scaled_mm":  # a scale of scales in place of a zero point
        takes = ("input", "global") if op == "quantize" else ("data", "scale", "global")
    for name, value in {**_named(inputs, takes, "inputs"), **_named(output, _OUTPUTS[op], "output")}.items():
        if value is not None:
            tensors[name] = _tensor(value, name)
    args: List[str] = ["--op", op]
    for name, value in attributes.items():
        args += ["--attr", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if report is not None:
        args += ["--report", str(report)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.safetensors"
        write_safetensors(path, tensors)
        done = subprocess.run([binary(), "kernel", str(path), *args, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise ValueError(done.stderr.strip().replace(str(path) + ": ", "") or f"refrun kernel ended with {done.returncode}")
    data = json.loads(done.stdout)
    return Report(data, data["text"].rstrip())
