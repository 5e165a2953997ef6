"""A search: what it calls, asks and finds."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np
import torch

from .batch import Batch
from .case import Raw, write_safetensors
from .fuzzing_calls import Call, Raised, call
from .fuzzing_inputs import DTYPES, VALUES, Group, Memory, Room, Spec, values
from .graph import UnsupportedLayer
from .kernel import _flags, _names, _outputs, _tensor, _traced


class Failure(NamedTuple):
    """Inputs on which a kernel is wrong, and what refrun is asked about them."""

    group: Group
    fault_id: str  # of FAULTS, or the judge's; "" if it is none that is known
    tensors: Mapping[str, Raw]
    question: Sequence[str]


class NoSize(Exception):
    """The function that says what is right refuses these sizes itself, such as the greatest of no numbers."""


class Covered:
    """What a search has tried."""

    def __init__(self) -> None:
        self.groups: List[Group] = []
        self.verdicts: Counter[str] = Counter()
        self.raised: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.blind: Optional[Set[str]] = None

    def judged(self, report: Mapping[str, Any]) -> None:
        self.verdicts[report["verdict"]] += 1
        if report["verdict"] == "PASS":
            shown = set(report.get("blind") or ())
            self.blind = shown if self.blind is None else self.blind & shown

    def data(self) -> Dict[str, Any]:
        dims = {d: sorted({g.sizes[d] for g in self.groups}) for d in (self.groups[0].sizes if self.groups else ())}
        return {
            "sizes": dims,
            "dtypes": dict(Counter(g.dtype for g in self.groups)),
            "layouts": dict(Counter(g.layout for g in self.groups)),
            "values": dict(Counter(k for g in self.groups for k in g.kinds)),
            "verdicts": dict(self.verdicts),
            "raised": dict(self.raised),
            "refused": dict(self.refused),
            "blind": sorted(self.blind or ()),
        }


class Search:
    """A kernel, what it should compute, and the process that judges."""

    def __init__(
        self,
        kernel: Callable[..., Any],
        op: Union[str, Callable[..., Any]],
        specs: Sequence[Spec],
        outs: Sequence[Spec],
        device: Any,
        flags: Sequence[str],
        attributes: Mapping[str, Any],
        batch: Batch,
        folder: Path,
        seconds: float,
    ):
        self.kernel, self.op, self.specs, self.outs, self.device = kernel, op, specs, outs, device
        self.flags, self.attributes, self.batch, self.folder = flags, attributes, batch, folder
        self.covered, self.room, self.until = Covered(), Room(seconds), time.monotonic() + seconds

    def late(self) -> bool:
        return time.monotonic() > self.until

    def numbers(self, g: Group, kind: str) -> List[torch.Tensor]:
        r = np.random.default_rng([g.seed, VALUES.index(kind), *g.sizes.values()])
        return [values(s, g.sizes, kind, g.dtype, r) for s in self.specs]

    def memory(self, g: Group) -> List[Memory]:
        return [Memory(x.shape, x.dtype, g.layout, self.device) for x in self.numbers(g, g.kinds[0])]

    def out(self, g: Group) -> List[Memory]:
        return [Memory(s.shape(g.sizes), DTYPES[g.dtype], "contiguous", self.device) for s in self.outs]

    def question(self, g: Group) -> Tuple[List[str], List[str]]:
        """The names of the inputs, and the flags of a question about this group."""
        if isinstance(self.op, str):
            attributes = {name: _sized(value, g.sizes) for name, value in self.attributes.items()}
            return list(_names(self.op, len(self.specs))), ["--op", self.op, *self.flags, *_flags(attributes)]
        inputs = self.numbers(g, g.kinds[0])
        try:
            net, feed = _traced(self.op, inputs, {})
        except UnsupportedLayer:
            try:
                self.op(*inputs)
            except Exception as e:
                raise NoSize(str(e)) from e
            raise
        path = net.save(self.folder / f"group{len(self.covered.groups)}.json")
        return list(feed), ["--graph", str(path), *self.flags]

    def ask(self, tensors: Mapping[str, Raw], question: Sequence[str]) -> Dict[str, Any]:
        path = self.folder / "question.safetensors"
        write_safetensors(path, tensors)
        return self.batch.ask(str(path), *question)

    def run(self, g: Group) -> Iterator[Failure]:
        """All that is wrong in a group, one after another."""
        try:
            names, question = self.question(g)
        except NoSize as e:
            self.covered.refused[str(e)] += 1
            return
        self.covered.groups.append(g)
        memory: List[Memory] = self.memory(g)
        earlier: List[Tuple[Call, Mapping[str, Raw]]] = []
        for k, kind in enumerate(g.kinds):
            if k and self.late():
                return
            for m, x in zip(memory, self.numbers(g, kind)):
                m.write(x)
            try:
                yield from self._twice(g._replace(kinds=g.kinds[: k + 1]), memory, earlier, names, question)
            except Raised as e:
                self.covered.raised[str(e)] += 1

    def _twice(
        self,
        g: Group,
        memory: List[Memory],
        earlier: List[Tuple[Call, Mapping[str, Raw]]],
        names: List[str],
        question: List[str],
    ) -> Iterator[Failure]:
        """Calls the kernel with what is in memory, and again."""
        given, outs = {n: _tensor(m.given, n) for n, m in zip(names, memory)}, self.out(g)
        began = time.monotonic()
        first = call(self.kernel, memory, outs)
        took = time.monotonic() - began
        yield from self._writes(g, memory, outs)
        wrong = self._wrong(given, first, question)
        if wrong is not None:
            yield Failure(
                g,
                self._cause(wrong, g, memory, first, earlier, given, question),
                {**given, **_outputs(first.output())},
                question,
            )
            return
        for before, inputs in earlier:
            if before.moved() and self._wrong(inputs, before.now(), question) is not None:
                yield Failure(g, "kernel.overwritten", {**inputs, **_outputs(before.now().output())}, question)
        began = time.monotonic()
        again = call(self.kernel, memory, outs, again=True)
        self.room.took(min(took, time.monotonic() - began), max(m.view.numel() for m in memory))
        yield from self._writes(g, memory, outs)
        if not again.same(first) and self._wrong(given, again, question) is not None:
            silent = again.poisoned() or again.zeros()
            yield Failure(
                g,
                "kernel.silent-again" if silent else "kernel.changes-again",
                {**given, **_outputs(again.output())},
                question,
            )
        earlier.append((first, given))

    def _writes(self, g: Group, memory: Sequence[Memory], outs: Sequence[Memory]) -> Iterator[Failure]:
        """What was written that is no output, as a question that refrun answers: is it what it was?"""
        for m in [*memory, *outs]:
            where = m.changed()
            if where == "outside" or where == "inside" and m not in outs:
                before, after = (
                    x.cpu().float() for x in ((m.given, m.view) if where == "inside" else (m.before, m.all))
                )
                yield Failure(
                    g,
                    f"kernel.writes-{'input' if where == 'inside' else 'outside'}",
                    {"input": _tensor(before, "input"), "output": _tensor(after, "output")},
                    ["--op", "identity"],
                )
                return

    def _wrong(self, given: Mapping[str, Raw], got: Call, question: Sequence[str]) -> Optional[str]:
        """None of an answer that is right, or of which nothing can be told; else the fault's ID, "" of no known."""
        try:
            report = self.ask({**given, **_outputs(got.output())}, question)
        except ValueError as e:
            if "output" in str(e) and "shape" in str(e):
                return "kernel.shape"
            self.covered.refused[str(e)] += 1
            return None
        self.covered.judged(report)
        if report["verdict"] != "FAIL":
            return None
        return str(report.get("fault_id", ""))

    def _cause(
        self,
        wrong: str,
        g: Group,
        memory: Sequence[Memory],
        got: Call,
        earlier: Sequence[Tuple[Call, Mapping[str, Raw]]],
        given: Mapping[str, Raw],
        question: Sequence[str],
    ) -> str:
        """What a wrong answer depends on that it should not, which calls tell in which that alone is another; or what
        the judge says that is wrong."""
        if wrong == "kernel.shape":
            return wrong
        if got.poisoned():
            return "kernel.unwritten"
        if any(got.same(e) for e, _ in earlier):
            return "kernel.cached"
        again = self._another(g, memory)
        if again is not None and self._wrong(given, again, question) is None:
            return "kernel.changes-again"
        for fault_id, layout in (("kernel.cached", g.layout), ("kernel.contiguous-only", "contiguous")):
            other = self._another(g, self._copy(memory, layout))
            if other is not None and self._wrong(given, other, question) is None:
                return fault_id
        other = self._another(g, self._copy(memory, g.layout, poison=1))
        if other is not None and again is not None and again.same(got) and not other.same(got):
            return "kernel.reads-outside"
        return "kernel.unwritten" if again is not None and again.poisoned() else wrong

    def _another(self, g: Group, memory: Sequence[Memory]) -> Optional[Call]:
        """One more call; None if it raises an exception."""
        try:
            return call(self.kernel, memory, self.out(g), again=True)
        except Raised:
            return None

    def _copy(self, memory: Sequence[Memory], layout: str, poison: float = float("nan")) -> List[Memory]:
        """The same inputs elsewhere."""
        copies = [Memory(m.shape, m.view.dtype, layout, self.device, poison) for m in memory]
        for m, of in zip(copies, memory):
            m.write(of.given)
        return copies

    def smaller(self, f: Failure, seconds: float) -> Failure:
        """The smallest inputs found, by one change at a time, that still fail."""
        found, self.until = True, time.monotonic() + seconds
        while found:
            found = False
            for g in _simpler(f.group):
                if self.late():
                    return f
                if not self.room.has(self.specs, g.sizes):
                    continue
                other = next((x for x in self.run(g) if f.fault_id in ("", x.fault_id)), None)
                if other is not None:
                    f, found = other, True
                    break
        return f


def _sized(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute, with sizes in place of their names."""
    if isinstance(value, (list, tuple)):
        return [_sized(v, sizes) for v in value]
    return sizes.get(value, value) if isinstance(value, str) else value


def _simpler(g: Group) -> Iterator[Group]:
    if len(g.kinds) > 1:
        yield g._replace(kinds=g.kinds[-1:])
        if len(g.kinds) > 2:
            yield g._replace(kinds=g.kinds[-2:])
    if g.layout != "contiguous":
        yield g._replace(layout="contiguous")
    for name, n in g.sizes.items():
        for less in dict.fromkeys((1, 2, 3, n // 2, n - 1)):
            if 0 < less < n:
                yield g._replace(sizes={**g.sizes, name: less})
    simple = ("integers", "ramp", "normal")
    for kind in simple[: simple.index(g.kinds[-1]) if g.kinds[-1] in simple else 3]:
        if len(g.kinds) == 1:
            yield g._replace(kinds=(kind,))
