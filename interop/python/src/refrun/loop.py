"""A rollout whose loop calls the recorder: x = rec(x, f), as often as it likes."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import step as graphs
from .case import Case, CaseError, precision_name
from .graph import UnsupportedLayer

_DRAWS = re.compile(r"aten\.(randn|rand|randint|randperm|multinomial|normal|bernoulli|exponential|uniform|native_dropout)[._]")


class Draws(TorchDispatchMode):
    """Keeps what is drawn at random while it is active, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: List[torch.Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if _DRAWS.match(str(func)):
            self.kept.append((out[1] if isinstance(out, (tuple, list)) else out).detach().clone())
        return out


class _Argument:
    """What the step is given beside its state, in one place, at each call: tensors, or numbers."""

    def __init__(self, name: str, first: Any):
        self.name, self.first, self.rest = name, _plain(first), []  # rest: of the calls that follow; None where it is the first's
        if isinstance(first, torch.Tensor):
            self.first = first.detach().clone()

    def add(self, v: Any) -> None:
        v = _plain(v)
        if isinstance(v, torch.Tensor) != isinstance(self.first, torch.Tensor):
            raise CaseError(f"step: {self.name}: {type(v).__name__} after {type(self.first).__name__}: want one type throughout")
        if isinstance(v, torch.Tensor):
            if v.shape != self.first.shape or v.dtype != self.first.dtype:
                raise CaseError(f"step: {self.name}: {v.dtype} {list(v.shape)}: want {self.first.dtype} {list(self.first.shape)}, as of step 1")
            self.rest.append(None if torch.equal(v, self.first) else v.detach().clone())
        else:
            self.rest.append(None if v == self.first else v)

    @property
    def changes(self) -> bool:
        return any(v is not None for v in self.rest)

    def tensor(self, v: Any) -> torch.Tensor:
        """A number is what arithmetic of Python has: of 64 bits."""
        if isinstance(v, torch.Tensor):
            return v
        if not isinstance(v, (bool, int, float)):
            raise CaseError(f"step: {self.name}: {type(v).__name__} that changes: want tensors and numbers")
        return torch.tensor(v, dtype=torch.float64) if isinstance(v, float) else torch.tensor(v)

    def all(self) -> List[torch.Tensor]:
        first = self.tensor(self.first)
        return [first, *(first if v is None else self.tensor(v) for v in self.rest)]


class Loop:
    """A rollout being recorded, each step of which is a call; made by `record`."""

    def __init__(self, path: Union[str, Path], step: Callable[..., Any], *, precision: Any = None, autocast: Optional[str] = None, like: Any = None, steps: Optional[int] = None):
        self.path, self.step, self.precision, self.autocast, self.announced = path, step, precision, autocast, steps
        self.plain = graphs.plain(like if like is not None else step)
        self.claim: Dict[str, Any] = {}
        self.states: List[Any] = []  # as they were returned
        self.given: List[Any] = []  # where a step was not given what the one before it returned
        self.arguments: List[_Argument] = []
        self.structure: Any = None
        self.draws: List[List[torch.Tensor]] = []
        self.kinds: Dict[str, str] = {}

    def __enter__(self) -> "Loop":
        return self

    def __call__(self, state: graphs.State, *args: Any, **kwargs: Any) -> Any:
        """Makes a step, as it is, and records it. Returns the next state, as the step returns it."""
        self._given(state)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if not self.draws:
            self._begin(state, args, kwargs, leaves, structure)
        else:
            if structure != self.structure:
                raise CaseError(f"step {len(self.draws) + 1}: called with other arguments than step 1: want the same")
            for a, v in zip(self.arguments, leaves):
                a.add(v)
        draws = Draws()
        with contextlib.nullcontext() if graphs.plain(self.step) is not self.step else draws:  # which compiled code does not bear
            made = self.step(state, *args, **kwargs)
        self.draws.append(draws.kept)
        self.states.append(_copy(made))
        return made

    def _given(self, state: graphs.State) -> None:
        """Keeps what a step is given, if it is another state than the last one made."""
        if not self.states:
            self.states.append(_copy(state))
        last = graphs.named(self.states[-1])
        now = graphs.named(state)
        if list(last) != list(now):
            raise CaseError(f"step {len(self.draws) + 1}: is given {', '.join(now)}: want {', '.join(last)}, as was returned")
        own = all(x.shape == now[n].shape and _same(x, now[n]) for n, x in last.items())
        self.given.append(None if own else _copy(state))

    def _begin(self, state: graphs.State, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[Any], structure: Any) -> None:
        from .recorder import _HALVES, _PRECISIONS, _autocast, claimed
        self.structure = structure
        self.arguments = [_Argument(n, v) for n, v in zip(_names(self.plain, args, kwargs), leaves)]
        x = next(iter(graphs.named(state).values()))
        self.half = _autocast(x.device.type)
        seen = str(self.half or _half_of(self.plain) or x.dtype).partition(".")[2]
        precision = precision_name(self.precision) or claimed(seen)
        if precision not in _PRECISIONS:
            raise CaseError(f"precision: {precision!r}: want {', '.join(_PRECISIONS[:-1])} or {_PRECISIONS[-1]}")
        self.claim = {"precision": precision}
        if precision in _HALVES:
            self.claim["autocast"] = self.autocast or ("cpu" if self.half is None else x.device.type)
        self.closed = graphs.closed(self.plain)

    # What a graph is described with: see step.Calls.

    def at(self, t: int, state: graphs.State, past: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        leaves = [a.all()[t - 1] if a.changes or isinstance(a.first, torch.Tensor) else a.first for a in self.arguments]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        state = graphs.copied(state)  # which the step may write to
        return (state, *([graphs.copied(state)] if self.outside else []), *args), kwargs

    def names(self, state: graphs.State, past: Any) -> Iterator[Tuple[str, torch.Tensor]]:
        yield from graphs.named(state).items()
        if self.outside:
            for name, x in graphs.named(self.states[0]).items():
                yield "forcing." + _from(name), x
        for a in self.arguments:
            if a.changes or isinstance(a.first, torch.Tensor):
                yield f"{'forcing' if a.changes else 'static'}.{a.name}", a.tensor(a.first)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and len(self.states) < 2:
            return
        if not self.draws:
            raise CaseError("no steps: want rec(x) called in the loop")
        why = "" if error is None else f"stopped after step {len(self.draws)}: {kind.__name__}: {str(error)[:200]}"
        if not why and self.announced is not None and self.announced != len(self.draws):
            why = f"{len(self.draws)} steps recorded: {self.announced} were announced"
        self._write(why)

    def _write(self, why: str) -> None:
        from .recorder import _provenance

        n = len(self.draws)
        del self.given[n:], self.states[n + 1:]
        now = graphs.closed(self.plain)
        for name in self.closed:
            if now.get(name) != self.closed[name]:
                raise CaseError(f"step: reads {name}, which changed between calls: want it as an argument, rec(x, {name})")
        self.outside = any(g is not None for g in self.given)
        if self.outside:
            first = next(t for t, g in enumerate(self.given, 1) if g is not None)
            warnings.warn(f"refrun.record: step {first} is given another state than step {first - 1} returned: each step is judged from what it was given, "
                          "and what is between them is not", stacklevel=3)
        step = _Given(self.plain) if self.outside else self.plain
        try:
            with torch.autocast(next(iter(graphs.named(self.states[0]).values())).device.type, enabled=False):
                net = graphs.describe(step, self, self.states[0], (), self.half, draws=True)
        except UnsupportedLayer as e:
            numbers = [a.name for a in self.arguments if a.changes and not isinstance(a.first, torch.Tensor)]
            if not numbers:
                raise
            raise UnsupportedLayer(f"{e}. {', '.join(numbers)}: changes between calls, and is a tensor in the graph: want no branch and no size that depends on it") from e
        drawn = [i["name"] for i in net.inputs if i["name"].startswith("noise.")]
        self.kinds, self.written = {}, {}
        for k, name in enumerate(drawn):
            of = [d[k] for d in self.draws if k < len(d)]
            if len(of) < n or len(self.draws[0]) != len(drawn):
                raise CaseError(f"step: {len(self.draws[0])} draws were seen, and it makes {len(drawn)}: want a step that is not compiled, or draws as its arguments")
            self._put("noise", name.partition(".")[2], of)
        for a in self.arguments:
            if a.changes:
                self._put("forcing", a.name, a.all())
            elif isinstance(a.first, torch.Tensor):
                self._put("static", a.name, a.first)
        if self.outside:
            froms = [graphs.named(s if g is None else g) for s, g in zip(self.states, self.given)]
            for name in froms[0]:
                self._put("forcing", _from(name), [f[name] for f in froms])
        case = Case(self.path, {}, **self.claim)
        case.info = _provenance(self.plain, self.plain is not self.step) if isinstance(self.plain, nn.Module) else {
            "produced_by": f"PyTorch {torch.__version__}", "torch": {"version": torch.__version__}}
        self.given, kept = self.written, self.given
        graphs.write(case, net, self, self.states, ())
        self.given = kept
        case.close(why)

    def _put(self, kind: str, name: str, value: Any) -> None:
        self.kinds[name], self.written[name] = kind, value


class _Given(nn.Module):
    """A step whose states are given from outside: what it returned before it does not read."""

    def __init__(self, step: Any):
        super().__init__()
        self.step = step if isinstance(step, nn.Module) else graphs.Function(step)

    def forward(self, state: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        return self.step(given, *args, **kwargs)


def _plain(v: Any) -> Any:
    """A number of numpy as one of Python."""
    return v.item() if not isinstance(v, torch.Tensor) and getattr(v, "shape", None) == () else v


def _half_of(step: Any) -> Optional[torch.dtype]:
    """The half type of a step's weights, where they have one."""
    module = step if isinstance(step, nn.Module) else graphs.Function(step)
    return next((p.dtype for p in module.parameters() if p.dtype in (torch.float16, torch.bfloat16)), None)


def _from(name: str) -> str:
    return "from" + name[len("state"):].replace(".", "_")


def _copy(state: graphs.State) -> graphs.State:
    graphs.named(state)
    return graphs.copied(state)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or torch.equal(a.nan_to_num(), b.nan_to_num()) and torch.equal(a.isnan(), b.isnan())


def _names(step: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> List[str]:
    """The names of what is given beside the state: those of the step's arguments."""
    try:
        of = list(inspect.signature(step.forward if isinstance(step, nn.Module) else step).parameters.values())[1:]
    except (TypeError, ValueError):
        of = []
    plain = [p.name for p in of if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names: List[str] = []
    values = [(plain[k] if k < len(plain) else f"given{k}", v) for k, v in enumerate(args)] + list(kwargs.items())
    for name, v in values:
        paths = [re.sub(r"\W+", "_", name + pytree.keystr(path)).strip("_") for path, _ in pytree.tree_flatten_with_path(v)[0]]
        names += paths
    return names
