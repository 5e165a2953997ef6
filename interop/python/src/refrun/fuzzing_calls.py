"""Calls of a kernel that show what one call of it cannot."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .case import CaseError
from .fuzzing_inputs import Memory, bits

# What a search names beside the judge's own faults: its `fault_id`, what it is and what to do.
FAULTS = {
    "kernel.cached": (
        "returns its answer for what was in this memory, or of this shape, before",
        "compute the answer in each call",
    ),
    "kernel.silent-again": ("writes nothing in the second call", "write the output in each call"),
    "kernel.changes-again": (
        "the same inputs give another answer in another call, and one is wrong",
        "look for what a call leaves behind, and for races",
    ),
    "kernel.writes-input": ("writes its input", "write to the output alone"),
    "kernel.writes-outside": ("writes beside its tensors", "check the mask of the last, partial tile"),
    "kernel.overwritten": (
        "a later call changes the answer that an earlier one has returned",
        "return memory of its own in each call",
    ),
    "kernel.contiguous-only": ("is right only for contiguous inputs", "use the strides, or call contiguous()"),
    "kernel.reads-outside": (
        "what lies beside its inputs in memory changes the answer",
        "check the masks of the loads, and what stands for what they leave out",
    ),
    "kernel.unwritten": (
        "a part of the output is not written",
        "check the grid, and the mask of the last, partial tile",
    ),
    "kernel.shape": ("the output has another shape than that of the operation", "return the operation's shape"),
}
_NAN = {
    1: 0x7F,
    2: 0x7FEA,
    4: 0x7FC0BEEF,
    8: 0x7FF8DEADBEEF0BAD,
}  # by the bytes of a number: no NaN that arithmetic makes
_NUMBER = -77


class Raised(Exception):
    """The kernel raised an exception."""


class Call(NamedTuple):
    """What a call returned: copies of what was in the tensors, and those tensors that are no memory of the caller."""

    answers: List[Optional[torch.Tensor]]
    kept: List[Optional[torch.Tensor]]
    names: Optional[List[str]]
    poison: str  # with what the memory was filled that it had to write: "nan", "number", or "" if with nothing

    def same(self, other: "Call") -> bool:
        return len(self.answers) == len(other.answers) and all(equal(a, b) for a, b in zip(self.answers, other.answers))

    def moved(self) -> bool:
        """Whether there is something else now in what was returned."""
        return not all(equal(a, None if k is None else k.detach().cpu()) for a, k in zip(self.answers, self.kept))

    def poisoned(self) -> bool:
        """Whether nothing was written over a number of an output, where it was filled."""
        return bool(self.poison) and any(
            a is not None and a.dtype != torch.bool and bool((bits(a) == bits(filled(a.clone(), self.poison))).any())
            for a in self.answers
        )

    def now(self) -> "Call":
        """What is in the tensors now that were returned."""
        return self._replace(answers=[None if k is None else k.detach().cpu().clone() for k in self.kept])

    def zeros(self) -> bool:
        return not any(a is not None and bool(a.count_nonzero()) for a in self.answers)

    def output(self) -> Any:
        """The output as check_kernel takes it."""
        if self.names is not None:
            return dict(zip(self.names, self.answers))
        return self.answers if len(self.answers) > 1 else self.answers[0]


def equal(a: Optional[torch.Tensor], b: Optional[torch.Tensor]) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(bits(a), bits(b)))


class _Poisoned(TorchDispatchMode):
    """Fills memory that a kernel asks for with poison, so that what it does not write is seen."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in (
            "empty",
            "empty_like",
            "empty_strided",
            "new_empty",
            "new_empty_strided",
        ) and isinstance(made, torch.Tensor):
            filled(made, "nan")
        return made


def filled(x: torch.Tensor, poison: str) -> torch.Tensor:
    if poison == "nan" and not x.dtype.is_complex and x.dtype != torch.bool:
        bits(x, in_place=True).fill_(_NAN[x.element_size()])
        return x
    return x.fill_(_NUMBER)


def call(kernel: Callable[..., Any], memory: Sequence[Memory], outs: Sequence[Memory], again: bool = False) -> Call:
    """One call. The memory of out is filled with NaN before, and in a call again with a number. In a call again the
    memory that the kernel asks for itself is filled with NaN."""
    poison = "number" if again and outs else "nan" if again or outs else ""
    for o in outs:
        o.write(filled(torch.empty(o.shape, dtype=o.view.dtype), poison))
    extra = {"out": outs[0].view if len(outs) == 1 else [o.view for o in outs]} if outs else {}
    try:
        with _Poisoned() if again and not outs else contextlib.nullcontext():
            got = kernel(*(m.view for m in memory), **extra)
    except Exception as e:  # whatever it is, the kernel says that it does not take these inputs
        raise Raised(f"{type(e).__name__}: {e}".splitlines()[0][:100]) from e
    if outs:
        got = [o.view for o in outs]
    kept = list(got.values()) if isinstance(got, Mapping) else list(got) if isinstance(got, (list, tuple)) else [got]
    if not all(k is None or isinstance(k, torch.Tensor) for k in kept):
        raise CaseError(f"the kernel returned {type(got).__name__}: want a torch tensor, or several")
    answers = [None if k is None else k.detach().cpu().clone() for k in kept]
    given = {m.all.untyped_storage().data_ptr() for m in [*memory, *outs]}
    own = [a if k is None or k.untyped_storage().data_ptr() in given else k for a, k in zip(answers, kept)]
    return Call(answers, own, list(got) if isinstance(got, Mapping) else None, poison)
