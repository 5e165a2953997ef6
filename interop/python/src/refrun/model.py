"""Has the oracle judge one call of any module."""

from __future__ import annotations

import copy
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils import _pytree as pytree

from .binary import binary
from .case import CaseError, precision_name
from .check import Report
from .network import Network, describe


class Layers(Dict[str, torch.Tensor]):
    """What each submodule of a module returns, while it is used as a context:

        with refrun.Layers(module) as layers:
            y = module(x)

    Of a module that is called more than once the later calls are NAME@1, NAME@2, ... Copies are
    taken, since an operation in place may change what a layer has returned.
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self._module = module
        self._hooks: List[Any] = []
        self._calls: Dict[str, int] = {}

    def __enter__(self) -> "Layers":
        self.clear()
        self._calls.clear()
        self._hooks = [m.register_forward_hook(self._hook(name)) for name, m in self._module.named_modules(remove_duplicate=False) if name]
        return self

    def __exit__(self, *_: Any) -> None:
        for h in self._hooks:
            h.remove()

    def _hook(self, name: str) -> Any:
        def hook(_m: nn.Module, _args: Any, out: Any) -> None:
            k = self._calls.get(name, 0)
            self._calls[name] = k + 1
            while isinstance(out, (tuple, list)) and out:
                out = out[0]
            if isinstance(out, torch.Tensor):
                self[f"{name}@{k}" if k else name] = out.detach().clone()

        return hook


def check_model(module: Union[nn.Module, Network], inputs: Sequence[Any], outputs: Any, *, kwargs: Optional[Mapping[str, Any]] = None,
                layers: Optional[Mapping[str, Any]] = None, precision: Any = None, autocast: Optional[str] = None,
                budget: Optional[str] = None, report: Optional[str] = None, junit: Optional[str] = None) -> Report:
    """Says whether outputs are what a device of that precision returns of a module for these inputs.

    The module says what is right: in evaluation mode and float32, or as the device has it; a
    Network of `describe` does as well. outputs come from anywhere: tensors or arrays in the type in
    which the device stores them, in the order of the module's. layers, as `Layers` records them,
    have each layer judged with the device's own inputs, so that the report names the wrong one.

    precision is float64, float32, tf32, float16 or bfloat16; by default float64 of a module whose parameters are all of
    it, or whose inputs are, if it has none, and else float32. autocast is cuda (the default), cpu, or none, the default
    of a module whose parameters are all of that half precision. The other arguments
    are those of `check`. Bad input raises ValueError with refrun's own line.
    """
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if precision is None:
        precision = "float64" if _is_double(module, (inputs, kwargs)) else "float32"
    net = module if isinstance(module, Network) else describe(module, inputs, kwargs)
    if autocast is None and isinstance(module, nn.Module) and _is_half(module, precision):
        autocast = "none"
    options = {"kwargs": kwargs, "layers": layers, "precision": precision, "autocast": autocast, "budget": budget, "report": report, "junit": junit}
    said = _check(net, inputs, outputs, **options)
    plain = module._described() if isinstance(module, Network) else module
    if said.ok or plain is None:
        return said
    for recorded, given in _in_half(plain, inputs, kwargs, precision, autocast):
        other = _check(recorded, given, outputs, **options)
        if other.ok:
            return other
    return said


def _is_half(module: nn.Module, precision: Any) -> bool:
    """Whether a module's parameters are all of a half precision."""
    half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(precision_name(precision))
    types = {p.dtype for p in module.parameters()}
    return half is not None and types == {half}


def _is_double(module: Any, given: Any) -> bool:
    """Whether a module's parameters are all float64, or, without any, all numbers that it is given."""
    of = [p.dtype for p in module.parameters()] if isinstance(module, nn.Module) else []
    of = of or [t.dtype for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    return set(of) == {torch.float64}


def _in_half(module: nn.Module, inputs: Sequence[Any], kwargs: Optional[Mapping[str, Any]], precision: Any, autocast: Optional[str]) -> Iterator[Tuple[Network, Sequence[Any]]]:
    """A module recorded in the half precision that a device claims, with its inputs: casts such as x.float() and
    y.to(x.dtype) are in it, which a recording in float32 has lost. None where PyTorch on this machine cannot."""
    half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(precision_name(precision))
    if half is None or autocast not in ("cpu", "none"):
        return
    to = lambda t: t.to(half) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
    try:
        if autocast == "cpu":
            with torch.autocast("cpu", half):
                yield describe(module, inputs, kwargs), inputs
        else:
            given = pytree.tree_map(to, tuple(inputs))
            yield describe(copy.deepcopy(module).to(half), given, pytree.tree_map(to, dict(kwargs or {}))), given
    except CaseError:
        return


def _check(net: Network, inputs: Sequence[Any], outputs: Any, *, kwargs: Optional[Mapping[str, Any]], layers: Optional[Mapping[str, Any]], precision: Any,
           autocast: Optional[str], budget: Optional[str], report: Optional[str], junit: Optional[str]) -> Report:
    """check_model of a network."""
    if isinstance(outputs, Mapping) and set(outputs) == set(net.outputs):
        of = dict(outputs)
    else:
        leaves = [t for t in pytree.tree_leaves(outputs) if t is not None]
        if len(leaves) != len(net.outputs):
            raise CaseError(f"outputs: {len(leaves)} tensors: want {len(net.outputs)}, as the module returns")
        of = dict(zip(net.outputs, leaves))
    with tempfile.TemporaryDirectory() as folder:
        path = net.save(Path(folder) / "network.json")
        args: List[str] = [binary(), "check", "--graph", str(path), "--claim", precision_name(precision)]
        files = {"input": net.feed(inputs, kwargs), "output": of}
        if layers is not None:
            files["layers"] = {net.modules[k]: v for k, v in layers.items() if k in net.modules}
            if not files["layers"]:
                raise CaseError(f"layers: none of {len(layers)} has the name of a module of the network: want such as {next(iter(net.modules))!r}")
        for flag, tensors in files.items():
            file = f"{folder}/{flag}.safetensors"
            save_file({k: _tensor(v) for k, v in tensors.items()}, file)
            args += ["--" + flag, file]
        for flag, value in (("autocast", autocast), ("budget", budget), ("report", report), ("junit", junit)):
            if value is not None:
                args += ["--" + flag, value]
        done = subprocess.run(args + ["--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise ValueError(done.stderr.strip() or f"refrun check ended with {done.returncode}")
    data = json.loads(done.stdout)
    strange = [k for k in layers or () if k not in net.modules]
    if strange:
        note = f"layers: no values of the network: {', '.join(strange[:5])}" + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
        data["notes"], data["text"] = [*(data.get("notes") or []), note], data["text"] + f"note     {note}\n"
    return Report(data, data["text"])


def check_export(module: Union[nn.Module, Network], inputs: Sequence[Any], file: Union[str, Path], *, kwargs: Optional[Mapping[str, Any]] = None,
                 report: Optional[str] = None, junit: Optional[str] = None) -> Report:
    """Says whether an ONNX file computes what the module does, for these inputs.

    refrun evaluates the file, each operation rounded once to float32, and holds the result to the
    module as `check_model` does. So no runtime takes part: what fails was lost on the way to the
    file, such as a 1e-8 that an exporter took for 0. Inputs go to the file's in their order.
    """
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    net = module if isinstance(module, Network) else describe(module, inputs, kwargs)
    fed, info = list(net.feed(inputs, kwargs).values()), json.loads(_run("info", "--onnx", str(file), "--json"))
    asked = info["inputs"]
    if len(asked) != len(fed):
        raise CaseError(f"{file}: {len(asked)} inputs: want {len(fed)}, as the module has")
    with tempfile.TemporaryDirectory() as folder:
        save_file({said.rsplit(" ", 2)[0]: _tensor(v) for said, v in zip(asked, fed)}, f"{folder}/in.safetensors")
        _run("run", "--onnx", str(file), "--input", f"{folder}/in.safetensors", "--precision", "float32", "-o", f"{folder}/out.safetensors", "--quiet")
        made = load_file(f"{folder}/out.safetensors")
    return check_model(net, inputs, [made[k] for k in info["outputs"]], kwargs=kwargs, report=report, junit=junit)


def _run(*args: str) -> str:
    """What a command of refrun prints."""
    done = subprocess.run([binary(), *args], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"refrun {args[0]} ended with {done.returncode}")
    return done.stdout


def _tensor(v: Any) -> torch.Tensor:
    t = v if isinstance(v, torch.Tensor) else torch.as_tensor(v)
    return t.detach().cpu().contiguous().clone()
