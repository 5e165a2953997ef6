"""Holds the gradients that a backward kernel returned to what a right kernel may return."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .binary import binary
from .case import CaseError, Raw, write_safetensors
from .check import Report
from .kernel import _names, _tensor, _traced

_BACKWARD = {"dropout": ("input", "mask")}


def check_grad(op: Union[str, Any], inputs: Union[Mapping[str, Any], Sequence[Any]], grad_outputs: Any, grads: Union[Mapping[str, Any], Sequence[Any]], *,
               saved: Optional[Mapping[str, Any]] = None, precision: Optional[str] = None, accumulate: Optional[str] = None, round: Sequence[str] = (),
               store: Optional[str] = None, report: Union[str, Path, None] = None, **attributes: Any) -> Report:
    """Says whether the gradients that a backward kernel returned are what a right kernel may return.

    op is that of the forward pass, as in check_kernel: ATen's name with attributes as keywords, or a torch function or
    module. inputs are its tensors, and grad_outputs the gradient that the kernel was given, or a list of them where the
    forward has several outputs. grads are the gradients that it returned, by the names of inputs, or in their order with
    None for those that there are none of.

    saved is what the kernel read of the forward pass and did not compute again: {"mean": ..., "rstd": ...} of a norm,
    {"lse": ...} of an attention, {"output": ...} of any operation. Without it both are right: to read it as stored, and to
    compute it again.

    All gradients are judged in one report, `outputs` has a row for each, and `contract` is that under which all are
    right. accumulate="bfloat16" says that sums are kept in that format, which is a fault of a kernel that does not say so.

    The verdict is PASS, FAIL, or NO-POWER where these inputs show nothing, or where no gradient of an operation is known.
    Bad input raises ValueError with one line.
    """
    net = None
    if not isinstance(op, str):
        net, inputs = _traced(op, inputs, attributes)
        attributes, op = {}, ""
    order = list(inputs) if isinstance(inputs, Mapping) else list(_BACKWARD.get(op) or _names(op, len(inputs)))[: len(inputs)]
    named = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(order, inputs))
    tensors = {k: _tensor(v, k) for k, v in named.items() if v is not None}
    tensors.update(_given(grad_outputs))
    if not isinstance(grads, Mapping):
        if len(grads) > len(order):
            raise CaseError(f"grads: {len(grads)}: want one for each of the {len(order)} inputs, None where there is none")
        grads = dict(zip(order, grads))
    for prefix, of in (("grad", grads), ("saved", saved or {})):
        tensors.update({f"{prefix}.{k}": _tensor(v, f"{prefix}.{k}") for k, v in of.items() if v is not None})
    args: List[str] = ["--backward"] + (["--op", op] if op else [])
    for flag, value in (("precision", precision), ("store", store), ("accumulate", accumulate)):
        if value is not None:
            args += ["--" + flag, value]
    if round:
        args += ["--round", ",".join(round)]
    for name, value in attributes.items():
        args += ["--attr", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if report is not None:
        args += ["--report", str(report)]
    return _judge(tensors, args, net)


# The tensors of ATen's backward operations, in the order of their schemas.
_SAVED = {"_softmax_backward_data", "_log_softmax_backward_data", "sigmoid_backward", "tanh_backward"}
_SELF = {"gelu_backward", "silu_backward", "mish_backward", "hardswish_backward", "leaky_relu_backward", "hardtanh_backward", "softplus_backward", "threshold_backward"}
ATEN = {
    **{op: ("grad_output", "output") for op in _SAVED}, **{op: ("grad_output", "self") for op in _SELF},
    "native_layer_norm_backward": ("grad_out", "input", "mean", "rstd", "weight", "bias"),
    "_fused_rms_norm_backward": ("grad_out", "input", "rstd", "weight"),
    "native_group_norm_backward": ("grad_out", "input", "mean", "rstd", "weight"),
    "native_batch_norm_backward": ("grad_out", "input", "weight", "running_mean", "running_var", "save_mean", "save_invstd"),
    "embedding_dense_backward": ("grad_output", "indices"),
    "convolution_backward": ("grad_output", "input", "weight"),
    "max_pool2d_with_indices_backward": ("grad_output", "self", "indices"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": ("grad_out", "query", "key", "value", "out", "logsumexp"),
    "_scaled_dot_product_flash_attention_backward": ("grad_out", "query", "key", "value", "out", "logsumexp"),
    "_scaled_dot_product_efficient_attention_backward": ("grad_out_", "query", "key", "value", "out", "logsumexp"),
}


def check_aten(op: str, inputs: Union[Mapping[str, Any], Sequence[Any]], output: Any, flags: Sequence[str], attributes: Mapping[str, Any]) -> Report:
    """check_kernel of one of ATen's backward operations: output is one tensor, or those that it returns, with None for some."""
    if not isinstance(inputs, Mapping):
        if len(inputs) > len(ATEN[op]):
            raise CaseError(f"inputs: {len(inputs)} tensors: want {', '.join(ATEN[op])} at most, attributes by keyword")
        inputs = dict(zip(ATEN[op], inputs))
    tensors = {k: _tensor(v, k) for k, v in inputs.items() if v is not None}
    of = {f"output.{k}": v for k, v in enumerate(output if isinstance(output, (list, tuple)) else [output])}
    tensors.update({k: _tensor(v, k) for k, v in of.items() if v is not None})
    args = ["--op", op, *flags]
    for name, value in attributes.items():
        args += ["--attr", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return _judge(tensors, args, None)


def _given(grad_outputs: Any) -> Dict[str, Raw]:
    """The gradients by outputs under the names that they have in a file."""
    if not isinstance(grad_outputs, (list, tuple)):
        return {"grad_output": _tensor(grad_outputs, "grad_output")}
    return {f"grad_output.{k}": _tensor(v, f"grad_output.{k}") for k, v in enumerate(grad_outputs)}


def _judge(tensors: Dict[str, Raw], args: List[str], net: Any) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "backward.safetensors"
        write_safetensors(path, tensors)
        if net is not None:
            args = args + ["--graph", str(net.save(Path(folder) / "chain.json"))]
        done = subprocess.run([binary(), "kernel", str(path), *args, "--json"], capture_output=True, text=True)
        if done.returncode not in (0, 1, 3):
            raise ValueError(done.stderr.strip().replace(str(path) + ": ", "") or f"refrun kernel ended with {done.returncode}")
        data = json.loads(done.stdout)
    return Report(data, data["text"].rstrip())


def assert_grad(op: Union[str, Any], inputs: Union[Mapping[str, Any], Sequence[Any]], grad_outputs: Any,
                grads: Union[Mapping[str, Any], Sequence[Any]], **options: Any) -> Report:
    """check_grad, and AssertionError with the report unless it passes; for pytest."""
    __tracebackhide__ = True
    r = check_grad(op, inputs, grad_outputs, grads, **options)
    if not r.ok:
        raise AssertionError(str(r))
    return r
