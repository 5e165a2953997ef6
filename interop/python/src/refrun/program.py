"""Any torch module that maps images to images of the same shape, as the operator of a rollout."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from . import graph, network
from .case import CaseError
from .graph import Description, UnsupportedLayer

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


class _Casts(TorchFunctionMode):
    """Sees whether anything is cast by name."""

    seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen = self.seen or getattr(func, "__name__", "") in ("to", "float", "half", "bfloat16", "type", "type_as")
        return func(*args, **(kwargs or {}))


def casts(module: nn.Module, *args: Any, **kwargs: Any) -> bool:
    """Whether a module's own code casts numbers. torch.export leaves out casts to the type that numbers have."""
    with torch.no_grad(), _Casts() as of:
        module(*args, **kwargs)
    return of.seen


def describe(module: nn.Module, x: torch.Tensor, half: Optional[torch.dtype] = None) -> Description:
    """Describes a module as the operations that torch.export finds in its call with states [N,C,H,W] such as x.

    Sizes are those of x, but for N: the call is followed with two samples and with three, and what differs is
    left to the number of realizations. half is what autocast casts to as the module runs: then casts such as
    y.to(x.dtype), of which a recording in float32 has nothing, are recorded under it. A module in a half type is
    followed in that.
    """
    if x.dim() != 4 or x.shape[2] != x.shape[3]:
        raise UnsupportedLayer(f"state: shape {list(x.shape)}: want square images [N,C,H,H] for a module that is no list of layers")
    of = next(module.parameters(), x)
    one = x[:1].detach().to(of.device, of.dtype if of.dtype in (torch.float16, torch.bfloat16) else torch.float32)
    with torch.autocast(of.device.type, half, enabled=half is not None and casts(module, one)):
        two, three = (network.describe(module, [one.repeat(n, 1, 1, 1)]) for n in (2, 3))
    return Description(*_Program(two, three, list(x.shape)).make(), None)


def describe_any(module: nn.Module, x: Any = None, *, noise: Any = None, input_channels: Any = None) -> Description:
    """The operator of a rollout as graph.describe has it, for any size of images; of another module, if it is called with
    states such as x, [C,H,W] or [N,C,H,W], as describe has it."""
    try:
        return graph.describe(module, noise=noise, input_channels=input_channels)
    except UnsupportedLayer:
        if noise or x is None:
            raise
        x = torch.as_tensor(x)
        return describe(module, x[None] if x.dim() == 3 else x)


class _Program:
    """Makes operations of case.json of a network for two samples, by what differs for three."""

    def __init__(self, two: network.Network, three: network.Network, shape: List[int]):
        self.two, self.three, self.shape = two, three, shape

    def make(self) -> Tuple[Dict[str, Any], Dict[str, torch.Tensor]]:
        two, three = self.two, self.three
        if len(two.inputs) != 1 or len(two.outputs) != 1:
            raise UnsupportedLayer(f"{len(two.inputs)} inputs and {len(two.outputs)} outputs: want a module of one image that returns one")
        if [n["op"] for n in two.nodes] != [n["op"] for n in three.nodes]:
            raise UnsupportedLayer("another number of realizations makes it another network: want one that treats samples alike")
        self.nodes, self.weights = [], {}
        for a, b in zip(two.nodes, three.nodes):
            self._node(a, b)
        operator = {"input_channels": self.shape[1], "grid_size": self.shape[2], "nodes": self.nodes}
        return operator, self.weights

    def _node(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
        name = a["name"]
        node: Dict[str, Any] = {"op": a["op"], "name": name, "in": []}
        attributes = {k: self._free(name, v, b["attributes"][k]) for k, v in a.get("attributes", {}).items()}
        if attributes:
            node["attributes"] = attributes
        params: List[Dict[str, Any]] = []
        for i, j in zip(a["in"], b["in"]):
            if i not in self.two.weights:
                node["in"].append("input" if i == self.two.inputs[0]["name"] else i)
                continue
            t = self.two.weights[i].detach().cpu()
            if t.shape != self.three.weights[j].shape:
                node["in"].append(self._each(f"{name}.each{len(node['in'])}", t, self.three.weights[j]))
                continue
            own = f"p{len(params)}"  # no node has such a name: those of torch.export have letters and dots
            params.append({"name": own, "shape": list(t.shape), **({"dtype": "int64"} if t.dtype in _WHOLE else {})})
            self.weights[f"{name}.{own}"] = t.to(torch.int64) if t.dtype in _WHOLE else t.float()
            node["in"].append(own)
        if params:
            node["params"] = params
        self.nodes.append(node)

    def _each(self, name: str, a: torch.Tensor, b: torch.Tensor) -> str:
        """A constant that each sample has, such as torch.zeros(n, ...): that of one, added to 0 times a pixel of each."""
        differ = [k for k in range(a.dim()) if a.shape[k] != b.shape[k]]
        one = a.narrow(differ[0], 0, 1)
        if len(differ) != 1 or a.dtype in _WHOLE or not torch.equal(one.expand(a.shape), a):
            raise UnsupportedLayer(f"{name}: a constant of the number of realizations: want the same one for each of them")
        shape = [-1 if k == differ[0] else 1 for k in range(a.dim())]
        for op, of, attributes in (("slice", "input", {"dim": [1, 2, 3], "start": [0, 0, 0], "end": [1, 1, 1]}),
                                   ("reshape", f"{name}.slice", {"shape": shape}), ("mul", f"{name}.reshape", {"other": 0})):
            self.nodes.append({"op": op, "name": f"{name}.{op}", "in": [of], "attributes": attributes})
        self.nodes.append({"op": "add", "name": name, "in": [f"{name}.mul", "p0"], "params": [{"name": "p0", "shape": list(one.shape)}]})
        self.weights[f"{name}.p0"] = one.float()
        return name

    def _free(self, name: str, a: Any, b: Any) -> Any:
        """An attribute without the number of samples: -1 is what is left over."""
        if a == b:
            return a
        if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
            raise UnsupportedLayer(f"{name}: {a} depends on the number of realizations: want a network that treats samples alike")
        differ = [k for k in range(len(a)) if a[k] != b[k]]
        if len(differ) != 1 or -1 in a:
            raise UnsupportedLayer(f"{name}: {a} depends on the number of realizations in more than one place: want one")
        return [-1 if k == differ[0] else v for k, v in enumerate(a)]
