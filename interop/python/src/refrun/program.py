"""Any torch module that maps images to images of the same shape, as the operator of a rollout."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import torch
from torch import nn

from . import graph, network
from .case import CaseError
from .graph import Description, UnsupportedLayer

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def describe(module: nn.Module, x: torch.Tensor) -> Description:
    """Describes a module as the operations that torch.export finds in its call with states [N,C,H,W] such as x.

    Sizes are those of x, but for N: the call is followed with two samples and with three, and what differs is
    left to the number of realizations.
    """
    if x.dim() != 4 or x.shape[2] != x.shape[3]:
        raise UnsupportedLayer(f"state: shape {list(x.shape)}: want square images [N,C,H,H] for a module that is no list of layers")
    one, given = x[:1].detach().cpu().float(), next(module.parameters(), x).device
    two, three = (network.describe(module, [one.to(given).repeat(n, 1, 1, 1)]) for n in (2, 3))
    return Description(*_Program(two, three, list(x.shape)).make(), None)


def describe_any(module: nn.Module, x: torch.Tensor, *, noise: Any = None, input_channels: Any = None) -> Description:
    """The operator of a rollout as graph.describe has it, for any size of images; of other modules as describe above."""
    try:
        return graph.describe(module, noise=noise, input_channels=input_channels)
    except UnsupportedLayer:
        if noise:
            raise
        return describe(module, x)


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
                raise UnsupportedLayer(f"{name}: a constant of the number of realizations: want it made by expanding one of a single sample")
            own = f"p{len(params)}"  # no node has such a name: those of torch.export have letters and dots
            params.append({"name": own, "shape": list(t.shape), **({"dtype": "int64"} if t.dtype in _WHOLE else {})})
            self.weights[f"{name}.{own}"] = t.to(torch.int64) if t.dtype in _WHOLE else t.float()
            node["in"].append(own)
        if params:
            node["params"] = params
        self.nodes.append(node)

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
