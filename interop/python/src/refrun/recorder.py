"""Records a rollout while it runs."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from . import step as graphs
from .case import Case, CaseError, Raw, alike, precision_name, raw, stack
from .loop import Loop
from .graph import Description, UnsupportedLayer, describe
from .program import describe as describe_program


_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")
_STATES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_KINDS = {"randn": "normal", "rand": "uniform"}  # what else is drawn is called as its function
_DRAWN = {"laplace": ["exponential", "normal"], "dropout": ["bernoulli"]}  # of other noise, [normal]


def claimed(seen: str) -> str:
    """The claim of numbers of a type: that type, if it is half or double."""
    return seen if seen in _HALVES or seen == "float64" else "float32"


class _Draws(TorchDispatchMode):
    """Keeps the random numbers that are drawn while it is active, with their kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.on = False
        self.kept: List[Tuple[str, torch.Tensor]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        drawn = self.on and re.match(r"aten\.(randn|rand|normal|bernoulli|exponential|uniform)", str(func))
        if drawn:
            self.kept.append((_KINDS.get(drawn[1], drawn[1]), out.detach().clone()))
        return out


class Recorder:
    """A rollout being recorded; made by `record`."""

    def __init__(self, path: Union[str, Path], module: nn.Module, *, policy: str = "convex", alpha: Optional[float] = None, dt: Optional[float] = None,
                 precision: Any = None, autocast: Optional[str] = None, seed: int = 0, layers: Union[bool, Iterable[int]] = False,
                 noise: Optional[Mapping[str, Tuple[str, float]]] = None, input_channels: Optional[int] = None, steps: Optional[int] = None, like: Optional[nn.Module] = None,
                 clamp: Optional[Tuple[float, float]] = None, normalization: Optional[str] = None, each: bool = False):
        for m, what in ((module, "module"), (like, "like")):
            if m is not None and not isinstance(m, nn.Module):
                raise CaseError(f"{what}: {type(m).__name__}: want a torch.nn.Module")
        plain = like if like is not None else getattr(module, "_orig_mod", module)  # what torch.compile wraps
        self.compiled = hasattr(module, "_orig_mod")
        self.module = module
        precision = precision_name(precision)
        if precision not in (None, *_PRECISIONS):
            raise CaseError(f"precision: {precision!r}: want {', '.join(_PRECISIONS[:-1])} or {_PRECISIONS[-1]}")
        self.description: Optional[Description] = None
        try:
            self.description = describe(plain, noise=noise, input_channels=input_channels)
        except UnsupportedLayer:
            if noise:
                raise
        if self.description is not None:
            ins, outs = self.description.channels
            if ins != outs:
                raise CaseError(f"module: {ins} channels to {outs}: want as many, so that the output can be the next state")
        rollout: Dict[str, Any] = {"policy_type": policy, "precision": precision or "float32", "base_seed": seed}
        if clamp is not None:
            rollout["clamp_range"] = [float(v) for v in clamp]
        if normalization not in (None, "minmax", "zscore"):
            raise CaseError(f"normalization: {normalization!r}: want minmax or zscore")
        if normalization:
            rollout["normalization"] = normalization
        if each and not normalization:
            raise CaseError("each: nothing is normalized: want normalization as well")
        self.each = each
        if policy == "convex":
            rollout["alpha"] = 0.5 if alpha is None else alpha
        elif alpha is not None:
            raise CaseError(f"alpha: {alpha}: only the convex policy has one")
        if policy == "residual":
            rollout["dt"] = 0.01 if dt is None else dt
        elif dt is not None:
            raise CaseError(f"dt: {dt}: only the residual policy has one")
        if policy not in ("convex", "residual", "autoregressive"):
            raise CaseError(f"policy: {policy!r}: want convex, residual or autoregressive")
        if isinstance(layers, int) and not isinstance(layers, bool):
            raise CaseError(f"layers: {layers}: want True or a list of steps, such as [{layers}]")
        self.precision, self.autocast = precision, autocast
        self.case = Case(path, self.description.operator if self.description else {}, **rollout)
        if self.description:
            self.case.weights(self.description.weights)
        self.case.info = _provenance(plain, self.compiled)
        self.want = {1} if layers is True else set(layers or ())
        self.steps = steps
        self.inputs: List[Raw] = []
        self.tape: List[Optional[Dict[str, Raw]]] = []
        self.last: Optional[Raw] = None
        self.given: Optional[Raw] = None  # by state()
        self.net: Optional[Any] = None  # the step as a graph, of a module whose states are no square images
        self._hooks: List[Any] = []
        self._seen: Dict[str, Any] = {}
        self._draws = _Draws()
        self.plain, self.like = plain, like
        self.loop: Optional[Loop] = None  # of calls rec(x)

    def __enter__(self) -> "Recorder":
        self._hooks.append(self.module.register_forward_pre_hook(self._before))
        self._hooks.append(self.module.register_forward_hook(self._after))
        site = self.description and self.description.noise
        if site and not self.compiled:
            owner = self._owner(site)
            self._hooks.append(owner.register_forward_pre_hook(lambda *_: self._listen(True)))
            self._hooks.append(owner.register_forward_hook(lambda *_: self._listen(False)))
            self._draws.__enter__()
        if self.want and not self.compiled:
            for name, m in self._modules().items():
                if name:
                    self._hooks.append(m.register_forward_hook(lambda m, i, o, name=name: self._feature(name, o)))
        return self

    def _modules(self) -> Dict[str, nn.Module]:
        """The modules that run, by the names of the plain one: those of the same name, else the plain one's own."""
        return {**dict(self.plain.named_modules()), **dict(self.module.named_modules())}

    def _owner(self, site: str) -> nn.Module:
        """The module that draws: the one named, or the nearest around it."""
        modules = self._modules()
        while site and site not in modules:
            site = site.rpartition(".")[0]
        return modules[site]

    def _listen(self, on: bool) -> None:
        self._draws.on = on

    def _feature(self, name: str, out: Any) -> None:
        if len(self.inputs) in self.want and torch.is_tensor(out):
            self._seen[name] = raw(out)

    def state(self, x: torch.Tensor) -> None:
        """Says what the state is, before the module is given something else made of it, such as x.half()."""
        self.given = raw(x, "state")

    def _arithmetic(self) -> None:
        """Sees what the first call runs in, where the caller did not say it."""
        kind, dtype = next(((p.device.type, p.dtype) for p in self.plain.parameters() if p.is_floating_point()), ("cpu", torch.float32))
        cast = _autocast(kind)
        seen = str(cast or dtype).partition(".")[2]
        if self.precision is None:
            self.case.rollout["precision"] = claimed(seen)
        if self.case.rollout["precision"] in _HALVES:
            # A module in a half type follows the types of its inputs, and so do autocast's rules of the CPU.
            self.case.rollout["autocast"] = self.autocast or ("cpu" if cast is None and dtype in _HALVES.values() else kind)

    def _before(self, module: nn.Module, args: Tuple[Any, ...]) -> None:
        self.read, x = raw(args[0], "state"), self.given or raw(args[0], "state")
        if self.description is not None and self.net is None and len(x.shape) != 4:
            raise CaseError(f"state: shape {list(x.shape)}: want [M,C,H,W]")
        if not self.inputs:
            self._arithmetic()
        if self.description is None:
            self._describe(args[0])
        self.given = None
        self.inputs.append(x)
        self._draws.kept.clear()
        self._seen = {}
        if self.compiled and self.description.noise and _same_draws():
            self._rehearse(x=args[0])

    def _describe(self, x: torch.Tensor) -> None:
        """Describes a module that is no list of layers by its first call, without the hooks of this recorder."""
        mine = [(h.hooks_dict_ref(), h.id) for h in self._hooks]
        kept = [of.pop(key) for of, key in mine]
        try:
            half = _autocast(x.device.type)
            with torch.autocast(x.device.type, enabled=False):
                if graphs.images(x):
                    self.description = describe_program(self.plain, x, half)
                else:
                    step = graphs.policy(self.plain, self.case.rollout)
                    self.calls = graphs.Calls(step, (), 0, None, None, None)
                    self.net = graphs.describe(step, self.calls, x, (), half)
                    self.description = Description({"nodes": []}, {}, None)
                    return
        finally:
            for (of, key), hook in zip(mine, kept):
                of[key] = hook
        self.case.operator = dict(self.description.operator)
        self.case.weights(self.description.weights)

    def _rehearse(self, x: torch.Tensor) -> None:
        """Draws what the compiled module is about to draw, by the plain one, and takes the generator back."""
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), torch.no_grad(), self._draws:
            self._listen(True)
            self.module._orig_mod(x)
            self._listen(False)

    def _after(self, module: nn.Module, args: Tuple[Any, ...], out: Any) -> None:
        noise = next((n["noise_type"] for n in self.description.operator["nodes"] if n["op"] == "noise"), "")
        kinds = _DRAWN.get(noise, [kind for kind, _ in self._draws.kept[:1]])
        fits = bool(kinds) and [kind for kind, _ in self._draws.kept] == kinds
        self.tape.append({kind: raw(d) for kind, d in self._draws.kept} if fits else None)
        step = len(self.inputs)
        if step == 1 and torch.is_tensor(out) and out.dtype in _HALVES.values() and out.dtype != _HALVES.get(self.case.rollout["precision"]):
            warnings.warn(f"refrun.record: the module returns {out.dtype}, and {self.case.rollout['precision']} is claimed", stacklevel=4)
        if step in self.want and not self.compiled and self.net is None:
            outputs = {"input": self.read, **self._seen, "output": raw(out)}
            for i, (kind, d) in enumerate((self.tape[-1] or {}).items()):
                outputs[f"{self.description.noise}.draw" + (f"{i}.{kind}" if len(self.tape[-1]) > 1 else "")] = d
            outputs = {k: v for k, v in outputs.items() if len(v.shape) == 4}
            if outputs["input"].shape[0] > 1:  # one realization is enough
                outputs = {k: _first(v) for k, v in outputs.items()}
            self.case.layers(outputs, step, 0)

    def __call__(self, state: Any, *args: Any, **kwargs: Any) -> Any:
        """Makes a step: the module is all of it. See `record`."""
        if self.loop is None:
            if self.inputs:
                raise CaseError("rec(x): after calls of the module: want one or the other")
            for h in self._hooks:
                h.remove()
            if self.description and self.description.noise and not self.compiled:
                self._draws.__exit__(None, None, None)
            self.loop = Loop(self.case.path, self.module, precision=self.precision, autocast=self.autocast, like=self.like, steps=self.steps)
        return self.loop(state, *args, **kwargs)

    def finish(self, x: torch.Tensor) -> None:
        """Records the last state, which no further step reads."""
        self.last = raw(x, "state")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.loop is not None:
            return self.loop.__exit__(kind, error, trace)
        for h in self._hooks:
            h.remove()
        if self.description and self.description.noise and not self.compiled:
            self._draws.__exit__(None, None, None)
        states = self.inputs + ([self.last] if self.last is not None else [])
        if len(states) < 2:
            if error is None:
                raise CaseError(f"{len(states)} states: want the module called twice or more, or finish(x) after one step")
            return
        if error is None and self.last is None and self.inputs:
            warnings.warn("refrun.record: finish(x) was not called: the state that the last step made is not recorded, nor checked", stacklevel=2)
        narrow = _STATES.get(self.inputs[0].dtype)
        if self.last is not None and narrow in _HALVES and self.last.dtype == "F32" and all(s.dtype == self.inputs[0].dtype for s in self.inputs):
            warnings.warn(f"refrun.record: the module is given {narrow} and the last state is float32: if states are float32 and only what the module reads is not, call state(x) before the module", stacklevel=2)
        if narrow in _HALVES and all(s.dtype == states[0].dtype for s in states):
            self.case.rollout["state"] = narrow
        states = alike(states)  # the initial state may be wider than those that follow
        m, t = states[0].shape[0], len(states)
        if self.net is not None:
            graphs.write(self.case, self.net, self.calls, states, ())
            self.case.rollout.pop("state", None)
            self.case.close(self._why(kind, error, t))
            return
        self.case.trajectory(states)
        if not self.each:
            self.case.rollout["engine_batch"] = m
        tape = self.tape[: t - 1]
        if self.description.noise and tape and all(d is not None for d in tape):
            draws = {kind: alike([d[kind] for d in tape]) for kind in tape[0]}  # the first may be wider
            whole = {kind: stack(d, (len(d), *d[0].shape), "noise") for kind, d in draws.items()}
            self.case.noise([whole if len(whole) > 1 else next(iter(whole.values()))])
        elif self.description.noise:
            self.case.info["noise"] = "unknown"  # check's default for this case
        if self.compiled and self.want:
            warnings.warn("refrun.record: layers are not recorded under torch.compile", stacklevel=2)
        elif error is None and self.want and max(self.want) >= t:
            warnings.warn(f"refrun.record: layers of step {max(self.want)} were asked for, and there are {t - 1} steps", stacklevel=2)
        self.case.close(self._why(kind, error, t))

    def _why(self, kind: Any, error: Any, t: int) -> str:
        """Why a recording is incomplete, "" if it is not."""
        if error is not None:
            return f"stopped after step {t - 1}: {kind.__name__}: {str(error)[:200]}"
        if self.steps is not None and t - 1 != self.steps:
            return f"{t - 1} steps recorded: {self.steps} were announced"
        return ""


def _autocast(kind: str) -> Optional[torch.dtype]:
    """The type of an autocast that is on for a kind of device, None if there is none."""
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if kind == "cuda":
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def _same_draws() -> bool:
    """Whether compiled code draws from PyTorch's own generator, as the plain module does."""
    from torch._inductor import config

    return bool(config.fallback_random)


def _first(r: Raw) -> Raw:
    return Raw(r.dtype, (1, *r.shape[1:]), r.data[: len(r.data) // r.shape[0]])


# torch.empty(64).bernoulli_(0.5) after seed 0, the first draw as the lowest bit: of
# PyTorch's own generator, and of Intel's MKL.
_BERNOULLI = {0x6498ABA72153DEC4: False, 0x543E5D5687C2E799: True}


def _mkl_draws() -> Optional[bool]:
    """Whether this PyTorch's Bernoulli draws on the CPU are MKL's; None if they are neither's.

    It depends on the release, the build and the processor, so it is found out by drawing.
    """
    drawn = torch.empty(64).bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
    return _BERNOULLI.get(sum(1 << i for i, x in enumerate(drawn.tolist()) if x))


def _provenance(module: nn.Module, compiled: bool) -> Dict[str, Any]:
    p = next(iter(module.parameters()), None)
    cuda = p is not None and p.is_cuda
    info: Dict[str, Any] = {"version": torch.__version__, "compile": compiled}
    where = "CPU"
    if cuda:
        d = torch.cuda.get_device_properties(p.device)
        where = d.name
        info.update(sm_count=d.multi_processor_count, max_threads_per_sm=getattr(d, "max_threads_per_multi_processor", None),
                    tf32=torch.backends.cudnn.allow_tf32, cudnn_benchmark=torch.backends.cudnn.benchmark,
                    cudnn_deterministic=torch.backends.cudnn.deterministic)
    else:
        info["mkl"] = torch.backends.mkl.is_available()
        draws = _mkl_draws()
        if draws is not None:
            info["mkl_draws"] = draws
    return {"produced_by": f"PyTorch {torch.__version__} on {where}", "torch": info}


def record(path: Union[str, Path], module: Any, state: Any = None, **options: Any) -> Any:
    """Records a rollout: one that runs inside a `with`, where every call of the module is a step; or, given a state, the
    one that this makes of it.

    In a `with` the states are the module's inputs, in order and in their own type; give
    the last one to finish(). Noise that a noise module draws is kept as the
    tape; under torch.compile only with torch._inductor.config.fallback_random,
    where compiled code draws what the plain module would.

    Options: policy (convex, residual or autoregressive), alpha or dt, clamp (two
    numbers) and normalization (minmax or zscore; over the whole batch, or each
    realization's own with each=True) of the next state, precision
    (what is claimed: float64, float32, tf32, float16, bfloat16; by default what the first
    call runs in: autocast's type, or the module's), autocast (cuda or cpu,
    the device's by default; cpu's for a module in a half type), seed, layers (True for the first step's, or steps),
    noise (as in describe), steps (how many are to come: fewer mark the case
    incomplete), like (a module of plain layers that says what is claimed, where
    the recorded one is made of other kernels or may be wrong: draws and layers
    are then recorded of the submodules of the same names, or of like's own where
    it has no such).

    A step is also called through the recorder: `x = rec(x, f, ...)`, of a function or module that makes the whole next state,
    runs it as it is. The arguments are recorded, and what the step draws at random. A state is a tensor, or a tuple or dict of them;
    one that is not what was returned before is taken as given.

    With a state, `record(path, step, state, steps=8)` calls step(state) that often, each time with what it
    returned, as the surrounding code has it (autocast, device), and returns the states. A step is any module or
    function that torch.export follows; policies are part of it. A state is a tensor, or a tuple or dict of them.
    Options: steps; forcing and noise, what each step is given, such as forcing={"f": f} with f[t] for step t + 1,
    which is passed by that name, or a tensor alone, which is passed by its place: step(state, f[t]); static, what
    all steps are given; past, the states before the first, the newest first: step(state, past[0], ...);
    precision, autocast and like as above.
    """
    if state is not None:
        return _record_step(path, module, state, **options)
    if not isinstance(module, nn.Module):
        if not callable(module):
            raise CaseError(f"step: {type(module).__name__}: want a function or a torch.nn.Module")
        return Loop(path, module, **options)
    return Recorder(path, module, **options)


def _record_step(path: Union[str, Path], step: Any, state: Any, *, steps: int, static: Any = None, forcing: Any = None, noise: Any = None,
                 past: Any = (), precision: Any = None, autocast: Optional[str] = None, like: Any = None) -> List[Any]:
    past = (past,) if isinstance(past, torch.Tensor) else tuple(past)
    if past and not isinstance(state, torch.Tensor):
        raise CaseError("past: of a state of several tensors: want them in the state")
    if steps < 1:
        raise CaseError(f"steps: {steps}: want 1 or more")
    plain = like if like is not None else getattr(step, "_orig_mod", step)
    calls = graphs.Calls(plain, past, steps, static, forcing, noise)
    x = next(iter(graphs.named(state).values()))
    half = _autocast(x.device.type)
    seen = str(half or x.dtype).partition(".")[2]
    precision = precision_name(precision) or claimed(seen)
    if precision not in _PRECISIONS:
        raise CaseError(f"precision: {precision!r}: want {', '.join(_PRECISIONS[:-1])} or {_PRECISIONS[-1]}")
    rollout: Dict[str, Any] = {"precision": precision}
    if precision in _HALVES:
        rollout["autocast"] = autocast or ("cpu" if half is None else x.device.type)
    with torch.autocast(x.device.type, enabled=False):
        net = graphs.describe(plain, calls, state, past, half)
    case = Case(path, {}, **rollout)
    case.info = _provenance(plain, plain is not step) if isinstance(plain, nn.Module) else {"produced_by": f"PyTorch {torch.__version__}", "torch": {"version": torch.__version__}}
    calls.step = step
    states, why = [], ""
    try:
        for s in graphs.run(step, calls, state, past):
            states.append(s)
    except Exception as e:
        if len(states) < 2:
            raise
        why = f"stopped after step {len(states) - 1}: {type(e).__name__}: {str(e)[:200]}"
        raise
    finally:
        if len(states) > 1:
            graphs.write(case, net, calls, states, past)
            case.close(why)
    return states
