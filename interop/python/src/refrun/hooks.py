"""Judges the submodules of a model in a real training step: what each returned, and each gradient."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .autocasts import written
from .case import CaseError
from .check import Report
from .gradient import check_grad
from .kernel import check_kernel
from .network import Network, describe

Reference = Callable[..., Any]


class _Call:
    """One call of a submodule: what it was given, what it read, what it returned, and what came back."""

    def __init__(self, name: str, module: nn.Module, args: Any, kwargs: Any):
        self.name, self.of = name, module
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.tensors: List[torch.Tensor] = []  # each once, so that a module that asks whether its query is its key is told so
        self.leaves: List[Any] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                k = next((k for k, t in enumerate(self.tensors) if t is leaf), len(self.tensors))
                if k == len(self.tensors):
                    self.tensors.append(leaf)
                leaf = _Place(k)
            self.leaves.append(leaf)
        self.params = dict(module.named_parameters())
        self.inputs = [t.detach().clone() for t in (*self.tensors, *self.params.values())]
        self.labels = [f"input {k}" if k else "input" for k in range(len(self.tensors))] + list(self.params)
        self.buffers = {k: t.detach().clone() for k, t in module.named_buffers()}
        self.needs = [t.requires_grad for t in (*self.tensors, *self.params.values())]
        kind = next((t.device.type for t in self.inputs), "cpu")
        self.autocast = (kind, torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else None
        self.outputs: List[torch.Tensor] = []
        self.arrived: Dict[Any, List[torch.Tensor]] = {}  # gradients of each backward pass, by ("in", k) and ("out", k)
        self.training = {n: m.training for n, m in module.named_modules()}
        self.writes = any(getattr(m, "inplace", False) for m in module.modules())
        self.versions: List[int] = []
        self.trouble = ""

    def place(self, tensors: Sequence[torch.Tensor]) -> Tuple[Any, Any]:
        """The arguments of the call with these tensors."""
        return pytree.tree_unflatten([tensors[v.k] if isinstance(v, _Place) else v for v in self.leaves], self.spec)

    def watch(self, key: Any, tensor: torch.Tensor) -> None:
        """Keeps the gradient by a tensor, once it is there."""
        if tensor.requires_grad:
            tensor.register_hook(lambda g: self.arrived.setdefault(key, []).append(g.detach().clone()))


class _Place:
    """Where one of a call's tensors stands among its arguments."""

    def __init__(self, k: int):
        self.k = k


class _Reference(nn.Module):
    """A submodule as a function of the tensors of a call and of its parameters, some of whose outputs matter."""

    def __init__(self, call: _Call, module: nn.Module, reference: Optional[Reference]):
        super().__init__()
        self.call, self.of, self.reference, self.outputs = call, module, reference, range(len(call.outputs))
        self.mask = False  # whether the last tensor is one, which the reference takes beside the first

    def forward(self, *tensors: torch.Tensor) -> Any:
        n = len(self.call.tensors)
        if self.mask:
            return (self.reference(tensors[0], tensors[n + len(self.call.params)]),)
        args, kwargs = self.call.place(tensors[:n])
        named = dict(zip(self.call.params, tensors[n:]))
        with torch.nn.utils.stateless._reparametrize_module(self.of, named, tie_weights=True), _flat(self.of):
            returned = self.of(*args, **kwargs) if self.reference is None else self.reference(self.of, *args, **kwargs)
        leaves = [t for t in pytree.tree_leaves(returned) if isinstance(t, torch.Tensor)]
        return tuple(leaves[k] for k in self.outputs)


@contextlib.contextmanager
def _flat(module: nn.Module) -> Iterator[None]:
    """Has recurrent layers, which keep their weights in a list as well, read those that they have now."""
    layers = [m for m in module.modules() if isinstance(m, nn.RNNBase)]
    kept = [m._flat_weights for m in layers]
    for m in layers:
        m._flat_weights = [getattr(m, name) for name in m._flat_weights_names]
    try:
        yield
    finally:
        for m, of in zip(layers, kept):
            m._flat_weights = of


class Hook:
    """What named submodules of a model did while it was used as a context: see `hook`."""

    def __init__(self, model: nn.Module, names: Union[Sequence[str], Mapping[str, Optional[Reference]], None]):
        of = dict(model.named_modules(remove_duplicate=False))
        if names is None:
            names = _leaves(model)
        self._references: Dict[str, Optional[Reference]] = dict(names) if isinstance(names, Mapping) else {n: None for n in names}
        for name in self._references:
            if name not in of:
                raise CaseError(f"{name}: no submodule has that name: want such as {', '.join([n for n in of if n][:3])}")
        self._model, self._of = model, of
        self._calls: List[_Call] = []
        self._open: List[Tuple[_Call, List[Any], List[Any]]] = []
        self._handles: List[Any] = []

    def __enter__(self) -> "Hook":
        self._calls.clear()
        before, after = (torch.compiler.disable(f) for f in (self._before, self._after))
        for name in self._references:
            m = self._of[name]
            self._handles.append(m.register_forward_pre_hook(lambda m, a, k, name=name: before(name, m, a, k), with_kwargs=True))
            self._handles.append(m.register_forward_hook(lambda m, a, k, out: after(out), with_kwargs=True, always_call=True, prepend=True))
        return self

    def __exit__(self, *_: Any) -> None:
        for h in self._handles:
            h.remove()
        self._handles.clear()

    def _before(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Records what a call is given, and has it read its tensors and parameters under other names: gradients by these
        are the call's own, whoever else reads the same tensor."""
        call = _Call(name, module, args, kwargs)
        self._calls.append(call)
        given, swapped = list(call.tensors), []
        if torch.is_grad_enabled():
            given = [(t.clone() if call.writes else t.view_as(t)) if t.requires_grad else t for t in given]
            swapped = _swap(module)
        call.versions = [t._version for t in given]
        for k, t in enumerate(given):
            if t is not call.tensors[k]:
                call.watch(("in", k), t)
        names = {name: k for k, name in enumerate(call.params, len(call.tensors))}
        for _, _, _, alias, path in swapped:
            if path in names:
                call.watch(("in", names[path]), alias)
        self._open.append((call, given, swapped))
        return call.place(given)

    def _after(self, out: Any) -> None:
        call, given, swapped = self._open.pop()
        for holder, key, param, _, _ in swapped:
            holder[key] = param
        if out is None:  # it raised an exception, with which a checkpoint ends what it computes again
            self._calls.remove(call)
            return
        leaves = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
        call.outputs = [t.detach().clone() for t in leaves]
        for k, t in enumerate(leaves):
            call.watch(("out", k), t)
        for k, t in enumerate(given):
            if t is not call.tensors[k] and t._version != call.versions[k]:
                if call.writes:  # what the module wrote, its caller may read
                    call.tensors[k].copy_(t)
                else:
                    call.trouble = "it writes its input: want inplace=False"
        call.tensors = [t.detach() for t in call.tensors]  # without the graph behind them

    @property
    def calls(self) -> List[str]:
        """The submodules that were called, in order."""
        return [c.name for c in self._calls]

    def check(self, *, accumulate: Union[str, Mapping[str, str], None] = None, precision: Optional[str] = None) -> Report:
        """Judges what was recorded.

        accumulate is the format of sums that kernels say they keep in half, of all submodules or of some by their names
        or their classes: {"LayerNorm": "bfloat16"}. precision="tf32" rounds the operands of products.
        """
        rows: List[Dict[str, Any]] = []
        unjudged = [f"{n}: it was not called; a module that was compiled before does not say so" for n in self._references if n not in self.calls]
        for call, number in _numbered(self._calls):
            sums = accumulate.get(call.name, accumulate.get(type(call.of).__name__)) if isinstance(accumulate, Mapping) else accumulate
            options = {k: v for k, v in (("accumulate", sums), ("precision", precision)) if v is not None}
            try:
                rows += _Judge(call, self._references[call.name], options).rows(number)
            except (ValueError, RuntimeError, TypeError) as e:
                unjudged.append(f"{_title(call.name, number)}: {(str(e).strip() or type(e).__name__).splitlines()[0]}")
        taken = {id(p) for n in self._references for p in self._of[n].parameters()}
        others = [n for n, p in self._model.named_parameters() if id(p) not in taken]
        return _report(rows, unjudged, others)


def _swap(module: nn.Module) -> List[Any]:
    """Has a module read its parameters under other names, and returns where each was: the place, the parameter, the other
    name's tensor and the parameter's name."""
    swapped, alias = [], {}
    for prefix, m in module.named_modules():
        for key, p in m._parameters.items():
            if p is None or not p.requires_grad:
                continue
            t = alias.setdefault(id(p), p.view_as(p))
            swapped.append((m._parameters, key, p, t, f"{prefix}.{key}" if prefix else key))
            m._parameters[key] = t
        if isinstance(m, nn.RNNBase):
            for k, p in enumerate(m._flat_weights):
                if id(p) in alias:
                    swapped.append((m._flat_weights, k, p, alias[id(p)], ""))
                    m._flat_weights[k] = alias[id(p)]
    return swapped


def _leaves(model: nn.Module) -> List[str]:
    """The submodules that have none of their own, and those whose own are not called."""
    whole = (nn.MultiheadAttention,)
    names: List[str] = []
    for name, m in model.named_modules():
        inside = any(n == "" or name.startswith(n + ".") for n in names if isinstance(dict(model.named_modules())[n], whole))
        if not inside and (not list(m.children()) or isinstance(m, whole)) and not isinstance(m, (nn.Identity, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)):
            names.append(name)
    return names


def _numbered(calls: Sequence[_Call]) -> Iterator[Tuple[_Call, int]]:
    """Each call, and which one of its module it is."""
    seen: Dict[str, int] = {}
    for call in calls:
        seen[call.name] = seen.get(call.name, -1) + 1
        yield call, seen[call.name]


def _title(name: str, number: int) -> str:
    return (name or "the model") + (f"@{number}" if number else "")


class _Judge:
    """Judges one call: its outputs, and the gradients of each backward pass through it."""

    def __init__(self, call: _Call, reference: Optional[Reference], options: Mapping[str, Any]):
        if call.trouble:
            raise CaseError(call.trouble)
        self.call, self.options = call, options
        module = copy.deepcopy(call.of)
        for name, m in module.named_modules():
            m.training = call.training[name]
            for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks):
                hooks.clear()
        for name, t in module.named_buffers():
            t.copy_(call.buffers[name])
        self.inputs = list(call.inputs)
        self.reference = _Reference(call, module.requires_grad_(False), reference)
        if _drops(module) and reference is None:
            self._masked(module)

    def rows(self, number: int) -> Iterator[Dict[str, Any]]:
        """A row for each output and each gradient."""
        call = self.call
        if not call.outputs:
            raise CaseError("it returned no tensor")
        said = check_kernel(self._network(range(len(call.outputs))), self.inputs, call.outputs if call.outputs[1:] else call.outputs[0], **self.options)
        for k, of in enumerate(said.outputs if call.outputs[1:] else [said.data]):
            yield self._row(number, f"output {k}" if call.outputs[1:] else "output", of)
        seen = [k for k in range(len(call.outputs)) if ("out", k) in call.arrived]
        passes = {len(g) for g in call.arrived.values()}
        if len(passes) > 1:
            raise CaseError("some backward passes went through a part of it only: want one")
        if not seen:
            return
        net = self._network(seen)
        for k in range(passes.pop()):
            yield from self._gradients(number, net, seen, k)

    def _network(self, outputs: Sequence[int]) -> Network:
        """The reference as a graph that has autocast's casts."""
        self.reference.outputs = outputs
        module: Any = self.reference
        if self.call.autocast is not None:
            module = written(module, self.inputs, *self.call.autocast)
        return describe(module, tuple(self.inputs))

    def _gradients(self, number: int, net: Network, seen: Sequence[int], k: int) -> Iterator[Dict[str, Any]]:
        """Those of one backward pass. What has none should have had zeros."""
        call = self.call
        came = [call.arrived.get(("in", i)) for i in range(len(self.inputs))]
        grads = [None if i >= len(call.needs) or not call.needs[i] else torch.zeros_like(self.inputs[i]) if g is None else g[k] for i, g in enumerate(came)]
        if not any(g is not None for g in grads):
            return
        d = [call.arrived[("out", j)][k] for j in seen]
        order = list(net.feed(self.inputs))
        said = check_grad(net, self.inputs, d if d[1:] else d[0], grads, **self.options).outputs
        half = self._half(net)
        open_, loose = [r for r in said if r["verdict"] == "FAIL" and r.get("fault_id", "kernel.sums-in:").startswith("kernel.sums-in:")], {}
        if half and open_ and "accumulate" not in self.options:
            names = {r["name"] for r in open_}
            some = [g if name in names else None for name, g in zip(order, grads)]
            loose = {r["name"]: r for r in check_grad(net, self.inputs, d if d[1:] else d[0], some, accumulate=half, **self.options).outputs}
        for of in said:
            i = order.index(of["name"])
            if loose.get(of["name"], of)["verdict"] != "FAIL" and of["verdict"] == "FAIL":
                of = {**of, "verdict": "NO-POWER", "unjudged": f"it is as if results of these operations were rounded to {half}, and it was not found which: want its parts judged"}
            if of["verdict"] != "NO-POWER" or came[i] is not None:
                yield self._row(number, f"gradient of {call.labels[i]}" + (f", backward pass {k + 1}" if k else ""), of)

    def _half(self, net: Network) -> str:
        """The half type to which a kernel may round results inside of a chain of operations; "" of a single operation."""
        several = sum(n["op"] not in _MOVES for n in net.nodes) > 1
        types = [str(t.dtype)[6:] for t in self.inputs] + [n["attributes"]["dtype"] for n in net.nodes if n["op"] == "cast"]
        return next((t for t in types if several and t in ("float16", "bfloat16")), "")

    def _row(self, number: int, value: str, of: Mapping[str, Any]) -> Dict[str, Any]:
        keys = ("verdict", "unjudged", "reason", "contract", "fault", "fault_id", "advice", "known")
        return {"module": _title(self.call.name, number), "class": type(self.call.of).__name__, "value": value, **{k: of[k] for k in keys if of.get(k) not in (None, "")}}

    def _masked(self, module: nn.Module) -> None:
        """A dropout as the product with its mask, which is read off what it returned."""
        if type(module) not in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d):
            raise CaseError("it has a dropout in training mode: want the dropout judged by itself, or module.eval()")
        p, x = module.p, self.inputs[0]
        mask, back = self.call.outputs[0] != 0, self.call.arrived.get(("in", 0))
        if back is not None:
            mask = torch.where(x == 0, back[0] != 0, mask)
        kept, n = int(mask.sum()), mask.numel()
        if type(module) is nn.Dropout and not bool((x == 0).any()) and abs(kept - n * (1 - p)) > (n * _HOEFFDING) ** 0.5:
            raise CaseError(f"{kept} of {n} numbers are kept: no dropout of {p} does so")
        self.inputs.append(mask.to(x.dtype))
        module.eval()
        self.reference.reference, self.reference.mask = lambda x, mask: x * mask * (1 / (1 - p)), True


# Operations that compute nothing.
_MOVES = ("cast", "reshape", "transpose", "permute", "select", "slice", "expand", "cat", "unbind", "squeeze", "unsqueeze", "flatten")

# Half the logarithm of one in 10^9, twice: so far a share is from what it should be with that chance (Hoeffding).
_HOEFFDING = 0.5 * 21.4


def _drops(module: nn.Module) -> bool:
    return any(m.training and "Dropout" in type(m).__name__ and getattr(m, "p", 1) for m in module.modules())


def _report(rows: List[Dict[str, Any]], unjudged: List[str], others: List[str]) -> Report:
    """The report of all rows, and its text for people."""
    wrong, silent = ([r for r in rows if r["verdict"] == v] for v in ("FAIL", "NO-POWER"))
    unjudged = unjudged + [f"{r['module']} ({r['class']}), {r['value']}: {r['unjudged']}" for r in silent if "unjudged" in r]
    silent = [r for r in silent if "unjudged" not in r]
    verdict = "FAIL" if wrong else "PASS" if len(rows) > len(silent) and not unjudged else "NO-POWER"
    calls, back = len({r["module"] for r in rows}), sum("gradient" in r["value"] for r in rows)
    lines = [f"{verdict}  {calls} calls of submodules: {len(rows) - back} outputs and {back} gradients"]
    for r in wrong:
        lines.append(f"  {r['module']} ({r['class']}), {r['value']}: FAIL, {r.get('fault') or r.get('reason', '')}")
        lines += [f"    to do: {r['advice']}"] if r.get("advice") else []
    lines += [f"  {r['module']} ({r['class']}), {r['value']}: shows nothing: {r['reason']}" for r in silent]
    lines += [f"  not judged: {u}" for u in unjudged]
    if others:
        lines.append(f"  nothing was held against what is between these, nor against the gradients of {', '.join(others[:5])}" + (f" and {len(others) - 5} more" if others[5:] else ""))
    first = wrong[0] if wrong else {}
    return Report({"verdict": verdict, "reason": first.get("reason", ""), "diagnosis": first.get("fault", ""), "first_layer": first.get("module", ""),
                   "rows": rows, "unjudged": unjudged, "text": "\n".join(lines)}, "\n".join(lines))


def hook(model: nn.Module, names: Union[Sequence[str], Mapping[str, Optional[Reference]], None] = None) -> Hook:
    """Records what submodules of a model are given, return, and get back in a training step, and judges it.

        with refrun.hook(model) as seen:
            loss = criterion(model(x), y)
            loss.backward()
        r = seen.check()
        assert r.ok, r

    Each submodule is held to what a right kernel returns for the inputs that it was given, and its gradients, by its
    inputs and its parameters, to those that are right for the gradient that came back to it: so an error is found where
    it is made, and not where it arrives. names are those of `model.named_modules`; without them all that have no
    submodules are taken. A module may be called many times, with others' tensors or parameters.

    What is right is what the module's own code says, in float32 and rounded as the claimed formats are, followed by torch.export.
    For a module that calls a kernel which torch.export does not follow, or whose code is what is in question, names is
    a dict with a function of the module and its arguments that says it in torch's operations:

        refrun.hook(model, {"norm": lambda m, x: F.rms_norm(x, m.weight.shape, m.weight, m.eps)})

    The module's casts under autocast are taken into account. Modules are compiled as before, but a graph ends where a recorded
    submodule begins; enter the context before the first call of what torch.compile makes.

    The verdict is FAIL if a value is wrong, and NO-POWER if one was not judged, or all show nothing. Some values of a
    training step show nothing though they are right, such as the gradient of a bias before a batch norm, which is what
    roundings leave of 0; the report lists them. `rows` has a row for each value, `first_layer` the first module that is wrong.
    """
    return Hook(model, names)
