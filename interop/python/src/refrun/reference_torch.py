"""The exact operator, and any network, as a torch module."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .case import CaseError, precision_name
from .network import Network, describe
from .reference import Reference, Rollout
from .serve import Server, tensor, view


class ReferenceModule(nn.Module):
    """A module whose forward is the exact operator; made by `refrun.reference`.

    `forward(x, draws=None)` and `run` are those of `Reference`, which `.reference` is.
    """

    def __init__(self, reference: Reference):
        super().__init__()
        self.reference = reference

    def forward(self, x: Any, draws: Any = None) -> Any:
        return self.reference(x, draws=draws)

    @property
    def seconds(self) -> float:
        """What the operator itself took in the last call."""
        return self.reference.seconds

    def run(self, x0: Any, **options: Any) -> Rollout:
        """See `Reference.run`."""
        return self.reference.run(x0, **options)

    def close(self) -> None:
        """Ends the process. A later call starts another."""
        self.reference.close()

    def extra_repr(self) -> str:
        return self.reference.mode


class _Call(NamedTuple):
    """A network for inputs of some sizes, and what its module returns: the places and types of tensors."""

    net: Network
    spec: Any
    leaves: List[Any]
    dtypes: List[torch.dtype]


class NetworkModule(nn.Module):
    """A module that computes what another one does, exactly; made by `refrun.reference`.

    It is called as that module is, and returns what it returns, on the device of its first
    tensor. No gradient flows.
    """

    def __init__(self, module: nn.Module, precision: Optional[str], autocast: Optional[str], options: Dict[str, Any], why: str):
        super().__init__()
        self._of = [copy.deepcopy(getattr(module, "_orig_mod", module)).cpu()]  # in a list, as it is no part of this one
        self._said = {k: v for k, v in (("precision", precision_name(precision)), ("autocast", autocast)) if v is not None}
        self._options, self._why = options, why
        self._calls: Dict[str, _Call] = {}
        self._server: Optional[Server] = None
        self._opened: List[str] = []
        self.seconds = 0.0

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        leaves = [x for x in pytree.tree_leaves((inputs, kwargs)) if isinstance(x, torch.Tensor)]
        if not leaves:
            raise CaseError("no tensor is given: want the module's own inputs")
        device = leaves[0].device
        inputs, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), (inputs, kwargs))
        shapes = pytree.tree_map_only(torch.Tensor, lambda t: f"{t.dtype}{list(t.shape)}", (inputs, kwargs))
        key = repr(shapes)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._describe(inputs, kwargs)
        server = self._open(key, call)
        said, out = server.ask({"do": "apply", "id": key}, {k: view(t, k) for k, t in call.net.feed(inputs, kwargs).items()})
        self.seconds = float(said["seconds"])
        made = iter(tensor(out[f"output{i}"], device) for i in range(len(call.net.outputs)))
        types = iter(call.dtypes)
        filled = []
        for leaf in call.leaves:
            if isinstance(leaf, torch.Tensor):
                y, dtype = next(made), next(types)
                leaf = y if dtype.is_floating_point else y.to(dtype)
            filled.append(leaf)
        return pytree.tree_unflatten(filled, call.spec)

    def _describe(self, inputs: Any, kwargs: Any) -> _Call:
        net = describe(self._of[0], inputs, kwargs)
        with torch.no_grad():
            leaves, spec = pytree.tree_flatten(self._of[0](*inputs, **kwargs))
        dtypes = [x.dtype for x in leaves if isinstance(x, torch.Tensor)]
        leaves = [torch.empty(0) if isinstance(x, torch.Tensor) else x for x in leaves]
        return _Call(net, spec, leaves, dtypes)

    def _open(self, key: str, call: _Call) -> Server:
        s = self._server
        if s is None or s.owner != os.getpid() or s.process.poll() is not None or key not in self._opened and len(self._opened) >= 32:
            if s is not None:
                s.close()
            s, self._opened = Server(**self._options), []
            self._server = s
        if key not in self._opened:
            n = call.net
            graph = json.dumps({"version": 1, "inputs": n.inputs, "nodes": n.nodes, "outputs": n.outputs}, allow_nan=False)
            s.ask({"do": "open", "id": key, "graph": graph, **self._said}, {k: view(t, k) for k, t in n.weights.items()})
            self._opened.append(key)
        return s

    def run(self, *_: Any, **__: Any) -> Rollout:
        """Raises CaseError: the module is no operator of a rollout, and why."""
        raise CaseError(f"run: {self._why}")

    def close(self) -> None:
        """Ends the process. A later call starts another."""
        if self._server is not None:
            self._server.close()
        self._server, self._opened = None, []

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_server": None, "_opened": []}

    def __deepcopy__(self, memo: Dict[int, Any]) -> "NetworkModule":
        of = self._of[0]
        new = NetworkModule(of, None, None, dict(self._options), self._why)
        new._said = dict(self._said)
        return new
