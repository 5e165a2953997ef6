"""One step of a rollout as a graph: any module or function that torch.export follows."""

from __future__ import annotations

import inspect
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from safetensors.torch import load_file
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from . import network
from .binary import binary
from .case import Case, CaseError, Raw, alike, precision_name, raw
from .check import check
from .program import casts

_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}

State = Union[torch.Tensor, Sequence[torch.Tensor], Mapping[str, torch.Tensor]]
Given = Union[None, torch.Tensor, Sequence[Any], Mapping[str, Any]]


def named(state: State) -> Dict[str, torch.Tensor]:
    """The states by the names that their inputs have in the graph: state, or state.NAME of a dict, state.s0, state.s1, ... of a tuple."""
    if isinstance(state, (torch.Tensor, Raw)):
        return {"state": state}
    if not isinstance(state, (Mapping, tuple, list)):
        raise CaseError(f"state: {type(state).__name__}: want a tensor, or a tuple or dict of tensors")
    parts = dict(state) if isinstance(state, Mapping) else {f"s{i}": x for i, x in enumerate(state)}
    for name, x in parts.items():
        if not isinstance(x, torch.Tensor):
            raise CaseError(f"state: {name}: {type(x).__name__}: want a tensor, or a tuple or dict of tensors")
        if not str(name).isidentifier():
            raise CaseError(f"state: {name!r}: want names such as h")
    return {f"state.{name}": x for name, x in parts.items()}


def plain(step: Any) -> Any:
    """What torch.compile wraps."""
    return getattr(step, "_orig_mod", getattr(step, "_torchdynamo_orig_callable", step))


def _read(function: Any) -> Dict[str, Any]:
    """What a function reads beside its arguments, by name: of its module, of the functions around it, and itself."""
    found: Dict[str, Any] = {}
    if inspect.ismethod(function):
        found["self"] = function.__self__
    try:
        names = inspect.getclosurevars(getattr(function, "__func__", function))
        found.update({**names.globals, **names.nonlocals})
    except TypeError:
        pass
    return found


def _all(function: Any, seen: Optional[List[Any]] = None) -> Iterator[Tuple[str, Any]]:
    """What a function reads, and the functions that it calls."""
    seen = [] if seen is None else seen
    seen.append(function)
    for name, v in _read(function).items():
        yield name, v
        if (inspect.isfunction(v) or inspect.ismethod(v)) and not any(v is s for s in seen) and not (getattr(v, "__module__", "") or "").startswith("torch"):
            yield from _all(v, seen)


def closed(step: Any) -> Dict[str, Any]:
    """The numbers that a function reads beside its arguments: they are constants of its graph."""
    if isinstance(step, nn.Module):
        return {}
    return {name: v for name, v in _all(step) if isinstance(v, (bool, int, float))}


def copied(state: State) -> State:
    return pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), state)


class _Numbers(TorchFunctionMode):
    """Has torch.export follow what programs do with numbers that are tensors in the graph, and with generators."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        kwargs.pop("generator", None)
        if func is torch.Tensor.__getitem__ and _number(args[1]) and not args[1].is_floating_point() and args[1].dtype != torch.bool:
            return args[0].index_select(0, args[1].reshape(1)).squeeze(0)
        if func is torch.full and _number(args[1]):
            return args[1].to(kwargs.get("dtype") or _own(args[1])).expand(args[0]).clone()
        if func is torch.tensor and isinstance(args[0], (list, tuple)) and any(_number(v) for v in args[0]):
            of = [v if _number(v) else torch.as_tensor(v) for v in args[0]]
            return torch.stack([v.to(kwargs.get("dtype") or max((_own(v) for v in of), key=lambda d: d.is_floating_point)) for v in of])
        if func is torch.tensor and _number(args[0]):
            return args[0].to(kwargs.get("dtype") or _own(args[0]))
        return func(*args, **kwargs)


def _number(v: Any) -> bool:
    return isinstance(v, torch.Tensor) and v.dim() == 0


def _own(v: torch.Tensor) -> torch.dtype:
    """The type of a tensor that is made of a number."""
    return torch.get_default_dtype() if v.is_floating_point() else v.dtype


class Function(nn.Module):
    """A function as a module, with the modules that it calls as its own."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        for name, of in _all(function):
            several = isinstance(of, (list, tuple))
            for k, m in enumerate(of if several else [of]):
                if isinstance(m, nn.Module):
                    name_of = f"{name}_{k}" if several else name
                    self.add_module(name_of + "_" * hasattr(self, name_of), plain(m))
        object.__setattr__(self, "function", function)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with _Numbers():
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


def describe(step: Any, calls: Calls, state: State, past: Sequence[torch.Tensor], half: Optional[torch.dtype] = None, draws: bool = False) -> network.Network:
    """The graph of a step, whose inputs and outputs are named and ordered as docs/FORMATS.md has them. With draws its random numbers are inputs, noise.draw0, ..."""
    module = step if isinstance(step, nn.Module) else Function(step)
    args, kwargs = calls.at(1, state, past)
    kind = next(iter(named(state).values())).device.type
    with torch.random.fork_rng(enabled=draws), network.running(module), torch.no_grad():
        with torch.autocast(kind, half, enabled=half is not None and casts(module, *args, **kwargs)):
            net = network.described(module, args, kwargs, draws)
            made = named(module(*args, **kwargs))
    names = [name for name, _ in calls.names(state, past)]
    names += [i["name"] for i in net.inputs if i["name"].startswith("noise.draw")]
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
        args, kwargs = calls.at(t, copied(state), before)  # which the step may write to
        with torch.no_grad():
            made = step(*args, **kwargs)
        if before:
            before = [state, *before[:-1]]
        state = made
        yield state


def policy(module: nn.Module, rollout: Mapping[str, Any]) -> nn.Module:
    """A module and what follows it in a step, as the `rollout` object of case.json has it, as one module."""
    if rollout.get("normalization"):
        raise CaseError("normalization: of states that are no square images: want it in a step, record(folder, step, state)")
    return _Policy(module, rollout)


class _Policy(nn.Module):
    def __init__(self, module: nn.Module, rollout: Mapping[str, Any]):
        super().__init__()
        self.module, self.rollout = module, dict(rollout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, r = self.module(x), self.rollout
        if r["policy_type"] == "convex":
            out = r["alpha"] * x + (1 - r["alpha"]) * out
        elif r["policy_type"] == "residual":
            out = x + r["dt"] * out
        return out.clamp(*r["clamp_range"]) if r.get("clamp_range") else out


def images(x: Any) -> bool:
    """Whether x are square images [N,C,H,H] or [C,H,H], which operators of case.json are described with."""
    return len(x.shape) in (3, 4) and x.shape[-1] == x.shape[-2]


POLICY = ("policy_type", "alpha", "dt", "clamp_range", "normalization", "base_seed")


def write(case: Case, net: network.Network, calls: Calls, states: Sequence[State], past: Sequence[torch.Tensor]) -> None:
    """Writes graph, inputs and states of a rollout into a case."""
    for key in POLICY:
        case.rollout.pop(key, None)
    given = {f"{calls.kinds[n]}.{n}": v if calls.kinds[n] == "static" else torch.stack(v) for n, v in calls.given.items()}
    case.step(net, given)
    of: Dict[str, List[Raw]] = {}
    for s in states:
        for name, x in named(s).items():
            of.setdefault(name, []).append(raw(x, name))
    case.step_states({name: alike(x) for name, x in of.items()}, {f"state.{k}": raw(x, "past") for k, x in enumerate(past, 1)})


def _net(step: Any, state: State, calls: Calls, past: Sequence[torch.Tensor], half: Optional[torch.dtype]) -> network.Network:
    with torch.autocast(next(iter(named(state).values())).device.type, enabled=False):
        return describe(step, calls, state, past, half)


def _claim(precision: Optional[str], autocast: Optional[str]) -> Dict[str, Any]:
    half = precision in ("float16", "bfloat16")
    return {"precision": precision or "float32", **({"autocast": autocast or "cuda"} if half else {})}


def run_step(step: Any, state: State, steps: Optional[int], rollout: Mapping[str, Any], static: Given, forcing: Given, noise: Given, past: Any,
             precision: Any, autocast: Optional[str], threads: Optional[int], isa: Optional[str]) -> Tuple[Any, str, str, str]:
    """Rolls a step out by refrun: the states, digest, mode and noise."""
    if steps is None or steps < 1:
        raise CaseError(f"steps: {steps}: want 1 or more")
    past = (past,) if isinstance(past, torch.Tensor) else tuple(past)
    step = getattr(step, "_orig_mod", step)
    if isinstance(step, nn.Module) and isinstance(state, torch.Tensor) and not (past or static or forcing or noise):
        kind = rollout["policy_type"] or "convex"
        step = policy(step, {**rollout, "policy_type": kind, "alpha": 0.5 if rollout["alpha"] is None else rollout["alpha"], "dt": 0.01 if rollout["dt"] is None else rollout["dt"]})
    elif any(v is not None for v in rollout.values()):
        raise CaseError("policy, alpha, dt, clamp, normalization: of a step: want them in it")
    calls = Calls(step, past, steps, static, forcing, noise)
    precision = precision_name(precision)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder + "/case", {}, **_claim(precision, autocast))
        write(case, _net(step, state, calls, past, _HALVES.get(precision or "")), calls, [state], past)
        case.rollout["num_timesteps"] = steps + 1
        case.close()
        out = Path(folder, "out.safetensors")
        args = [binary(), "run", "--case", folder + "/case", "-o", str(out), "--json", "--allow-nonfinite"]
        for flag, value in (("threads", threads), ("isa", isa)):
            args += [f"--{flag}", str(value)] if value is not None else []
        done = subprocess.run(args, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr.strip() or f"refrun run ended with {done.returncode}")
        said, made = json.loads(done.stdout), load_file(out)
    whole = {name: made["trajectory" + name[len("state"):]][0] for name in named(state)}
    return [_like(state, {name: x[t] for name, x in whole.items()}) for t in range(steps + 1)], said["digest"], said["mode"], said["noise"]


def _like(state: State, of: Mapping[str, torch.Tensor]) -> State:
    """States by their names in the structure of a state."""
    if isinstance(state, torch.Tensor):
        return of["state"]
    parts = {name[len("state."):]: x for name, x in of.items()}
    return parts if isinstance(state, Mapping) else tuple(parts.values())


def check_call(step: Any, x: State, y: State, precision: Optional[str], autocast: Optional[str], report: Optional[str]) -> Any:
    """Checks one call of a step: x are the states that it was given, and y those that it returned."""
    step = getattr(step, "_orig_mod", step)
    calls = Calls(step, (), 1, None, None, None)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder, {}, **_claim(precision, autocast))
        write(case, _net(step, x, calls, (), _HALVES.get(precision or "")), calls, [x, y], ())
        case.close()
        return check(folder, report=report)
