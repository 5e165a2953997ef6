"""Kernels that factor matrices, and that solve with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

# The tensors of an operation, in the order in which it is given them, and the attributes that say what it computes.
_OPERATIONS: Dict[str, Tuple[Sequence[str], Sequence[str]]] = {
    "cholesky": (("input",), ("upper",)),
    "solve_triangular": (("input", "B"), ("upper", "left", "unitriangular")),
    "triangular_solve": (("b", "A"), ("upper", "transpose", "unitriangular")),
    "solve": (("A", "B"), ("left",)),
    "inv": (("A",), ()),
    "qr": (("A",), ("mode",)),
    "eigh": (("A",), ("UPLO",)),
    "eigvalsh": (("A",), ("UPLO",)),
    "svd": (("A",), ("full_matrices",)),
    "svdvals": (("A",), ()),
    "lu": (("A",), ("pivot",)),
    "lu_factor": (("A",), ("pivot",)),
    "lu_solve": (("LU", "pivots", "B"), ("left", "adjoint")),
    "cholesky_solve": (("B", "L"), ("upper",)),
    "det": (("A",), ()),
    "slogdet": (("A",), ()),
    "logdet": (("A",), ()),
    "pinv": (("A",), ("atol", "rtol")),
    "lstsq": (("A", "B"), ("rcond",)),
}
_ALIASES = {"inverse": "inv", "inv_ex": "inv", "solve_ex": "solve", "cholesky_ex": "cholesky", "lu_factor_ex": "lu_factor"}
_HALVES = ("float16", "bfloat16")


def plain(op: str) -> str:
    """An operation's name without linalg_ and _ex, or "" if it is none of these."""
    op = op[len("linalg_"):] if op.startswith("linalg_") else op
    op = _ALIASES.get(op, op)
    return op if op in _OPERATIONS else ""


def names(op: str) -> Sequence[str]:
    """Those of its tensors."""
    return ("B", "LU", "pivots") if op == "lu_solve" else _OPERATIONS[plain(op)][0]  # torch.lu_solve's, not torch.linalg's


def outputs(op: str, output: Any, attributes: Mapping[str, Any]) -> Any:
    """What it returns, without what says nothing of numbers, such as an info."""
    if isinstance(output, Mapping) or not isinstance(output, (tuple, list)):
        return output
    given: List[Any] = list(output)
    if plain(op) == "qr" and attributes.get("mode") == "r":
        return given[-1]
    if plain(op) in ("cholesky", "triangular_solve", "inv", "solve", "lstsq"):
        return given[0]
    if plain(op) == "lu" and not attributes.get("pivot", True):
        return given[-2:]
    if plain(op) == "lu_factor":
        return given[:2]
    return given


class Other(Exception):
    """Ends a function that calls anything else."""


@dataclass
class Call:
    """What a function calls, and what that returned."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    out: Any = None


def called(op: Any, given: Sequence[Any]) -> Optional[Tuple[str, Sequence[Any], Dict[str, Any]]]:
    """The one operation of these that a function calls, by torch's name, with tensors that it was given, their order, and its attributes; None
    of any other function."""
    import torch
    from torch.overrides import TorchFunctionMode

    seen: List[Call] = []

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            call = Call(getattr(func, "__name__", ""), args, kwargs or {})
            seen.append(call)
            if len(seen) > 1 or not plain(call.name):
                raise Other
            call.out = func(*args, **(kwargs or {}))
            return call.out

    from .kernel import _torch

    wide = [_torch(v) for v in given]
    wide = [t.float() if str(t.dtype)[6:] in _HALVES else t for t in wide]  # which torch does not factor
    returned = None
    try:
        with torch.no_grad(), Calls():
            returned = op(*wide)
    except Exception:  # of a matrix that has no factor, of another function, or its own
        pass
    if len(seen) != 1 or not plain(seen[0].name) or returned is not seen[0].out:
        return None
    return _bound(plain(seen[0].name), seen[0], wide, given)


def _bound(op: str, call: Call, wide: Sequence[Any], given: Sequence[Any]) -> Optional[Tuple[str, Sequence[Any], Dict[str, Any]]]:
    """The tensors of a call, which are among those that were given, in their order, and its attributes."""
    tensors, attributes = names(call.name), _OPERATIONS[op][1]
    order = [*tensors, *(a for a in attributes if op not in ("solve_triangular", "solve", "pinv"))]
    bound = dict(zip(order, call.args))
    for name, value in call.kwargs.items():
        given_as = {"input": tensors[0], "self": tensors[0], "other": tensors[-1], "input2": "L", "LU_data": "LU", "LU_pivots": "pivots", "b": "B"}
        bound[name if name in tensors else given_as.get(name, name)] = value
    left = {k: v for k, v in bound.items() if k not in tensors and k not in ("out", "check_errors", "driver") and (v or k != "hermitian")}
    if not set(tensors) <= set(bound) or not set(left) <= set(attributes):
        return None
    found = []
    for name in tensors:
        where = [k for k, t in enumerate(wide) if t is bound[name]]
        if not where:
            return None
        found.append(given[where[0]])
    return call.name, found, left
