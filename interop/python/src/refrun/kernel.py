"""Holds the output of one kernel to the bits of a device's tensor cores."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Union

from .binary import binary
from .case import CaseError, raw, write_safetensors
from .check import Report

_OPERANDS = {"F16": "fp16", "BF16": "bf16"}
_STORES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def check_kernel(op: str, inputs: Union[Mapping[str, Any], Sequence[Any]], output: Any, *, accumulate: Optional[str] = None,
                 precision: Optional[str] = None, store: Optional[str] = None, schedule: Optional[Mapping[str, int]] = None) -> Report:
    """Says whether every bit of a matrix product is what a device's tensor cores give.

    op is "matmul", of input [M,K] and other [K,N], or "dot", of rows of both [rows, terms].
    inputs are those two, and what is added to if there is such, in that order or as input,
    other and c; torch tensors on any device, JAX or numpy arrays. accumulate names the device,
    as "tensor-core:h100"; without it the report's `fits` says which devices and splits of K
    would give these bits. precision is the operands' format, fp16, bf16, tf32, E4M3 or E5M2, by
    default that of their dtype; store that of the output; schedule {"split_k": n} says that K
    is added in n parts. Bad input raises ValueError with one line.

    The verdict is PASS, FAIL, or NO-POWER where what is right is one number everywhere.
    """
    named = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(("input", "other", "c"), inputs))
    tensors = {k: raw(v, k) for k, v in named.items()}
    tensors["output"] = raw(output, "output")
    if "input" not in tensors or "other" not in tensors:
        raise CaseError(f"inputs: {', '.join(sorted(named)) or 'none'}: want input and other, and c if there is such")
    if precision is None:
        kinds = {tensors["input"].dtype, tensors["other"].dtype}
        precision = _OPERANDS.get(kinds.pop()) if len(kinds) == 1 else None
        if precision is None:
            raise CaseError(f"precision: operands of {tensors['input'].dtype} and {tensors['other'].dtype}: want one of fp16, bf16, tf32, E4M3, E5M2")
    if store is None:
        store = _STORES.get(tensors["output"].dtype, tensors["output"].dtype)
    args: List[str] = ["--op", op, "--precision", precision, "--store", store]
    if accumulate is not None:
        args += ["--accumulate", accumulate]
    if schedule:
        args += ["--schedule", ",".join(f"{k}={v}" for k, v in schedule.items())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.safetensors"
        write_safetensors(path, tensors)
        command = [binary(), "kernel", str(path)] + args
        done = subprocess.run(command + ["--json"], capture_output=True, text=True)
        if done.returncode not in (0, 1, 3):
            line = done.stderr.strip().replace(str(path) + ": ", "") or f"refrun kernel ended with {done.returncode}"
            raise ValueError(line)
        text = subprocess.run(command, capture_output=True, text=True).stdout.rstrip()
    return Report(json.loads(done.stdout), text)


def assert_kernel(op: str, inputs: Union[Mapping[str, Any], Sequence[Any]], output: Any, **options: Any) -> Report:
    """check_kernel, and AssertionError with the report unless it passes; for pytest."""
    __tracebackhide__ = True
    r = check_kernel(op, inputs, output, **options)
    if not r.ok:
        raise AssertionError(str(r))
    return r
