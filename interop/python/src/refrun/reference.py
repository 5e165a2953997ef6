"""The exact operator as a function: of torch tensors where there is torch, else of numpy arrays."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

from .case import Case, CaseError, precision_name
from .check import Report, check
from .serve import Server, View, array, tensor, view

_TORCH = "torch"  # noise that PyTorch's own generator draws


class Rollout(NamedTuple):
    """What `refrun.run` returns."""

    states: Any
    """[M,T,C,H,W], the initial state first; of the kind of x0, on its device."""
    digest: str
    """SHA-256 of the states, as `refrun run` prints it: the same bits have the same digest."""
    mode: str
    """How it was computed, such as "float16/autocast-cuda/state-float32/noise-counter"."""
    noise: str
    """Where the noise came from."""


class Reference:
    """An operator whose values are exact, each rounded once: `y = reference(x)`.

    Made by `refrun.reference`. The operator lives in a process of its own, which ends with
    `close()`, with the object, or with this process. It can be copied and pickled; a copy
    starts a process when it is first used, and so does a child made by fork.

    Attributes: mode (how it computes, as in reports), contract (the version of the numerical
    contract), draws (channels of the noise's draws, 0 if there is no noise), seconds (what the
    operator itself took in the last call, without the way there and back).
    """

    mode: str
    contract: str
    draws: int
    seconds: float = 0.0

    def __init__(self, operator: "_Operator", *, precision: Optional[str], autocast: Optional[str], noise: Optional[str], seed: int, threads: Optional[int],
                 isa: Optional[str]):
        self._operator = operator
        self._torch_draws = noise == _TORCH
        if self._torch_draws and operator.module is None:
            raise CaseError("noise: torch: want a torch module, whose generator draws")
        self._said = {"do": "open", **operator.said(seed)}
        for key, value in (("precision", precision_name(precision)), ("autocast", autocast), ("noise", "counter" if self._torch_draws else noise)):
            if value is not None:
                self._said[key] = value
        self._options: Dict[str, Any] = {"threads": threads, "isa": isa}
        self._server: Optional[Server] = None
        self._open()

    def _open(self) -> Server:
        if self._server is not None and self._server.owner == os.getpid() and self._server.process.poll() is None:
            return self._server
        if self._server is not None:
            self._server.close()
        self._server = Server(**self._options)
        answer, _ = self._server.ask(self._said, {k: view(v, k) for k, v in self._operator.weights.items()})
        self.mode, self.contract, self.draws = answer["mode"], answer["contract"], int(answer["draws"])
        self._draw_format = answer["draw_format"]
        return self._server

    def __call__(self, x: Any, *, draws: Union[Any, Sequence[Any], None] = None) -> Any:
        """The operator's output [N,C',H,W] for x [N,C,H,W], float32 or a half type.

        It has the type that the module's output has in this precision, and is a torch tensor
        on x's device if x is one, else a numpy array (bfloat16 as float32). No gradient flows.

        draws is the noise's standard draw, before scaling, [N,C,H,W] of the image that it is
        added to (a list of them where the noise draws more than once). Without it the noise
        comes from where `reference` was told.
        """
        server = self._open()
        if self._torch_draws and draws is None:
            draws = self._drawn(x)
        tensors = {"input": view(x, "input")}
        if draws is not None:
            for i, d in enumerate(draws if isinstance(draws, (list, tuple)) else [draws]):
                tensors[f"draw{i}"] = view(d, "draws")
        said, out = server.ask({"do": "apply"}, tensors)
        self.seconds = float(said["seconds"])
        return tensor(out["output"], x.device) if _is_torch(x) else array(out["output"])

    def _drawn(self, x: Any) -> Any:
        """What the module's randn_like is about to draw, which moves PyTorch's generator as it does."""
        import torch

        if not self.draws:
            return None
        device = x.device if _is_torch(x) else "cpu"  # half types have draws of their own
        return torch.randn((x.shape[0], self.draws, *x.shape[2:]), device=device, dtype=getattr(torch, self._draw_format))

    def run(self, x0: Any = None, *, steps: Optional[int] = None, draws: Any = None, **rollout: Any) -> Rollout:
        """A rollout of `steps` steps from x0, [C,H,W] or [M,C,H,W]: see `refrun.run`."""
        server = self._open()
        said, tensors = {"do": "run"}, {}
        if x0 is not None:
            tensors["start"] = view(x0, "x0")
            if len(x0.shape) not in (3, 4):
                raise CaseError(f"x0: shape {list(x0.shape)}: want [C,H,W] or [M,C,H,W]")
        config = self._operator.rollout(x0, steps, rollout)
        if config is not None:
            said["rollout"] = json.dumps(config)
        if draws is not None:
            tensors["batch0"] = view(draws, "draws")
        answer, out = server.ask(said, tensors)
        states = tensor(out["trajectory"], x0.device) if _is_torch(x0) else array(out["trajectory"])
        return Rollout(states, answer["digest"], answer["mode"], answer["noise"])

    def close(self) -> None:
        """Ends the process. A later call starts another."""
        if self._server is not None:
            self._server.close()
        self._server = None

    def __enter__(self) -> "Reference":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def __repr__(self) -> str:
        return f"<refrun.Reference {self.mode}>"


class _Operator:
    """What is to be computed: a case's folder, a torch module, or an `operator` object with weights."""

    def __init__(self, what: Any, weights: Optional[Mapping[str, Any]], noise: Any, input_channels: Optional[int], like: Any = None):
        self.folder: Optional[str] = None
        self.module: Any = None
        self.weights: Mapping[str, Any] = weights or {}
        self.case: Dict[str, Any] = {}
        if isinstance(what, (str, Path)):
            if weights is not None:
                raise CaseError("weights: want none beside a case's folder, which has its own")
            self.folder = str(what)
            try:
                self.case = json.loads((Path(what) / "case.json").read_text())
            except (OSError, ValueError) as e:
                raise CaseError(f"{what}: {e}: want a case's folder") from None
            return
        if isinstance(what, Mapping):
            if weights is None:
                raise CaseError("weights: missing: want a dict of arrays by PyTorch's names")
            self.case = {"operator": dict(what)}
            return
        if not _is_torch_module(what):
            raise CaseError(f"{type(what).__name__}: want a torch.nn.Module, a case's folder, or an operator object with weights=")
        from .program import describe_any

        self.module = what
        d = describe_any(getattr(what, "_orig_mod", what), like, noise=noise, input_channels=input_channels)
        self.case, self.weights = {"operator": d.operator}, {k: v.detach().clone() for k, v in d.weights.items()}

    def said(self, seed: int) -> Dict[str, str]:
        if self.folder is not None:
            return {"folder": os.path.abspath(self.folder)}
        rollout = {"num_timesteps": 2, "num_realizations": 1, "base_seed": seed}
        return {"case": json.dumps({"operator": self.case["operator"], "rollout": rollout})}

    def rollout(self, x0: Any, steps: Optional[int], given: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
        """The rollout object of case.json: the case's own, and what is given."""
        own = dict(self.case.get("rollout", {}))
        names = {"policy": "policy_type", "alpha": "alpha", "dt": "dt", "seed": "base_seed", "normalization": "normalization", "clamp": "clamp_range", "realizations": "num_realizations"}
        for key, value in given.items():
            if key not in names:
                raise TypeError(f"run() has no argument {key!r}: want {', '.join(names)}, steps or draws")
            if value is not None:
                own[names[key]] = list(value) if key == "clamp" else value
        if given.get("policy") not in (None, "convex"):
            own.pop("alpha", None) if given.get("alpha") is None else None
        if steps is not None:
            if steps < 1:
                raise CaseError(f"steps: {steps}: want 1 or more")
            own["num_timesteps"] = steps + 1
        elif "num_timesteps" not in own:
            raise CaseError("steps: missing: want how many steps to take")
        if x0 is None and self.folder is None:
            raise CaseError("x0: missing: want an initial condition [C,H,W] or [M,C,H,W]")
        if x0 is not None and len(x0.shape) == 4 and given.get("realizations") is None:
            own["num_realizations"] = int(x0.shape[0])
            own.pop("engine_batch", None)
        own.setdefault("num_realizations", 1)
        return own


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_torch_module(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.nn.Module)


def reference(what: Any, *, weights: Optional[Mapping[str, Any]] = None, precision: Any = None, autocast: Optional[str] = None,
              noise: Any = None, seed: int = 0, input_channels: Optional[int] = None, threads: Optional[int] = None, isa: Optional[str] = None) -> Any:
    """The exact operator as a function: `y = refrun.reference(module)(x)`.

    what: a torch module in evaluation mode; a case's folder; or the `operator` object of a
        case.json, with weights={name: array}.
    precision: float32 (the default, or what the case says), float64, tf32, float16, bfloat16,
        or a dtype of torch.
    autocast: "cuda" or "cpu": whose rules a half precision follows (default cuda).
    noise: "torch": PyTorch's generator draws as the module does, so that after the same
        torch.manual_seed both add the same noise (the default for a module that draws normal
        numbers); "none" leaves it out; "counter", "torch-cpu" and "torch-cuda:SMS" are refrun's
        streams, see docs/NOISE.md. A dict names modules that add noise, as in `describe`.
    threads, isa: as the command's flags; they never change a bit.

    For a module the result is a torch.nn.Module. The weights are those of now: a later change of
    the module is not seen. An operator of a rollout (see `describe`) has `run` and takes images of
    any size, tensors or arrays. Any other module is called as it is, with tensors, and returns
    what it returns; sizes that were not seen before take as long as torch.export does.
    """
    sites = noise if isinstance(noise, Mapping) else None
    try:
        operator = _Operator(what, weights, sites, input_channels)
    except CaseError as e:
        if not _is_torch_module(what) or noise is not None or input_channels is not None:
            raise
        from .reference_torch import NetworkModule

        return NetworkModule(what, precision, autocast, {"threads": threads, "isa": isa}, str(e))
    stream: Optional[str] = None if sites is not None else noise
    if stream is None and operator.module is not None and _gaussian(operator.case["operator"]):
        stream = _TORCH
    options: Dict[str, Any] = {"precision": precision, "autocast": autocast, "noise": stream, "seed": seed, "threads": threads, "isa": isa}
    r = Reference(operator, **options)
    if operator.module is None:
        return r
    from .reference_torch import ReferenceModule

    return ReferenceModule(r)


def _gaussian(operator: Mapping[str, Any]) -> bool:
    """Whether the operator's noise is one normal draw, as randn_like's."""
    return any(n.get("noise_type") in ("gaussian", "multiplicative") for n in operator.get("nodes", []))


def run(what: Any, x0: Any = None, *, steps: Optional[int] = None, policy: Optional[str] = None, alpha: Optional[float] = None, dt: Optional[float] = None,
        precision: Any = None, autocast: Optional[str] = None, noise: Any = None, draws: Any = None, seed: Optional[int] = None,
        realizations: Optional[int] = None, normalization: Optional[str] = None, clamp: Optional[Sequence[float]] = None,
        static: Any = None, forcing: Any = None, past: Any = (),
        weights: Optional[Mapping[str, Any]] = None, input_channels: Optional[int] = None, threads: Optional[int] = None, isa: Optional[str] = None) -> Rollout:
    """Rolls an operator out on the CPU, exactly, and returns all states.

    what: as in `reference`. Of a case's folder everything below has the case's value as its
        default, x0 too.
    x0: the initial condition, [C,H,W] for all realizations or [M,C,H,W], float32.
    steps: how many to take: T-1 for T states.
    policy: convex (alpha*x + (1-alpha)*O(x), alpha 0.5), residual (x + dt*O(x), dt 0.01) or
        autoregressive (O(x)).
    noise: "counter" (the default), "none", "torch-cpu[:1.13|:2.x]", "torch-cuda:SMS"; or a dict
        that names modules that add noise. draws gives the tape itself, [T-1,M,C,H,W].
    seed: of the noise. normalization: minmax or zscore. clamp: (low, high).

    A step, `run(step, state, steps=8)`, is as in `record`: any module or function, with a tensor, or a tuple or
    dict of them, and static, forcing, past and noise (the draws) that it is given; its policy is part of it. So
    are modules that map states of another shape than square images. `states` is then a list of steps + 1 states.

    Returns a `Rollout`: states [M,T,C,H,W], digest, mode, noise. `refrun run -o` does the same
    into a file of any length.
    """
    if _is_step(what, x0, static, forcing, past):
        from .step import run_step

        rollout = {"policy_type": policy, "alpha": alpha, "dt": dt, "clamp_range": clamp, "normalization": normalization}
        return Rollout(*run_step(what, x0, steps, rollout, static, forcing, noise, past, precision, autocast, threads, isa))
    sites = noise if isinstance(noise, Mapping) else None
    stream = None if sites is not None else noise
    if stream == _TORCH:
        raise CaseError("noise: torch: want torch-cpu or torch-cuda:SMS, whose seeds `seed` gives, or draws=")
    operator = _Operator(what, weights, sites, input_channels, like=x0)
    if stream is None and operator.folder is None:
        stream = "counter"
    with Reference(operator, precision=precision, autocast=autocast, noise=stream, seed=seed or 0, threads=threads, isa=isa) as r:
        return r.run(x0, steps=steps, draws=draws, policy=policy, alpha=alpha, dt=dt, seed=seed, realizations=realizations, normalization=normalization, clamp=clamp)


def _is_step(what: Any, x: Any, *given: Any) -> bool:
    """Whether a rollout is that of a step graph: what is called is a function, is given more than a state, or maps states that are no square images and is no list of layers."""
    if isinstance(what, (str, Path, Mapping)) or x is None:
        return False
    if not _is_torch_module(what) or isinstance(x, (tuple, list, Mapping)) or any(g is not None and len(g) for g in given):
        return True
    from .graph import UnsupportedLayer, describe
    from .step import images

    if images(x):
        return False
    try:
        describe(getattr(what, "_orig_mod", what))
    except UnsupportedLayer:
        return True
    return False


def assert_same(what: Any, x: Any, y: Any, *, weights: Optional[Mapping[str, Any]] = None, precision: Any = "float32", autocast: Optional[str] = None,
                noise: Any = None, draws: Any = None, input_channels: Optional[int] = None, report: Optional[str] = None) -> Report:
    """Asserts that y is what the operator gives for x in this precision, for pytest.

    x [N,C,H,W] is what a device was given and y [N,C,H,W] what it returned, in their own types.
    No tolerance is needed: the oracle knows how far a right device of that precision may be
    from the exact operator. Raises AssertionError with the whole report unless it passes, and
    also where it could not have failed: y needs 4096 numbers or more. The operator must have as
    many output channels as input channels. x and y of a step (see `record`) are states of any shape, or
    tuples or dicts of them.

    what, weights, autocast: as in `reference`. draws: the noise's standard draw, as in
    `Reference.__call__`; without it only the noise's statistics are held.
    """
    __tracebackhide__ = True
    if weights is None and draws is None and _is_step(what, x):
        from .step import check_call

        r = check_call(what, x, y, precision_name(precision), autocast, report)
        if not r.ok:
            raise AssertionError(str(r))
        return r
    operator = _Operator(what, weights, noise if isinstance(noise, Mapping) else None, input_channels, like=x)
    if operator.folder is not None:
        raise CaseError(f"{operator.folder}: want a module, or an operator object with weights; assert_pass checks a case")
    precision = precision_name(precision)
    rollout: Dict[str, Any] = {"policy_type": "autoregressive", "precision": precision}
    if precision in ("float16", "bfloat16"):
        rollout["autocast"] = autocast or "cuda"
    from .case import alike, raw

    states = alike([raw(x, "x"), raw(y, "y")])
    if states[0].shape != states[1].shape:
        raise CaseError(f"y: shape {list(states[1].shape)}: want x's {list(states[0].shape)}")
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder, operator.case["operator"], **rollout)
        case.weights(operator.weights)
        case.trajectory(states)
        if draws is not None:
            d = raw(draws, "draws")
            case.noise([type(d)(d.dtype, (1, *d.shape), d.data)])
        elif any("noise_type" in n for n in operator.case["operator"].get("nodes", [])):
            case.info["noise"] = "unknown"
        case.close()
        r = check(folder, report=report)
    if not r.ok:
        raise AssertionError(str(r))
    return r
