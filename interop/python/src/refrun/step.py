"""One step of a rollout as a graph: any module or function that torch.export follows."""

from __future__ import annotations

import inspect
import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import nn

from . import network
from .case import Case, CaseError, Raw, alike, raw
from .program import casts

State = Union[torch.Tensor, Sequence[torch.Tensor], Mapping[str, torch.Tensor]]
Given = Union[None, torch.Tensor, Sequence[Any], Mapping[str, Any]]


def named(state: State) -> Dict[str, torch.Tensor]:
    """The states by the names that their inputs have in the graph: state, or state.NAME of a dict, state.s0, state.s1, ... of a tuple."""
    if isinstance(state, torch.Tensor):
        return {"state": state}
    parts = dict(state) if isinstance(state, Mapping) else {f"s{i}": x for i, x in enumerate(state)}
    for name, x in parts.items():
        if not isinstance(x, torch.Tensor):
            raise CaseError(f"state: {name}: {type(x).__name__}: want a tensor, or a tuple or dict of tensors")
        if not str(name).isidentifier():
            raise CaseError(f"state: {name!r}: want names such as h")
    return {f"state.{name}": x for name, x in parts.items()}


class _Module(nn.Module):
    """A function as a module, with the modules that it calls as its own."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        found: Dict[str, Any] = {}
        if inspect.ismethod(function):
            found["self"] = function.__self__
        try:
            names = inspect.getclosurevars(getattr(function, "__func__", function))
            found.update({**names.globals, **names.nonlocals})
        except TypeError:
            pass
        for name, m in found.items():
            if isinstance(m, nn.Module):
                self.add_module(name, m)
        object.__setattr__(self, "function", function)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Calls:
    """How a step is called: step(state, state before, ..., what is given), each by its position or its name."""

    def __init__(self, step: Any, past: Sequence[torch.Tensor], steps: int, static: Given, forcing: Given, noise: Given):
        self.step, self.steps = step, steps
        try:
            names = [p.name for p in inspect.signature(step.forward if isinstance(step, nn.Module) else step).parameters.values()]
        except (TypeError, ValueError):
            names = []
        self.next = names[1 + len(past):]
        self.kinds: Dict[str, str] = {}
        self.given: Dict[str, Any] = {}
        self.places: List[str] = []  # of what is given by its position
        for kind, value in (("forcing", forcing), ("noise", noise), ("static", static)):
            self._take(kind, value)

    def _take(self, kind: str, value: Given) -> None:
        if value is None:
            return
        by_name = isinstance(value, Mapping)
        if not by_name:
            name = self.next[len(self.places)] if len(self.places) < len(self.next) else kind
            value = {name: value}
            self.places.append(name)
        for name, v in value.items():
            if name in self.given:
                raise CaseError(f"{kind}: {name}: given twice")
            self.kinds[name] = kind
            self.given[name] = torch.as_tensor(v) if kind == "static" else self._each(kind, name, v)

    def _each(self, kind: str, name: str, value: Any) -> List[torch.Tensor]:
        of = [torch.as_tensor(v) for v in value]
        if len(of) != self.steps:
            raise CaseError(f"{kind}: {name}: {len(of)} of them: want {self.steps}, one for each step")
        for t, v in enumerate(of, 1):
            if v.shape != of[0].shape:
                raise CaseError(f"{kind}: {name}: step {t}: shape {list(v.shape)}: want {list(of[0].shape)}, as of step 1")
        return of

    def at(self, t: int, state: State, past: Sequence[torch.Tensor]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """The arguments of step t, from 1 on."""
        of = {n: v if self.kinds[n] == "static" else v[t - 1] for n, v in self.given.items()}
        return (state, *past, *(of.pop(n) for n in self.places)), of

    def names(self, state: State, past: Sequence[torch.Tensor]) -> Iterator[Tuple[str, torch.Tensor]]:
        """The inputs of the graph in the order of the call: their names, and the tensors of step 1."""
        yield from named(state).items()
        for k, x in enumerate(past, 1):
            yield f"state.{k}", x
        args, kwargs = self.at(1, state, past)
        for name, x in [*zip(self.places, args[1 + len(past):]), *kwargs.items()]:
            yield f"{self.kinds[name]}.{name}", x


def describe(step: Any, calls: Calls, state: State, past: Sequence[torch.Tensor], half: Optional[torch.dtype] = None) -> network.Network:
    """The graph of a step, whose inputs and outputs are named and ordered as docs/FORMATS.md has them."""
    module = step if isinstance(step, nn.Module) else _Module(step)
    args, kwargs = calls.at(1, state, past)
    kind = next(iter(named(state).values())).device.type
    with torch.no_grad(), torch.autocast(kind, half, enabled=half is not None and casts(module, *args, **kwargs)):
        net = network.describe(module, args, kwargs)
        made = named(module(*args, **kwargs))
    names = [name for name, _ in calls.names(state, past)]
    if len(net.inputs) != len(names):
        raise CaseError(f"step: {len(net.inputs)} tensors go in: want {len(names)}, {', '.join(names)}")
    of = {i["name"]: name for i, name in zip(net.inputs, names)}
    for i in net.inputs:
        i["name"] = of[i["name"]]
    for n in net.nodes:
        n["in"] = [of.get(v, v) for v in n["in"]]
    wanted = named(state)
    if list(made) != list(wanted) and set(made) != set(wanted):
        raise CaseError(f"step: returns {', '.join(made)}: want the next {', '.join(wanted)}")
    for name, x in wanted.items():
        if made[name].shape != x.shape:
            raise CaseError(f"step: returns {name} of shape {list(made[name].shape)}: want {list(x.shape)}, as it was given")
    outputs = dict(zip(made, [of.get(v, v) for v in net.outputs]))
    net.outputs = [outputs[name] for name in wanted]
    return net


def run(step: Any, calls: Calls, state: State, past: Sequence[torch.Tensor]) -> Iterator[State]:
    """The states, the initial one first, as the step makes them."""
    yield state
    before = list(past)
    for t in range(1, calls.steps + 1):
        args, kwargs = calls.at(t, state, before)
        with torch.no_grad():
            made = step(*args, **kwargs)
        if before:
            before = [state, *before[:-1]]
        state = made
        yield state


def write(case: Case, net: network.Network, calls: Calls, states: Sequence[State], past: Sequence[torch.Tensor]) -> None:
    """Writes graph, inputs and states of a rollout into a case."""
    given = {f"{calls.kinds[n]}.{n}": v if calls.kinds[n] == "static" else torch.stack(v) for n, v in calls.given.items()}
    case.step(net, given)
    of: Dict[str, List[Raw]] = {}
    for s in states:
        for name, x in named(s).items():
            of.setdefault(name, []).append(raw(x, name))
    case.step_states({name: alike(x) for name, x in of.items()}, {f"state.{k}": raw(x, "past") for k, x in enumerate(past, 1)})
