"""Any torch module as a network of refrun's operations, through torch.export."""

from __future__ import annotations

import contextlib
import io
import json
import operator as op
import textwrap
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

import torch
from safetensors.torch import save
from torch import fx, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from . import aten, backwards, complex_functions, composed, graph, losses, pairs  # noqa: F401
from .case import CaseError, replace
from .graph import UnsupportedLayer

_DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
           torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool"}
# Formats of 8 bits, whose numbers float32 has too: in a graph they are float32 numbers.
NARROW = tuple(getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz") if hasattr(torch, name))
_COMPLEX = (torch.complex64, torch.complex128, torch.complex32)

Value = Union[str, torch.Tensor, Tuple[Any, ...], None]  # a name of the graph, a constant, or several


class Unsupported(UnsupportedLayer):
    """Everything in a module that refrun has no operation for: `layers` lists it, one line each."""

    def __init__(self, layers: Sequence[str]):
        self.layers = list(layers)
        kinds = Counter(line.split(": ")[1] for line in self.layers if ": " in line)
        counted = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
        lines = [f"{len(self.layers)} operations are not supported ({counted}):", *_reasons(self.layers)]
        super().__init__(self.layers[0] if len(self.layers) == 1 else "\n  ".join(lines))


def _reasons(layers: Sequence[str]) -> List[str]:
    """The lines, those of one operation for one reason together: the first with how many more there are."""
    groups: Dict[str, List[str]] = {}
    for line in layers:
        groups.setdefault(line.partition(": ")[2], []).append(line)
    return [of[0] if len(of) == 1 else f"{of[0]} (and {len(of) - 1} more like it)" for of in groups.values()]


class Network:
    """A network as refrun reads it: docs/FORMATS.md, section 11.

    nodes have PyTorch's names of modules; inputs and outputs name values of the graph; weights
    are the tensors that nodes name beside them. modules says for each module's call whose value
    its output is: the name of the module, for the second and further calls with @1, @2, ...
    """

    def __init__(self, inputs: List[Dict[str, Any]], nodes: List[Dict[str, Any]], outputs: List[str], weights: Dict[str, torch.Tensor]):
        self.inputs, self.nodes, self.outputs, self.weights = inputs, nodes, outputs, weights
        self._module: Optional[nn.Module] = None
        self._stamp: List[Tuple[int, int]] = []

    def _of(self, module: nn.Module) -> "Network":
        """The network, which remembers the module that it describes, and keeps its tensors as they are now."""
        self.weights = {name: t.detach().clone() for name, t in self.weights.items()}
        self._module, self._stamp = module, _stamp(module)
        return self

    def _described(self) -> Optional[nn.Module]:
        """The module that was described; None once one of its tensors has changed."""
        return self._module if self._module is not None and _stamp(self._module) == self._stamp else None

    @property
    def modules(self) -> Dict[str, str]:
        return {name: n["name"] for n in self.nodes for name in [n["name"], *n.get("also", [])]}

    def feed(self, inputs: Sequence[Any], kwargs: Optional[Mapping[str, Any]] = None) -> Dict[str, torch.Tensor]:
        """The tensors of a call by the names of the inputs."""
        of = [t for t in pytree.tree_leaves((tuple(inputs), dict(kwargs or {}))) if isinstance(t, torch.Tensor)]
        if len(of) != len(self.inputs):
            raise CaseError(f"{len(of)} tensors: want {len(self.inputs)}, as the network was described with")
        return {i["name"]: t.float() if t.dtype in NARROW else t for i, t in zip(self.inputs, of)}

    def save(self, path: Union[str, Path]) -> Path:
        """Writes NAME.json and, beside it, NAME.safetensors, and returns the first."""
        path = Path(path).with_suffix(".json")
        for name, data in reversed(self.files(path.name).items()):
            replace(path.with_name(name), [data])
        return path

    def files(self, name: str, weights: Optional[str] = None) -> Dict[str, bytes]:
        """The file of the network and that of its weights, by their names."""
        doc = {"version": 1, "produced_by": f"PyTorch {torch.__version__}", "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}
        if weights:
            doc["weights"] = weights
        tensors = save({k: t.detach().cpu().contiguous().clone() for k, t in self.weights.items()})
        return {name: (json.dumps(doc, indent=1, allow_nan=False) + "\n").encode(), weights or Path(name).stem + ".safetensors": tensors}


def _stamp(module: nn.Module) -> List[Tuple[int, int]]:
    """Which tensors a module has, and how often each was written to."""
    return [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in module.state_dict(keep_vars=True).values() if isinstance(t, torch.Tensor)]


def describe(module: nn.Module, inputs: Optional[Sequence[Any]] = None, kwargs: Optional[Mapping[str, Any]] = None, *,
             noise: Optional[Mapping[str, Tuple[str, float]]] = None, input_channels: Optional[int] = None) -> Any:
    """Describes a module without active dropout, as it is called with these inputs, as a Network.

    torch.export follows the call, so that control flow, reused modules, constants and functions
    are no matter; sizes are those of the inputs. What refrun has no operation for raises
    Unsupported, which lists all of it at once, each with its module and a way out.

    Without inputs it describes the operator of a rollout, of one image and with one noise, for any
    size, as a Description: see graph.describe for noise and input_channels.
    """
    if inputs is None:
        return graph.describe(module, noise=noise, input_channels=input_channels)
    if noise or input_channels:
        raise CaseError("noise, input_channels: of the operator of a rollout: want them without inputs")
    return described(module, inputs, kwargs)


def described(module: nn.Module, inputs: Sequence[Any], kwargs: Optional[Mapping[str, Any]] = None, draws: bool = False) -> Network:
    """A module as it is called with these inputs. With draws, what it draws at random are inputs after them, noise.draw0, ..."""
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    for name, m in module.named_modules():
        if not draws and m.training and "Dropout" in type(m).__name__ and getattr(m, "p", 1):
            raise UnsupportedLayer(f"{name or 'module'}: {type(m).__name__} in training mode: want module.eval()")
    _given(module, inputs, kwargs or {})
    try:
        with torch.no_grad(), running(module), composed.Written():
            state = _state(module)
            before = [vars(m)[k] for m, _, k, _ in state]
            returned = _returned(module, inputs, kwargs or {})  # first: a grid that it keeps is then of numbers
            changed = [s for s, v in zip(state, before) if vars(s[0]).get(s[2]) is not v]
            # torch prints the graph of a call that it does not follow
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), _buffered(changed):
                exported = _functional(torch.export.export(module, tuple(inputs), dict(kwargs or {}), strict=False))
    except Exception as e:
        want = "sizes and branches that do not depend on the numbers of a tensor" if isinstance(e, GuardOnDataDependentSymNode) else "a call that it follows"
        why = textwrap.shorten((str(e).strip() or "no reason given").splitlines()[0], 160, placeholder=" ...")
        raise UnsupportedLayer(f"{type(module).__name__}: torch.export cannot follow it ({type(e).__name__}: {why}): want {want}") from e
    net = _Converter(exported, returned, draws).convert(inputs, kwargs or {})._of(module)
    read = sorted({name for _, name, _, _ in changed} & set(net.weights))
    if read:
        raise UnsupportedLayer(f"{read[0]}: a tensor of {type(module).__name__} that a call reads and changes: want it as an input")
    return net


State = List[Tuple[nn.Module, str, str, torch.Tensor]]


def _state(module: nn.Module) -> State:
    """Tensors that are neither parameters nor buffers: each of which module, its whole name, its own, and a copy."""
    return [(m, f"{name}.{k}" if name else k, k, v.clone()) for name, m in module.named_modules() for k, v in vars(m).items() if isinstance(v, torch.Tensor)]


@contextlib.contextmanager
def _buffered(state: State) -> Iterator[None]:
    """Makes tensors that a call sets, as a hidden state, buffers, which torch.export wants, and then what they were."""
    for m, _, k, v in state:
        vars(m).pop(k)
        m.register_buffer(k, v.clone(), persistent=False)
    try:
        yield
    finally:
        for m, _, k, v in state:
            delattr(m, k)
            setattr(m, k, v)


@contextlib.contextmanager
def running(module: nn.Module) -> Iterator[None]:
    """Leaves a module its running statistics, which a call in training changes."""
    norms = [m for m in module.modules() if m.training and isinstance(m, nn.modules.batchnorm._BatchNorm)]
    kept = [dict(m._buffers) for m in norms]
    for m in norms:
        m._buffers.update({k: v.clone() for k, v in m._buffers.items() if v is not None})
    try:
        yield
    finally:
        for m, of in zip(norms, kept):
            m._buffers.update(of)


def _returned(module: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, torch.Tensor]:
    """What each call of a submodule returns, by its name, with @k for call number k > 0."""
    returned: Dict[str, torch.Tensor] = {}
    calls: Dict[str, int] = {}

    def hook(name: str) -> Any:
        def keep(_m: nn.Module, _args: Any, out: Any) -> None:
            k = calls.get(name, 0)
            calls[name] = k + 1
            while isinstance(out, (tuple, list)) and out:
                out = out[0]
            if isinstance(out, torch.Tensor):
                returned[f"{name}@{k}" if k else name] = out.detach().clone()

        return keep

    hooks = [m.register_forward_hook(hook(name)) for name, m in module.named_modules(remove_duplicate=False) if name]
    try:
        module(*inputs, **kwargs)
    finally:
        for h in hooks:
            h.remove()
    return returned


def _given(module: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses what torch.export has no reading of: TorchScript, and inputs that are objects of other classes."""
    scripts = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    for name, m in [("", module)] if isinstance(module, scripts) else module.named_modules():
        if isinstance(m, scripts):
            raise UnsupportedLayer(f"{name or type(m).__name__}: TorchScript: want the torch.nn.Module that it was made of; of e3nn, "
                                   "e3nn.set_optimization_defaults(jit_script_fx=False) before the model is made")
    known = (torch.Tensor, int, float, complex, bool, str, type(None), torch.dtype, torch.device)
    for name, value in [*((f"input {k}", v) for k, v in enumerate(inputs)), *kwargs.items()]:
        for leaf in pytree.tree_leaves(value):
            if not isinstance(leaf, known):
                raise UnsupportedLayer(f"{name}: an object of class {type(leaf).__name__}: want tensors and numbers, or lists, tuples and dicts of them")


# Operations that are taken as what torch says they consist of.
_COMPOSED = ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
             "threshold", "margin_ranking_loss", "hinge_embedding_loss", "pairwise_distance", "cosine_similarity", "cosine_embedding_loss",
             "triplet_margin_loss", "poisson_nll_loss", "roll", "rot90", "linalg_cross", "cross", "addr")


# Recurrent ones: cells, and layers, which are as many cells as the sequence is long.
_CELLS = ("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
_LAYERS = ("gru.input", "lstm.input", "rnn_tanh.input", "rnn_relu.input")


@lru_cache(maxsize=None)
def _torchs() -> Dict[Any, Any]:
    """What torch says that its operations consist of."""
    return {**torch.export.default_decompositions(), **torch._decomp.decomposition_table}


@lru_cache(maxsize=None)
def _table() -> Dict[Any, Any]:
    known = {f"aten.{name}.default" for name in (*_COMPOSED, *_CELLS)} | {f"aten.{name}" for name in _LAYERS}
    ways = {f: _shaped(way) if str(f).endswith(".input") else way for f, way in _torchs().items() if str(f) in known}
    return {**ways, **losses.DECOMPOSITIONS, **composed.DECOMPOSITIONS, **backwards.DECOMPOSITIONS}


def _shaped(way: Any) -> Any:
    """A recurrent layer, whose last states have the shape of those given: torch's own way leaves an axis of one too many."""

    def layer(x: Any, hx: Any, *args: Any) -> Any:
        y, *last = way(x, hx, *args)
        return (y, *(h.reshape(of.shape) for h, of in zip(last, hx if isinstance(hx, (list, tuple)) else [hx])))

    return layer


def _decompositions() -> Dict[Any, Any]:
    return dict(_table())  # torch.export takes out what it has used


def _functional(exported: Any) -> Any:
    """The program without operations that write to their inputs, or such as have no rule but what they consist of.

    torch's way there takes some apart that are functions of one number, and runs each once more, which not every
    one survives that export itself has followed. So a program of operations with rules is taken as it is.
    """
    if all(str(n.target) in aten.RULES or n.target is op.getitem for n in exported.graph.nodes if n.op == "call_function"):
        return exported
    try:
        known = {n.target for n in exported.graph.nodes if str(n.target) in aten.RULES}
        with _whole({f for f in known if "dropout" not in str(f)}):  # which is what it draws
            exported = exported.run_decompositions(_decompositions())
            for f in _missing(exported):
                exported = _apart(exported, f)
            return exported
    except TypeError:
        return exported


# How often what an operation consists of is taken apart again.
_DEEP = 4


def _missing(exported: Any) -> Dict[Any, None]:
    """The operations of a program that have no rule here, in their order."""
    calls = (n.target for n in exported.graph.nodes if n.op == "call_function" and n.target is not op.getitem)
    return {f: None for f in calls if str(f) not in aten.RULES and _short(str(f)).partition(".")[0] not in _MAKES}


def _apart(exported: Any, f: Any) -> Any:
    """The program with an operation as what torch says that it consists of, if there are rules for all of that."""
    before, tried = _missing(exported), exported
    for _ in range(_DEEP):
        ways = {g: _torchs().get(g) for g in _missing(tried) if g is f or g not in before}
        if not ways:
            return tried
        if None in ways.values() or any(aten.way_out(str(g)) for g in ways):
            break
        try:
            tried = tried.run_decompositions(ways)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError):  # torch's way does not fit the call
            break
    return exported


@contextlib.contextmanager
def _whole(functions: Set[Any]) -> Iterator[None]:
    """Keeps torch from taking functions apart whose way to gradients is written in others, for here there are no gradients.

    softshrink(x) is where(|x| > l, x - l sign(x), 0 x) there, of which every step is as right as the whole, but sign jumps.
    """
    key = torch._C.DispatchKey.Autograd
    kept = {f: f.py_kernels.pop(key) for f in functions if key in getattr(f, "py_kernels", {})}
    for f in kept:
        f._dispatch_cache.clear()
    try:
        yield
    finally:
        for f, kernel in kept.items():
            f.py_kernels[key] = kernel
            f._dispatch_cache.clear()


# Operations that only move numbers.
_MOVES = set("""view reshape expand permute transpose t unsqueeze squeeze select slice clone detach alias lift_fresh_copy
cat stack repeat flip roll contiguous flatten unflatten unbind split split_with_sizes chunk meshgrid movedim expand_as
view_as broadcast_to narrow index index_select tile view_as_real view_as_complex real imag complex""".split())


# Operations that make numbers of nothing but a shape.
_MAKES = set("""arange zeros ones full eye linspace scalar_tensor empty zeros_like ones_like full_like empty_like new_zeros
new_ones new_full new_empty empty_permuted fft_fftfreq fft_rfftfreq tril_indices triu_indices
_new_zeros_with_same_feature_meta""".split())


class _Converter:
    """Makes a Network of an exported program: see aten for the rules of operations."""

    def __init__(self, exported: Any, returned: Dict[str, torch.Tensor], draws: bool = False):
        self.exported, self.returned, self.draws = exported, returned, draws
        self.inputs: List[Dict[str, Any]] = []
        self.nodes: List[Dict[str, Any]] = []
        self.weights: Dict[str, torch.Tensor] = {}
        self.of: Dict[fx.Node, Value] = {}
        self.known: Dict[fx.Node, Optional[torch.Tensor]] = {}
        self.types: Dict[str, Tuple[List[int], torch.dtype]] = {}
        self.faults: List[str] = []
        self.taken: Dict[str, int] = {}
        self.complexes: Set[str] = set()  # values that are pairs
        self.at: Optional[fx.Node] = None  # the node whose rule is called

    # What rules call.

    @property
    def target(self) -> str:
        return str(self.at.target)

    def tensor(self, v: Any) -> bool:
        """Whether v stands for a tensor."""
        return isinstance(v, (str, torch.Tensor))

    def shape(self, v: Value) -> List[int]:
        return list(v.shape) if isinstance(v, torch.Tensor) else self.types[v][0]

    def dtype(self, v: Value) -> torch.dtype:
        return v.dtype if isinstance(v, torch.Tensor) else self.types[v][1]

    def is_complex(self, v: Any) -> bool:
        """Whether a value is pairs that stand for complex numbers."""
        return isinstance(v, str) and v in self.complexes or isinstance(v, torch.Tensor) and v.is_complex()

    def number(self, v: Any) -> Union[int, float]:
        if not isinstance(v, (bool, int, float)):
            raise aten.NoRule(f"{str(v)[:40]}: want a tensor or a number")
        return v if isinstance(v, int) and not isinstance(v, bool) else float(v)

    def as_tensor(self, v: Any, dtype: Optional[torch.dtype] = None) -> Value:
        """A number as a constant."""
        if self.tensor(v):
            return v
        like = self.result()
        return torch.tensor(v, dtype=dtype or (like.dtype if isinstance(like, torch.Tensor) else None))

    def cast(self, v: Value, dtype: Optional[torch.dtype]) -> Value:
        if dtype is None or dtype == self.dtype(v):
            return v
        if dtype not in _DTYPES:
            raise aten.NoRule(f"{dtype} numbers: want {', '.join(_DTYPES.values())}")
        if isinstance(v, torch.Tensor) and not v.dtype.is_floating_point:
            return v.to(dtype)
        return self.emit("cast", [v], {"dtype": _DTYPES[dtype]}, part="cast" if "to" not in self.target else None, types=[(self.shape(v), dtype)])

    def draw(self, shape: Sequence[int], dtype: torch.dtype) -> Value:
        """Random numbers, which are an input of the graph."""
        if not self.draws:
            raise aten.NoRule(aten.way_out(self.target))
        name = f"noise.draw{sum(i['name'].startswith('noise.draw') for i in self.inputs)}"
        self.inputs.append({"name": name, "dtype": _DTYPES[dtype], "shape": list(shape)})
        self.types[name] = list(shape), dtype
        return name

    def result(self) -> Any:
        """What torch.export says of the result: a tensor without numbers, or several."""
        return self.at.meta.get("val")

    def dtype_of_result(self) -> torch.dtype:
        return _type(self.result())[1]

    def result_shape(self) -> List[int]:
        """The shape of the result, of complex numbers that of the pairs."""
        return _type(self.result())[0]

    def placed(self, x: Value, indices: Sequence[Any]) -> Tuple[List[Value], Dict[str, Any]]:
        """The inputs of index and index_put, where indices stand for the first axes."""
        of = list(indices)
        while of and of[-1] is None:
            of.pop()
        if any(i is None for i in of):
            if "put" in self.target or sum(i is not None for i in of) != 1:
                raise aten.NoRule("a slice before an index: want x.transpose, or index_select")
            axis = next(k for k, i in enumerate(of) if i is not None)
            return self._along(x, of[axis], axis)
        if any(self.dtype(i) in (torch.bool, torch.uint8) for i in of):
            raise aten.NoRule("a mask as an index, whose result's size depends on numbers: want torch.where")
        return [x, *of], {}

    def _along(self, x: Value, index: Value, axis: int) -> Any:
        raise _Instead(self.emit("index_select", [x, index], {"dim": axis, "from_end": True}))

    def emit(self, name: str, inputs: Sequence[Value], attributes: Mapping[str, Any], outputs: int = 1, part: Optional[str] = None,
             types: Optional[List[Tuple[List[int], torch.dtype]]] = None) -> Value:
        """Adds a node and returns its output, or outputs. A part is a step on the way to the result
        of the call, and has a name after it; its shape and type follow from torch's own operation."""
        if types is None:
            val = self.result()
            vals = [val] if isinstance(val, torch.Tensor) else [v for v in val[:outputs]]
            types = [_type(v) for v in vals]
            if part is not None:
                types = [self._part(name, inputs, attributes)]
        key = self._name(part)
        node: Dict[str, Any] = {"op": name, "name": key, "in": [self._place(v) for v in inputs]}
        attributes = {k: _plain(v) for k, v in attributes.items()}
        if attributes:
            node["attributes"] = attributes
        if outputs > 1:
            node["outputs"] = outputs
        self.nodes.append(node)
        names = [key] + [f"{key}:{k}" for k in range(1, outputs)]
        made = pytree.tree_leaves(self.result()) if part is None else []
        for k, (n, t) in enumerate(zip(names, types)):
            self.types[n] = t
            if k < len(made) and isinstance(made[k], torch.Tensor) and made[k].is_complex():
                self.complexes.add(n)
        return names[0] if outputs == 1 else tuple(names)

    # The rest.

    def _part(self, name: str, inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Tuple[List[int], torch.dtype]:
        """Shape and type of a step, for the operations that rules make steps of."""
        x = inputs[0]
        shape, dtype = self.shape(x), self.dtype(x)
        if name == "slice":
            d = attributes["dim"][0]
            shape = [attributes["end"][0] - attributes["start"][0] if i == d % len(shape) else n for i, n in enumerate(shape)]
        elif name in ("reshape", "expand"):
            shape = list(attributes.get("shape", attributes.get("size")))
        elif len(inputs) > 1:
            shape = list(torch.broadcast_shapes(*[tuple(self.shape(v)) for v in inputs]))
        return shape, dtype

    def _place(self, v: Value) -> str:
        """The name of a value in the graph; a constant becomes one of the weights."""
        if isinstance(v, str):
            return v
        if not isinstance(v, torch.Tensor):
            raise aten.NoRule("an input that is no tensor")
        if v.is_complex():
            v = torch.view_as_real(v.resolve_conj()).contiguous()
        if v.dtype not in _DTYPES:
            raise aten.NoRule(f"{v.dtype} numbers: want {', '.join(_DTYPES.values())}")
        for name, w in self.weights.items():
            if w is v:
                return name
        name = self._unique(f"{self.at.name}.constant")
        self.weights[name] = v
        self.types[name] = (list(v.shape), v.dtype)
        return name

    def _unique(self, name: str) -> str:
        n = self.taken.get(name, -1) + 1
        self.taken[name] = n
        return name if n == 0 else self._unique(f"{name}.{n}")

    def _owner(self, n: fx.Node) -> str:
        """The module in which a node is, with @k for its call number k > 0; "" for the outermost one."""
        stack = list((n.meta.get("nn_module_stack") or {}).items())
        if not stack:
            return ""
        key, of = stack[-1]
        path = of[0] if isinstance(of, tuple) else str(of)
        return path + key[key.rindex("@"):] if "@" in key and path else path

    def _name(self, part: Optional[str]) -> str:
        owner = self._owner(self.at)
        name = f"{owner}.{self.at.name}" if owner else self.at.name
        return self._unique(f"{name}.{part}" if part else name)

    def convert(self, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Network:
        specs = {s.arg.name: s for s in self.exported.graph_signature.input_specs}
        for n in self.exported.graph.nodes:
            self.at = n
            if n.op == "placeholder":
                self._placeholder(n, specs[n.name])
            elif n.op == "call_function":
                self._call(n)
            elif n.op == "output":
                outputs = self._outputs(n)
            else:
                self.faults.append(f"{n.name}: {n.op}: want a module that torch.export makes one graph of")
        if self.faults:
            raise Unsupported(self.faults)
        net = Network(self.inputs, self.nodes, outputs, self.weights)
        _Names(self, net).give(inputs, kwargs)
        self._prune(net)
        return net

    def _placeholder(self, n: fx.Node, spec: Any) -> None:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            val = n.meta.get("val")
            if not isinstance(val, torch.Tensor):
                self.of[n] = val
                return
            dtype = torch.float32 if val.dtype in NARROW else val.dtype
            if dtype not in _DTYPES:
                self.faults.append(f"input {n.name}: {dtype} numbers: want {', '.join(_DTYPES.values())}")
            name = self._unique(n.name)
            self.inputs.append({"name": name, "dtype": _DTYPES.get(dtype, "?"), "shape": [int(d) for d in val.shape]})
            self.of[n], self.types[name] = name, ([int(d) for d in val.shape], dtype)
            return
        t = self.exported.constants.get(spec.target) if kind == "CONSTANT_TENSOR" or spec.target not in self.exported.state_dict else None
        t = self.exported.state_dict[spec.target] if t is None else t
        t = t.detach()
        if kind == "CONSTANT_TENSOR" or not (t.dtype.is_floating_point or t.is_complex()):
            self.of[n] = t
            return
        name = self._unique(spec.target)
        if t.is_complex():
            self.complexes.add(name)
            t = torch.view_as_real(t).contiguous()
        self.weights[name] = t
        self.of[n], self.types[name] = name, (list(t.shape), t.dtype)

    def _call(self, n: fx.Node) -> None:
        if n.target is op.getitem:
            of = self.of.get(n.args[0])
            self.of[n] = of[n.args[1]] if isinstance(of, tuple) and n.args[1] < len(of) else None
            return
        sizes = isinstance(n.meta.get("val"), (torch.SymInt, torch.SymBool))
        if sizes or any(a in self.of and self.of[a] is None for a in n.all_input_nodes):
            self.of[n] = None  # follows from something that is listed, and whose size depends on numbers
            return
        try:
            folded = self._fold(n)
            self.of[n] = self._rule(n) if folded is None else folded
        except _Instead as i:
            self.of[n] = i.value
        except (aten.NoRule, GuardOnDataDependentSymNode) as e:
            if isinstance(e, GuardOnDataDependentSymNode):
                e = aten.NoRule("a size that depends on numbers: want a mask and where")
            self.of[n] = self._missing(n.meta.get("val"))
            self.faults.append(f"{self._owner(n) or n.name}: {_short(self.target)}: {e}")

    def _missing(self, val: Any) -> Value:
        """What stands for the result of an operation that is listed, so that what follows is asked for too."""
        if isinstance(val, (list, tuple)):
            return tuple(self._missing(v) for v in val)
        if not isinstance(val, torch.Tensor) or any(not isinstance(d, int) for d in val.shape):
            return None
        name = self._unique(f"{self.at.name}.missing")
        self.types[name] = _type(val)
        if val.is_complex():
            self.complexes.add(name)
        return name

    def _rule(self, n: fx.Node) -> Value:
        f = aten.RULES.get(self.target)
        if f is None:
            raise aten.NoRule(aten.way_out(self.target) or "not among refrun's operations: want it written with those of `go doc github.com/refrun/refrun/graph`")
        for v in [n.meta.get("val"), *(a.meta.get("val") for a in n.all_input_nodes)]:
            if isinstance(v, torch.Tensor) and v.dtype in _COMPLEX and self.target not in pairs.COMPLEX:
                raise aten.NoRule("complex numbers: want torch.view_as_real around real arithmetic")
        return f(self, self._arguments(n))

    def _arguments(self, n: fx.Node) -> Dict[str, Any]:
        def value(v: Any) -> Any:
            if isinstance(v, fx.Node):
                return self.of.get(v)
            if isinstance(v, (list, tuple)):
                return [value(x) for x in v]
            return v

        a: Dict[str, Any] = {}
        for k, arg in enumerate(n.target._schema.arguments):
            given = n.args[k] if k < len(n.args) and not arg.kwarg_only else n.kwargs.get(arg.name, arg.default_value)
            a[arg.name] = value(given)
        return a

    def _known(self, n: fx.Node) -> Optional[torch.Tensor]:
        """What torch finds for a node that depends on constants alone; None for another one."""
        v = self.of.get(n)
        if isinstance(v, torch.Tensor):
            return v
        if n not in self.known:
            self.known[n] = None
            of = {a: self._known(a) for a in n.all_input_nodes}
            if of and n.op == "call_function" and n.target is not op.getitem and not any(t is None for t in of.values()):
                args, kwargs = fx.node.map_arg((n.args, n.kwargs), of.get)
                made = n.target(*args, **{k: v for k, v in kwargs.items() if k != "device"})
                self.known[n] = made if isinstance(made, torch.Tensor) else None
        return self.known[n]

    def _fold(self, n: fx.Node) -> Optional[torch.Tensor]:
        """The result of a call that computes nothing which rounds from constants: what has no
        tensor for an input but its shape, and whole numbers and moves of constants. Whole numbers
        of rounded constants, such as the bins of T5's distances, are those that torch finds."""
        val = n.meta.get("val")
        several = isinstance(val, (list, tuple)) and bool(val)
        if not (isinstance(val, torch.Tensor) or several and all(isinstance(v, torch.Tensor) for v in val)):
            return None
        whole = not several and not val.dtype.is_floating_point and val.dtype not in _COMPLEX
        of = [self._known(a) if whole else self.of.get(a) for a in n.all_input_nodes]
        name = self.target.split(".")[1]
        if name in _MAKES and not several:
            if name.endswith(("_like", "_meta")) or name.startswith("new_"):
                fill = {"zeros": 0, "empty": 0, "ones": 1, "_zeros_with_same_feature_meta": 0}.get(name.replace("_like", "").replace("new_", ""))
                fill = n.args[-1] if fill is None else fill
                return torch.full([int(d) for d in val.shape], fill, dtype=val.dtype)
            return n.target(*n.args, **{k: v for k, v in n.kwargs.items() if k not in ("device", "pin_memory", "layout")})
        if of and all(isinstance(v, torch.Tensor) for v in of) and (name in _MOVES or whole):
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), dict(zip(n.all_input_nodes, of)).get)
            made = n.target(*args, **{k: v for k, v in kwargs.items() if k != "device"})
            return tuple(made) if several else made
        return None

    def _outputs(self, n: fx.Node) -> List[str]:
        names: List[str] = []
        specs = self.exported.graph_signature.output_specs
        for spec, arg in zip(specs, n.args[0]):
            if spec.kind.name != "USER_OUTPUT" or not isinstance(arg, fx.Node):
                continue
            v = self.of.get(arg)
            if v is None and not self.faults:
                self.faults.append(f"output {len(names)}: no tensor: want a module that returns tensors")
            elif v is not None:
                names.append(self._output(v, names))
        if not names and not self.faults:
            self.faults.append("output: none: want a module that returns a tensor")
        return names

    def _output(self, v: Value, returned: Sequence[str]) -> str:
        """A node's own value: an input, a constant, or what is returned before is handed on."""
        made = {f"{x['name']}:{k}" if k else x["name"] for x in self.nodes for k in range(x.get("outputs", 1))}
        if isinstance(v, str) and v in made and v not in returned:
            return v
        name, shape = self._unique("output"), self.shape(v)
        self.nodes.append({"op": "reshape", "name": name, "in": [self._place(v)], "attributes": {"shape": shape, "allowzero": True}})
        self.types[name] = (shape, self.dtype(v))
        return name

    def _prune(self, net: Network) -> None:
        """Drops nodes and weights that no output needs."""
        need = {o.split(":")[0] if o not in self.types or ":" in o else o for o in net.outputs}
        kept: List[Dict[str, Any]] = []
        for node in reversed(net.nodes):
            if node["name"] in need or any(f"{node['name']}:{k}" in need for k in range(1, node.get("outputs", 1))):
                kept.append(node)
                need.update(i for i in node["in"])
                need.update(i.split(":")[0] for i in node["in"])
        net.nodes[:] = kept[::-1]
        for name in [w for w in net.weights if w not in need]:
            del net.weights[name]


class _Instead(Exception):
    """A rule's result that is made by another operation than the rule began with."""

    def __init__(self, value: Value):
        self.value = value


class _Names:
    """Gives nodes the names of modules: of a module's call, the node whose value the call returned.

    That is not always its last node. So the module has been run once, and the exported program is run beside
    it, and numbers are compared: of all nodes in the call the one that is nearest to what it
    returned, and of equal ones the last.
    """

    def __init__(self, converter: _Converter, net: Network):
        self.c, self.net = converter, net
        self.nearest: Dict[str, Tuple[float, str]] = {}  # of a call: how far, and which value

    def give(self, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with torch.no_grad():
            self._run(pytree.tree_leaves((tuple(inputs), dict(kwargs))))
        self._rename()

    def _run(self, given: List[Any]) -> None:
        """Runs the exported program node by node."""
        c, left = self.c, iter(given)
        specs = {s.arg.name: s for s in c.exported.graph_signature.input_specs}
        env: Dict[fx.Node, Any] = {}
        last = {a: n for n in c.exported.graph.nodes for a in n.all_input_nodes}
        for n in c.exported.graph.nodes:
            if n.op == "placeholder":
                target = specs[n.name].target
                if specs[n.name].kind.name == "USER_INPUT":
                    env[n] = next(left)
                else:
                    env[n] = c.exported.state_dict[target] if target in c.exported.state_dict else c.exported.constants[target]
            elif n.op == "call_function":
                args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda a: env[a])
                env[n] = n.target(*args, **kwargs)
                self._compare(n, env[n])
            for a in n.all_input_nodes:
                if last[a] is n:
                    env.pop(a, None)

    def _compare(self, n: fx.Node, t: Any) -> None:
        value = self.c.of.get(n)
        if not isinstance(t, torch.Tensor) or not isinstance(value, str) or t.is_complex():
            return
        for key, of in (n.meta.get("nn_module_stack") or {}).items():
            path = of[0] if isinstance(of, tuple) else str(of)
            call = path + key[key.rindex("@"):] if "@" in key and path else path
            want = self.c.returned.get(call)
            if want is None or want.shape != t.shape or want.dtype != t.dtype:
                continue
            far = _distance(t, want)
            if far <= self.nearest.get(call, (1e-3, ""))[0]:
                self.nearest[call] = (far, value)

    def _rename(self) -> None:
        of: Dict[str, List[str]] = {}
        for call, (_, value) in self.nearest.items():
            of.setdefault(value, []).append(call)
        names = {i["name"] for i in self.net.inputs} | set(self.net.weights)
        new: Dict[str, str] = {}
        for node in self.net.nodes:  # the innermost module first
            calls = sorted((x for x in of.get(node["name"], []) if x not in names), key=lambda x: (-x.count("."), -len(x)))
            if calls:
                new[node["name"]] = calls[0]
                names.update(calls)
                if calls[1:]:
                    node["also"] = calls[1:]
        for node in self.net.nodes:
            old = node["name"]
            if old not in new:
                name, k = old, 0
                while name in names:
                    name, k = f"{old}_{k + 1}", k + 1
                new[old] = name
                names.add(name)
            for k in range(1, node.get("outputs", 1)):
                new[f"{old}:{k}"] = f"{new[old]}:{k}"
        for node in self.net.nodes:
            node["name"] = new[node["name"]]
            node["in"] = [new.get(i, i) for i in node["in"]]
        self.net.outputs[:] = [new.get(o, o) for o in self.net.outputs]


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The distance of two tensors, of the second one's size."""
    if torch.equal(a, b):
        return 0.0
    a, b = a.double().nan_to_num(), b.double().nan_to_num()
    return float((a - b).norm() / b.norm().clamp_min(1e-300))


def _type(t: torch.Tensor) -> Tuple[List[int], torch.dtype]:
    """Shape and type of a value, of which complex numbers are pairs."""
    shape = [int(d) for d in t.shape]
    if t.dtype in _COMPLEX:
        return [*shape, 2], {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}[t.dtype]
    return shape, torch.float32 if t.dtype in NARROW else t.dtype


def _plain(v: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(v, (list, tuple, torch.Size)):
        return [_plain(x) for x in v]
    if isinstance(v, torch.SymInt):
        return int(v)
    return v


def _short(target: str) -> str:
    return target[len("aten."):] if target.startswith("aten.") else target
