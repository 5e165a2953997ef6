"""Holds the output of one kernel to what a right kernel may return."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Union

import numpy as np

from .binary import binary
from .case import CaseError, Raw, raw, write_safetensors
from .check import Report
from . import factoring
from .quantized import OPERATIONS, check_quantized, narrow

_OPERANDS = {"F16": "fp16", "BF16": "bf16", "F8_E4M3": "E4M3", "F8_E5M2": "E5M2"}
_STORES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# The names of inputs that are given in order.
_ARGUMENTS = {
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
    "cross_entropy": ("input", "target"),
    "swiglu": ("gate", "up"),
    "geglu": ("gate", "up"),
    "rotary_embedding": ("input", "cos", "sin"),
    "dot": ("input", "other", "c"),
    "matmul": ("input", "other", "c"),
    "bmm": ("input", "mat2"),
    "mm": ("input", "mat2"),
    "embedding": ("weight", "input"),
    "addmm": ("input", "mat1", "mat2"),
    "baddbmm": ("input", "batch1", "batch2"),
    "gather": ("input", "index"),
    "index_select": ("input", "index"),
    "scatter_add": ("input", "index", "src"),
    "index_add": ("input", "index", "source"),
    "scatter_reduce": ("input", "index", "src"),
    "index_reduce": ("input", "index", "source"),
    "where": ("condition", "input", "other"),
    "grid_sampler": ("input", "grid"),
    "batch_norm": ("input", "weight", "bias", "running_mean", "running_var"),
}
_WEIGHTED = ("layer_norm", "group_norm", "instance_norm", "rms_norm", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def _names(op: str, count: int) -> Sequence[str]:
    names = factoring.names(op) if factoring.plain(op) else _ARGUMENTS.get(op, ("input", "weight", "bias") if op in _WEIGHTED else ("input", "other"))
    if count > len(names):
        raise CaseError(f"inputs: {count} tensors: want {', '.join(names)} at most, or a dict by ATen's names")
    return names[:count]


def _tensor(value: Any, name: str) -> Raw:
    """raw, of whole numbers and truth values too."""
    kind = str(getattr(value, "dtype", ""))
    if "int" in kind or "bool" in kind:
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        a = np.asarray(value).astype(np.int64)  # ascontiguousarray makes an axis of none
        return Raw("I64", a.shape, a.tobytes())
    return narrow(value) or raw(value, name)


def _torch(value: Any) -> Any:
    """A torch tensor on the CPU of a torch tensor on any device, a JAX or a numpy array."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    a = np.array(value)
    if a.dtype.name == "bfloat16":
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(a)


def _traced(op: Any, inputs: Any, attributes: Mapping[str, Any], seed: Optional[int] = None) -> Any:
    """A torch function or module as a Network, and the tensors of its inputs by their names in it."""
    import torch

    from .network import Network, describe, described

    if attributes:
        raise CaseError(f"{', '.join(attributes)}: attributes of an operation that has a name: want them inside the function")
    if isinstance(op, Network):
        if seed is not None:
            raise CaseError("seed: of a Network, which draws nothing: want the module or function")
        return op, op.feed([v if isinstance(v, (bool, int, float)) else _torch(v) for v in inputs])
    module = op
    if not isinstance(op, torch.nn.Module):
        class Chain(torch.nn.Module):
            def forward(self, *a: Any) -> Any:
                return op(*a)

        module = Chain().eval()
    if isinstance(inputs, Mapping):
        raise CaseError("inputs: a dict: want them in their order, as the function takes them")
    given = [_torch(v) for v in inputs]
    if seed is not None:
        with torch.random.fork_rng():  # whoever calls it goes on with the draws that they had
            net, draws = described(module, tuple(given), draws=True), _drawn(module, inputs, seed)
        noise = [getattr(torch, i["dtype"]) for i in net.inputs if i["name"].startswith("noise.")]
        if len(noise) != len(draws):
            raise CaseError(f"seed: {len(draws)} draws were seen, and it makes {len(noise)}: want a function that is not compiled")
        return net, net.feed([*given, *(t.cpu().to(dtype) for t, dtype in zip(draws, noise))])
    try:
        net = describe(module, tuple(given))
    except CaseError as e:
        if "torch.export cannot follow" not in str(e) or isinstance(op, torch.nn.Module):
            raise
        net, given = _unfolded(op, given, e)
    return net, net.feed(given)


def _drawn(module: Any, inputs: Sequence[Any], seed: int) -> Any:
    """What a module draws at random after manual_seed, in order."""
    import torch

    from .loop import Draws
    from .network import running

    with torch.no_grad(), running(module), Draws() as draws:
        torch.manual_seed(seed)
        module(*(v if isinstance(v, torch.Tensor) else _torch(v) for v in inputs))
    return draws.kept


def _unfolded(op: Any, given: Sequence[Any], refused: CaseError) -> Any:
    """A function that torch.export does not follow as a Network, and its inputs: one that takes gradients, by torch.func or
    torch.autograd, as the operations that these consist of; or one whose whole numbers decide what is computed, for these
    numbers."""
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    from .concrete import concrete
    from .network import describe

    aten = torch.ops.aten
    table = {**core_aten_decompositions(), **get_decompositions([aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm])}
    ways = [lambda: (make_fx(op, decomposition_table=table)(*given), given), lambda: concrete(op, given)]
    if all(t.is_floating_point() or t.is_complex() for t in given):
        ways.pop()
    for way in ways:
        try:
            unfolded, inputs = way()
        except (RuntimeError, AssertionError, TypeError, ValueError, IndexError, NotImplementedError):  # its own among them
            continue
        constants = [getattr(unfolded, n.target) for n in unfolded.graph.nodes if n.op == "get_attr"]
        if any(c.is_floating_point() or inputs is given for c in constants):  # computed elsewhere, where nobody would judge it
            continue
        return describe(unfolded, tuple(inputs)), inputs
    raise refused from None


def _function(op: str, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    """One of ATen's operations as a function of its tensors, and these in the order of its schema; None if there is none.

    inputs are by the names in the schema, or in their order, and attributes are its other arguments. Where torch is not
    installed there is none.
    """
    try:
        import torch
    except ImportError:
        return None
    packet = getattr(torch.ops.aten, op, None)
    for overload in packet.overloads() if packet is not None else ():
        f = getattr(packet, overload)
        arguments = f._schema.arguments
        tensors = [a.name for a in arguments if "Tensor" in str(a.type)]
        given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(tensors, inputs))
        given = {name: v for name, v in given.items() if v is not None}
        left = {a.name for a in arguments if not a.has_default_value() and "Optional" not in str(a.type)} - set(given) - set(attributes)
        known = set(given) <= set(tensors) and set(attributes) <= {a.name for a in arguments}
        if left or not known or not isinstance(inputs, Mapping) and len(inputs) > len(tensors):
            continue
        order = [name for name in tensors if name in given]
        others = {a.name: attributes.get(a.name, a.default_value) for a in arguments if a.name not in given}

        def of(*x: Any, f: Any = f, order: Sequence[str] = order, others: Mapping[str, Any] = others) -> Any:
            return f(**dict(zip(order, x)), **others)

        return of, [given[name] for name in order]
    return None


def _is_complex(v: Any) -> bool:
    return "complex" in str(getattr(v, "dtype", ""))


def _as_pairs(op: Any, inputs: Sequence[Any], output: Any) -> Any:
    """A function of complex numbers as one of pairs, and its tensors: real and imaginary parts along a last axis of 2."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(inputs, Mapping):
        raise CaseError("inputs: a dict: want them in their order, as the function takes them")
    paired = [_is_complex(v) for v in inputs]
    pairs = lambda v: torch.view_as_real(v.resolve_conj().resolve_neg()) if isinstance(v, torch.Tensor) and v.is_complex() else v

    class Pairs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = op

        def forward(self, *x: Any) -> Any:
            given = [torch.view_as_complex(t) if is_pair else t for t, is_pair in zip(x, paired)]
            return pytree.tree_map(pairs, self.function(*given))

    given = [pairs(_torch(v)) if is_pair else v for v, is_pair in zip(inputs, paired)]
    of = Pairs()
    made = pytree.tree_map(lambda v: pairs(_torch(v)) if _is_complex(v) else v, output)
    return (of if isinstance(op, torch.nn.Module) else lambda *x: of(*x)), given, made


def _outputs(output: Any) -> Mapping[str, Raw]:
    """The outputs under the names that they have in a file: of a list by their places, of a dict by their names."""
    if isinstance(output, Mapping):
        return {k if k == "output" else f"output.{k}": _tensor(v, k) for k, v in output.items() if v is not None}
    if isinstance(output, (list, tuple)):
        return {f"output.{k}": _tensor(v, f"output.{k}") for k, v in enumerate(output) if v is not None}
    return {"output": _tensor(output, "output")}


def _flags(attributes: Mapping[str, Any]) -> List[str]:
    """Attributes as `refrun kernel` takes them."""
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in attributes.items()}
    return [x for name, value in given.items() for x in ("--attr", f"{name}={value}")]


def _values(tensors: Any) -> Sequence[Any]:
    """The tensors of a dict, of a list, or one alone."""
    if isinstance(tensors, Mapping):
        return list(tensors.values())
    return tensors if isinstance(tensors, (list, tuple)) else [tensors]


def _quantizer(op: str, inputs: Any, output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Report:
    for option in ("precision", "accumulate", "round", "schedule", "store", "variance"):
        if options[option] is not None and (option != "round" or options[option]):
            raise CaseError(f"{option}: says nothing of {op}: want attributes, format among them")
    return check_quantized(op, inputs, output, options["report"], **attributes)


def _backward(op: str, inputs: Any, output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Report:
    """One of ATen's backward operations."""
    from .gradient import check_aten

    flags = [f"--{flag}={options[flag]}" for flag in ("precision", "store", "accumulate", "report") if options[flag] is not None]
    if options["round"]:
        flags += ["--round", ",".join(options["round"])]
    return check_aten(op, inputs, output, flags, attributes)


def _complex(op: Any, inputs: Any, output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any], seed: Optional[int]) -> Report:
    """What takes or returns complex tensors, as a function of pairs."""
    if isinstance(op, str):
        found = _function(op, inputs, attributes)
        if found is None:
            raise CaseError(f"{op}: of complex numbers: want a function")
        (op, inputs), attributes = found, {}
    return check_kernel(*_as_pairs(op, inputs, output), **options, seed=seed, **attributes)


def _named(op: str, inputs: Any, output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Report:
    """An operation by its name; one that the program does not know, as a function that PyTorch decomposes."""
    if factoring.plain(op):
        output = factoring.outputs(op, output, attributes)
    elif attributes.get("reduce") == "prod" or op not in _ARGUMENTS and op not in _WEIGHTED and len(inputs) > 2:
        function = _function(op, inputs, attributes)
        if function is not None:
            return check_kernel(*function, output, **options)
    named = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(_names(op, len(inputs)), inputs))
    try:
        return _judged(["--op", op], None, named, output, attributes, options)
    except ValueError as refused:
        function = _function(op, inputs, attributes) if "unknown operation" in str(refused) else None
        if function is None:
            raise
    return check_kernel(*function, output, **options)


def _called(op: Any, inputs: Any, output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any], seed: Optional[int]) -> Report:
    """A function or module as the graph that torch.export makes of it; one that is a factorization, by that name."""
    if callable(op) and seed is None and not isinstance(inputs, Mapping) and not attributes:
        found = factoring.called(op, inputs)
        if found is not None:
            return check_kernel(found[0], found[1], output, **options, **found[2])
    net, named = _traced(op, inputs, attributes, seed)
    return _judged([], net, named, output, {}, options)


def _judged(args: List[str], net: Any, named: Mapping[str, Any], output: Any, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Report:
    """What `refrun kernel` says of the named inputs and the output; net is the graph of a function."""
    tensors = {k: _tensor(v, k) for k, v in named.items() if v is not None}
    tensors.update(_outputs(output))
    args = args + _claims(args[-1] if args else "", tensors, options) + _flags(attributes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.safetensors"
        write_safetensors(path, tensors)
        if net is not None:
            args += ["--graph", str(net.save(Path(folder) / "chain.json"))]
        if options["report"] is not None:
            args += ["--report", str(options["report"])]
        command = [binary(), "kernel", str(path)] + args
        done = subprocess.run(command + ["--json"], capture_output=True, text=True)
        if done.returncode not in (0, 1, 3):
            raise ValueError(done.stderr.strip().replace(str(path) + ": ", "") or f"refrun kernel ended with {done.returncode}")
        data = json.loads(done.stdout)
        text = data.get("text") or subprocess.run(command, capture_output=True, text=True).stdout
    return Report(data, text.rstrip())


def _claims(op: str, tensors: Mapping[str, Raw], options: Mapping[str, Any]) -> List[str]:
    """What the kernel claims, as flags of `refrun kernel`. What is held to a device's bits says all of its formats."""
    said = {flag: options[flag] for flag in ("precision", "store", "accumulate", "variance")}
    if (said["accumulate"] or "").startswith("tensor-core") or op == "dot" or (said["precision"] or "").startswith("E"):
        if "input" not in tensors or "other" not in tensors:
            given = ", ".join(sorted(k for k in tensors if k.split(".")[0] != "output"))
            raise CaseError(f"inputs: {given or 'none'}: want input and other, and c if there is such")
        if said["precision"] is None:
            kinds = {tensors["input"].dtype, tensors["other"].dtype}
            said["precision"] = _OPERANDS.get(kinds.pop()) if len(kinds) == 1 else None
            if said["precision"] is None:
                raise CaseError(f"precision: operands of {tensors['input'].dtype} and {tensors['other'].dtype}: want one of fp16, bf16, tf32, E4M3, E5M2")
        if said["store"] is None:
            said["store"] = _STORES.get(tensors["output"].dtype, tensors["output"].dtype)
    args = [x for flag, value in said.items() if value is not None for x in ("--" + flag, value)]
    if options["everything"]:
        args.append("--all")
    if options["seconds"] is not None:
        args += ["--seconds", str(options["seconds"])]
    if options["schedule"]:
        args += ["--schedule", ",".join(f"{k}={v}" for k, v in options["schedule"].items())]
    if options["round"]:
        args += ["--round", ",".join(options["round"])]
    return args


def check_kernel(op: Union[str, Any], inputs: Union[Mapping[str, Any], Sequence[Any]], output: Any, *, precision: Optional[str] = None,
                 accumulate: Optional[str] = None, round: Sequence[str] = (), schedule: Optional[Mapping[str, int]] = None,
                 store: Optional[str] = None, variance: Optional[str] = None, everything: bool = False, seconds: Optional[float] = None,
                 seed: Optional[int] = None, report: Union[str, Path, None] = None, **attributes: Any) -> Report:
    """Says whether the output of one kernel is what a right kernel may return.

    op is ATen's name of the operation ("softmax", "layer_norm", "matmul", "conv2d",
    "scaled_dot_product_attention", ...), or "swiglu", "geglu", "rotary_embedding" or "cross_entropy".
    inputs are its tensors by ATen's names of the arguments, or in their order; torch tensors on any
    device, JAX or numpy arrays. Attributes are keywords: dim=-1, normalized_shape=[256], eps=1e-5.

    Other operations of ATen have the names of their schemas. They are judged as PyTorch decomposes them.

    The formats are those of the tensors. precision says another for the inputs ("tf32" rounds the
    operands of products), store for the output. Sums are in float32. round names steps that the
    kernel rounds to the inputs' format, such as "silu" or "normalized"; what is not named is searched
    for, and the report's `contract` says what was found. schedule says {"block_keys": 32} of an online
    attention, variance "one_pass" of a norm.

    accumulate="float16" or "bfloat16" says that sums are kept in that format, which is a fault of a kernel
    that does not say so. "int32" says that they are of integers, which are held to every bit. "3xtf32", "bf16x3",
    "bf16x6" and "bf16x9" say that products of float32 numbers are those of their parts. accumulate="tensor-core:h100" holds a matmul [M,K] by [K,N] (with c, what is added to) or "dot" to
    that device's very bits, with schedule={"split_k": n} to those of n parts of K, or {"part_k": n} of parts of n
    numbers. Operands of E4M3 and E5M2 need a precision of that name.

    op may be a torch function or module too, which torch.export follows: a kernel that fuses a chain of
    operations. Every result inside is then a step that the kernel may round: "fits if silu is rounded". Where it draws at
    random, as a dropout in training does, seed is that of torch.manual_seed just before the kernel's call, which makes the
    same draws.

    "quantize" and "dequantize" are of numbers of 8 bits and fewer with scales of blocks, held to bits: inputs [x],
    output (data, scale), format="mxfp8_e4m3", rule="floor", axis=-1. "scaled_mm" is a product of such
    numbers, inputs [a, b, scale_a, scale_b]. docs/KERNELS.md has the formats, their rules and the other attributes.

    ATen's backward operations by name, such as "native_layer_norm_backward", have the tensors of their schemas as inputs,
    and as output what they return: a tensor, or a list with None for what is not there. See check_grad.

    Complex tensors are judged as pairs, real and imaginary parts along a last axis of 2.

    A kernel may return several outputs, which are judged in one report with a row for each: of an operation by name
    {"output": y, "mean": mean, "rstd": rstd} of norms and {"output": y, "lse": lse} of an attention; of a function a list, in
    the order in which it returns them.

    Of a large output whose rows can be judged by themselves, such as a product of 4096 x 4096 matrices, a sample is judged,
    and `sample` says how many rows, and what is missed with which chance; with everything=True all are. seconds ends after
    about so long with the rows that were judged by then.

    report names an HTML file to write.

    The verdict is PASS, FAIL, or NO-POWER where these inputs would not tell a right kernel from one that
    writes nothing. Bad input raises ValueError with one line.
    """
    options = {"precision": precision, "accumulate": accumulate, "round": round, "schedule": schedule, "store": store, "variance": variance,
               "everything": everything, "seconds": seconds, "report": report}
    if isinstance(op, str):
        if op in OPERATIONS:
            return _quantizer(op, inputs, output, attributes, options)
        from .gradient import ATEN

        if op in ATEN:
            return _backward(op, inputs, output, attributes, options)
        if seed is not None:
            raise CaseError(f"seed: says nothing of {op}: want a function or module that draws at random")
    if any(map(_is_complex, [*_values(inputs), *_values(output)])):
        return _complex(op, inputs, output, attributes, options, seed)
    if isinstance(op, str):
        return _named(op, inputs, output, attributes, options)
    return _called(op, inputs, output, attributes, options, seed)


def assert_kernel(op: Union[str, Any], inputs: Union[Mapping[str, Any], Sequence[Any]], output: Any, **options: Any) -> Report:
    """check_kernel, and AssertionError with the report unless it passes; for pytest."""
    __tracebackhide__ = True
    r = check_kernel(op, inputs, output, **options)
    if not r.ok:
        raise AssertionError(str(r))
    return r
