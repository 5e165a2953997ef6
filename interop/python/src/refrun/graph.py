"""Describes a torch module as the list of operations that refrun knows."""

from __future__ import annotations

import operator as op
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import fx, nn

from .case import Case, CaseError


class UnsupportedLayer(CaseError):
    """A layer that refrun has no definition of, named with the reason."""


_ACTIVATIONS = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Tanh: "tanh"}
_FUNCTIONS = {F.relu: "relu", torch.relu: "relu", F.silu: "silu", torch.tanh: "tanh", F.tanh: "tanh"}
_METHODS = {"relu": "relu", "tanh": "tanh"}
_PASS = (nn.Identity, nn.Dropout, nn.Dropout2d)
_OTHER_NOISE = "want x + torch.randn_like(x)*scale, or a module of other noise named: noise={name: (type, scale)}"


class Description:
    """An operator as refrun sees it: the `operator` object of case.json and the weights."""

    def __init__(self, operator: Dict[str, Any], weights: Dict[str, torch.Tensor], noise: Optional[str]):
        self.operator, self.weights, self.noise = operator, weights, noise

    @property
    def channels(self) -> Tuple[int, int]:
        """Those of the input and of the output."""
        n = {"input": int(self.operator["input_channels"])}
        for node in self.operator["nodes"]:
            n[node["name"]] = int(node.get("out_channels", n[node["in"][0]]))
        return n["input"], n[self.operator["nodes"][-1]["name"]]


def describe(module: nn.Module, *, noise: Optional[Mapping[str, Tuple[str, float]]] = None, input_channels: Optional[int] = None) -> Description:
    """Describes a module: convolutions, norms, activations, sums and one noise, which an active Dropout2d is.

    noise names submodules that add noise, with type (gaussian, laplace,
    multiplicative, dropout) and scale: {"stochastic_block": ("gaussian", 0.02)}.
    Without it x + torch.randn_like(x)*scale is recognised. What refrun has no
    definition of raises UnsupportedLayer, naming it.
    """
    for name, m in module.named_modules():
        if m.training and isinstance(m, (nn.BatchNorm2d, nn.Dropout)):
            raise UnsupportedLayer(f"{name or 'module'}: {type(m).__name__} in training mode: want module.eval(), or Dropout2d, which drops channels")
    return _Builder(module, dict(noise or {}), input_channels).build()


def export(module: nn.Module, path: Union[str, Path], *, noise: Optional[Mapping[str, Tuple[str, float]]] = None,
           input_channels: Optional[int] = None, **rollout: Any) -> Case:
    """Writes a module's operator and weights as a case folder and returns the Case, to which states may be added."""
    d = describe(module, noise=noise, input_channels=input_channels)
    case = Case(path, d.operator, **rollout)
    case.weights(d.weights)
    return case


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Mapping[str, Any]):
        super().__init__()
        self.leaves = leaves

    def is_leaf_module(self, m: nn.Module, name: str) -> bool:
        return name in self.leaves or super().is_leaf_module(m, name)


class _Builder:
    def __init__(self, module: nn.Module, noise: Dict[str, Tuple[str, float]], channels: Optional[int]):
        self.module, self.noise, self.channels = module, noise, channels
        self.modules = dict(module.named_modules())
        self.nodes: List[Dict[str, Any]] = []
        self.weights: Dict[str, torch.Tensor] = {}
        self.of: Dict[fx.Node, str] = {}  # the name of the node whose output this is
        self.draws: Dict[fx.Node, Tuple[fx.Node, float]] = {}  # randn_like(x)*scale: x and scale
        self.site: Optional[str] = None
        for name in noise:
            if name not in self.modules:
                raise CaseError(f"noise: {name!r}: want the name of a submodule")

    def build(self) -> Description:
        try:
            graph = _Tracer(self.noise).trace(self.module)
        except Exception as e:
            raise UnsupportedLayer(f"{type(self.module).__name__}: cannot be traced ({type(e).__name__}: {str(e)[:160]}): want a module without branches on data") from e
        result = None
        for n in graph.nodes:
            if n.op == "placeholder":
                if self.of:
                    if not n.users:
                        continue
                    raise UnsupportedLayer(f"{n.name}: a second input: want a module of one image")
                self.of[n] = "input"
            elif n.op == "get_attr":
                continue
            elif n.op == "call_module":
                self.call_module(n)
            elif n.op in ("call_function", "call_method"):
                self.call_function(n)
            elif n.op == "output":
                result = n.args[0]
        if not isinstance(result, fx.Node) or result not in self.of:
            raise UnsupportedLayer("output: want one image")
        if not self.nodes or self.of[result] != self.nodes[-1]["name"]:
            raise UnsupportedLayer(f"{self.of.get(result, 'output')}: layers behind the output's: want the output last")
        if self.channels is None:
            raise CaseError("input_channels: unknown: want input_channels=C, since no convolution says it")
        operator: Dict[str, Any] = {"input_channels": self.channels, "nodes": self.nodes}
        return Description(operator, self.weights, self.site)

    def source(self, n: fx.Node, arg: Any) -> str:
        if not isinstance(arg, fx.Node) or arg not in self.of:
            if any(isinstance(a, fx.Node) and a in self.draws for a in n.args):
                raise UnsupportedLayer(f"{n.name}: {_OTHER_NOISE}")
            raise UnsupportedLayer(f"{n.name}: {getattr(n.target, '__name__', n.target)}: its input is no image that refrun can follow")
        return self.of[arg]

    def add(self, n: fx.Node, name: str, op_name: str, inputs: List[str], **rest: Any) -> None:
        if any(x["name"] == name for x in self.nodes):
            raise UnsupportedLayer(f"{name}: used twice: want a module of its own for each use")
        self.nodes.append({"op": op_name, "name": name, "in": inputs, **rest})
        self.of[n] = name

    def call_module(self, n: fx.Node) -> None:
        name, m = str(n.target), self.modules[str(n.target)]
        x = self.source(n, n.args[0])
        if name in self.noise:
            kind, scale = self.noise[name]
            self.add_noise(n, name, x, kind, scale)
        elif type(m) is nn.Dropout2d and m.training and m.p > 0:
            self.add_noise(n, name, x, "dropout", m.p)
        elif isinstance(m, _PASS):
            self.of[n] = x
        elif type(m) is nn.Conv2d:
            self.conv(n, name, m, x)
        elif isinstance(m, (nn.InstanceNorm2d, nn.BatchNorm2d, nn.GroupNorm)):
            self.norm(n, name, m, x)
        elif type(m) in _ACTIVATIONS:
            self.add(n, name, "act", [x], activation=_ACTIVATIONS[type(m)])
        elif type(m) is nn.GELU:
            self.add(n, name, "act", [x], activation="gelu_tanh" if m.approximate == "tanh" else "gelu")
        else:
            raise UnsupportedLayer(f"{name}: {type(m).__name__}: want Conv2d, InstanceNorm2d, BatchNorm2d, GroupNorm, ReLU, GELU, SiLU, Tanh, Dropout2d or a sum")

    def conv(self, n: fx.Node, name: str, m: nn.Conv2d, x: str) -> None:
        k = m.kernel_size[0]
        pad = m.padding if isinstance(m.padding, str) else m.padding[0]
        for ok, what, want in (
            (m.kernel_size == (k, k) and k % 2 == 1, f"kernel_size {m.kernel_size}", "a square of odd size"),
            (m.stride == (1, 1), f"stride {m.stride}", "1"),
            (m.groups == 1, f"groups {m.groups}", "1"),
            (m.dilation == (1, 1), f"dilation {m.dilation}", "1"),
            (m.padding == "same" or m.padding == (k // 2, k // 2), f"padding {pad}", f"{k // 2}, which keeps the image size"),
        ):
            if not ok:
                raise UnsupportedLayer(f"{name}: Conv2d with {what}: want {want}")
        if x == "input":
            if self.channels not in (None, m.in_channels):
                raise CaseError(f"input_channels: {self.channels}: want {m.in_channels}, which {name} reads")
            self.channels = m.in_channels
        self.add(n, name, "conv", [x], out_channels=m.out_channels, kernel_size=k, bias=m.bias is not None, padding_mode=m.padding_mode)
        self.keep(name, m, ["weight", "bias"])

    def norm(self, n: fx.Node, name: str, m: nn.Module, x: str) -> None:
        affine = m.weight is not None
        rest: Dict[str, Any] = {"eps": m.eps, "affine": affine}
        if isinstance(m, nn.GroupNorm):
            rest.update(normalization="group", groups=m.num_groups)
        elif isinstance(m, nn.InstanceNorm2d):
            if m.track_running_stats:
                raise UnsupportedLayer(f"{name}: InstanceNorm2d with running statistics: want track_running_stats=False")
            rest.update(normalization="instance")
        else:
            if m.running_mean is None:
                raise UnsupportedLayer(f"{name}: BatchNorm2d without running statistics: want track_running_stats=True")
            rest.update(normalization="batch")
        self.add(n, name, "norm", [x], **rest)
        self.keep(name, m, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"])

    def keep(self, name: str, m: nn.Module, fields: List[str]) -> None:
        for f in fields:
            t = getattr(m, f, None)
            if t is not None:
                t = t.detach()
                self.weights[f"{name}.{f}"] = t if t.dtype == torch.int64 else t.float() if t.dtype != torch.float64 else t

    def add_noise(self, n: fx.Node, name: str, x: str, kind: str, scale: float) -> None:
        if self.site is not None:
            raise UnsupportedLayer(f"{name}: noise for the second time, after {self.site}: want one noise")
        scale = float(torch.tensor(scale, dtype=torch.float32))
        self.add(n, name, "noise", [x], noise_type=kind, noise_scale=scale)
        self.weights[f"{name}.noise_scale"] = torch.tensor([scale], dtype=torch.float32)
        self.site = name

    def constant(self, arg: Any) -> Optional[float]:
        if isinstance(arg, (int, float)):
            return float(arg)
        if isinstance(arg, fx.Node) and arg.op == "get_attr":
            t = self.module
            for part in str(arg.target).split("."):
                t = getattr(t, part)
            if torch.is_tensor(t) and t.numel() == 1:
                return float(t.float())
        return None

    def call_function(self, n: fx.Node) -> None:
        f, args = n.target, n.args
        name = str(getattr(f, "__name__", f))
        if f is torch.randn_like:
            self.draws[n] = (args[0], 1.0)
        elif f in (op.mul, torch.mul) or f == "mul":
            for a, b in ((args[0], args[1]), (args[1], args[0])):
                c = self.constant(b)
                if isinstance(a, fx.Node) and a in self.draws and c is not None:
                    self.draws[n] = (self.draws[a][0], self.draws[a][1] * c)
                    return
            raise UnsupportedLayer(f"{n.name}: a product: {_OTHER_NOISE}")
        elif f in (op.add, op.iadd, torch.add) or f in ("add", "add_"):
            if n.kwargs.get("alpha", 1) != 1:
                raise UnsupportedLayer(f"{n.name}: add with alpha {n.kwargs['alpha']}: want 1")
            for a, b in ((args[0], args[1]), (args[1], args[0])):
                if isinstance(a, fx.Node) and a in self.draws:
                    base, scale = self.draws[a]
                    if self.of.get(base) != self.source(n, b):
                        raise UnsupportedLayer(f"{n.name}: noise of the shape of another image than it is added to")
                    self.add_noise(n, self.unique(n), self.of[base], "gaussian", scale)
                    return
            self.add(n, self.unique(n), "add", [self.source(n, args[0]), self.source(n, args[1])])
        elif f in _FUNCTIONS or f in _METHODS:
            self.add(n, self.unique(n), "act", [self.source(n, args[0])], activation=_FUNCTIONS.get(f) or _METHODS[str(f)])
        elif f is F.gelu:
            tanh = (n.kwargs.get("approximate") or (args[1] if len(args) > 1 else "none")) == "tanh"
            self.add(n, self.unique(n), "act", [self.source(n, args[0])], activation="gelu_tanh" if tanh else "gelu")
        elif f in (F.dropout, F.dropout2d):
            training = n.kwargs.get("training", args[2] if len(args) > 2 else True)
            p = n.kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            if training and f is F.dropout2d:
                self.add_noise(n, self.unique(n), self.source(n, args[0]), "dropout", p)
                return
            if training:
                raise UnsupportedLayer(f"{n.name}: {name} that is active: want training=False, or noise={{...}} for a module around it")
            self.of[n] = self.source(n, args[0])
        elif f in ("contiguous", "clone", "detach"):
            self.of[n] = self.source(n, args[0])
        else:
            raise UnsupportedLayer(f"{n.name}: {name}: want convolutions, norms, activations, sums and noise")

    def unique(self, n: fx.Node) -> str:
        """A name for a function's result: its module's, where the module ends with it."""
        stack = n.meta.get("nn_module_stack") or {}
        owner = list(stack)[-1] if stack else ""
        owner = owner if isinstance(owner, str) and owner in self.modules and owner else ""
        taken = {x["name"] for x in self.nodes} | {str(m.target) for m in n.graph.nodes if m.op == "call_module"}
        name = owner or n.name
        return name if name not in taken else f"{name}.{n.name}" if f"{name}.{n.name}" not in taken else n.name
