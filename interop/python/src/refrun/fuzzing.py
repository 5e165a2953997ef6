"""Searches for inputs on which a kernel is wrong."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from .batch import Batch
from .case import CaseError, write_safetensors
from .check import Report
from .fuzzing_calls import FAULTS
from .fuzzing_inputs import DTYPES, LAYOUTS, SHAPES, groups, parse
from .fuzzing_search import Failure, Search


def _failed(search: Search, f: Failure, took: float, covered: Mapping[str, Any], folder: Path) -> Report:
    """Saves a failure, asks about it once more, and reports it."""
    name = getattr(search.kernel, "__name__", type(search.kernel).__name__).strip("<>")
    question, path = list(f.question), folder / f"{name}.fuzz.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(path, f.tensors)
    if question[0] == "--graph":
        question[1] = _kept(Path(question[1]), folder / f"{name}.fuzz.graph.json")
    command = ["kernel", str(path), *question]
    try:
        report: Dict[str, Any] = search.batch.ask(*command[1:])
    except ValueError as e:
        report = {"text": str(e) + "\n"}
    title, advice = FAULTS.get(f.fault_id, (report.get("fault", ""), report.get("advice", "")))
    data = {
        "verdict": "FAIL",
        "seconds": took,
        "covered": covered,
        "fault_id": f.fault_id or report.get("fault_id", ""),
        "fault": title,
        "diagnosis": title,
        "advice": advice,
        "inputs": str(f.group),
        "file": str(path),
        "command": shlex.join(["refrun", *command]),
        "report": report,
    }
    return _report(data, search.kernel, search.op)


def _kept(graph: Path, to: Path) -> str:
    """A graph and its weights under another name."""
    doc = json.loads(graph.read_text())
    doc["weights"] = to.with_suffix(".safetensors").name
    to.with_suffix(".safetensors").write_bytes(graph.with_suffix(".safetensors").read_bytes())
    to.write_text(json.dumps(doc, indent=1) + "\n")
    return str(to)


def _report(data: Dict[str, Any], kernel: Callable[..., Any], op: Any) -> Report:
    """The report, and its text for people."""
    of, c = op if isinstance(op, str) else getattr(op, "__name__", "a function"), data["covered"]
    answers, without = sum(c["verdicts"].values()), c["verdicts"].get("NO-POWER", 0)
    name, took = getattr(kernel, "__name__", "kernel"), f"{data['seconds']:.0f} s"
    lines = [f"{data['verdict']}  {name} as {of}: {answers} answers judged, {without} of them without power, in {took}"]
    if data["verdict"] == "FAIL":
        lines.append(f"  fault: {data['fault'] or 'none that is known'}")
        lines += [f"  to do: {data['advice']}"] if data["advice"] else []
        lines += [f"  smallest: {data['inputs']}", f"  {data['command']}"]
        lines += ["  | " + line for line in data["report"]["text"].splitlines()]
    for key in ("dtypes", "layouts", "values"):
        lines.append(f"  {key}: {', '.join(f'{k} {n}' for k, n in c[key].items())}")
    lines.append("  sizes: " + "; ".join(f"{k} {', '.join(map(str, v))}" for k, v in c["sizes"].items()))
    for key, what in (("raised", "the kernel raised"), ("refused", "not judged")):
        lines += [f"  {what} {n} times: {why}" for why, n in c[key].items()]
    if c["blind"]:
        lines.append("  none of these inputs would show: " + ", ".join(b.replace("kernel.", "") for b in c["blind"]))
    return Report(data, "\n".join(lines))


def fuzz(
    kernel: Callable[..., Any],
    op: Union[str, Callable[..., Any]],
    shapes: Optional[Sequence[str]] = None,
    *,
    out: Union[str, Sequence[str]] = (),
    dtypes: Sequence[str] = ("float32",),
    layouts: Sequence[str] = LAYOUTS,
    tiles: Sequence[int] = (16, 32, 64, 128, 256, 1024),
    seconds: float = 60,
    seed: int = 0,
    device: Any = "cpu",
    folder: Union[str, Path] = ".",
    precision: Optional[str] = None,
    accumulate: Optional[str] = None,
    **attributes: Any,
) -> Report:
    """Searches for inputs on which a kernel is wrong, and says which they are.

        r = refrun.fuzz(my_softmax, "softmax", ["B N"], dim=-1)
        r = refrun.fuzz(my_linear, torch.nn.functional.linear, ["B K", "N K", "N"], dtypes=["float32", "bfloat16"])
        assert r.ok, r

    kernel is called with torch tensors in the order of op's arguments. op is ATen's name of the operation, or a torch
    function of the same tensors; what check_kernel judges. Attributes are keywords; the name of a size in them, as in
    normalized_shape=["N"], stands for the size.

    shapes has the shape of each input: names of sizes, and sizes. After a colon stands what the numbers are: "N: <V"
    whole numbers below V, "Q K: mask" truth values, "C: positive". The operations that have a name know their shapes.
    out is the shape of the output of a kernel that takes out=, or a list of shapes.

    The sizes are 1 and 0, primes, and tiles, those less 1 and those and 1. The numbers are those of kernel_inputs and
    equal rows, indices as they are in a text, and masks that hide all but one. The inputs are contiguous, transposed,
    every second number of a row, begin at an odd number, or are one row that is repeated; beside them in memory lies
    NaN.

    Each answer is judged as check_kernel does. The kernel is called twice with the same inputs and then with others
    in the same memory. Memory to write to is filled before with NaN, and with a number.

    A failure ends the search. It is made smaller, named and saved in the folder, with a command that judges it again.
    The report has verdict (PASS, FAIL, or NO-POWER if nothing could be told of any answer), fault_id, fault, advice,
    file, command, report, which the command prints, inputs in words, and covered. A kernel that raises an exception
    says that it does not take these inputs: `covered["raised"]` counts that. A slow kernel gets smaller inputs.
    """
    if shapes is None:
        if not isinstance(op, str):
            raise CaseError('shapes: none: want the shape of each input of the function, such as ["B K", "K N"]')
        shapes = SHAPES.get(op, ("B N",))
        if op in ("layer_norm", "rms_norm"):
            attributes.setdefault("normalized_shape", ["N"])
    specs, outs = [parse(s) for s in shapes], [parse(s) for s in ([out] if isinstance(out, str) else out)]
    for name, given, known in (("dtypes", dtypes, DTYPES), ("layouts", layouts, LAYOUTS)):
        for x in given:
            if x not in known:
                raise CaseError(f"{name}: {x!r}: want some of {', '.join(known)}")
    flags = [
        f"--{flag}={value}"
        for flag, value in (("precision", precision), ("accumulate", accumulate))
        if value is not None
    ]
    began, failure = time.monotonic(), None
    with tempfile.TemporaryDirectory() as work, Batch() as batch:
        search = Search(kernel, op, specs, outs, device, flags, attributes, batch, Path(work), seconds)
        for g in groups(specs, dtypes, layouts, tiles, seed, search.room):
            failure = next(search.run(g), None)
            if failure is not None or search.late():
                break
        took = time.monotonic() - began
        covered = search.covered.data()
        if failure is not None:
            failure = search.smaller(failure, max(10, seconds / 2))
            return _failed(search, failure, took, covered, Path(folder))
    if not covered["verdicts"]:
        why = next(iter({**covered["refused"], **covered["raised"]}), "no call")
        raise CaseError(f"nothing was judged: {why}")
    verdict = "PASS" if covered["verdicts"].get("PASS") else "NO-POWER"
    return _report({"verdict": verdict, "seconds": took, "covered": covered}, kernel, op)
