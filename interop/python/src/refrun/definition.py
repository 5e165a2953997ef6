"""Judges a solution of a kernel's definition, as FlashInfer-Bench and SOL-ExecBench write both: `refrun judge`."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from safetensors.torch import load_file

from .case import CaseError
from .check import Report
from .kernel import check_kernel

Kernel = Callable[..., Any]


def check_definition(definition: Union[str, Path, Mapping[str, Any]], workloads: Union[str, Path, Sequence[Mapping[str, Any]]],
                     solution: Union[str, Path, Kernel], *, seed: int = 0, device: Optional[str] = None, most: Optional[int] = None,
                     **options: Any) -> Iterator[Tuple[str, Report]]:
    """Judges a solution on each workload of a definition, and yields the workload's uuid with its report.

    definition is a definition.json, whose reference says what is right, and workloads a workload.jsonl. solution is a
    solution.json in Python or Triton, or a function of the definition's inputs, which is called here on inputs that the
    workload describes; or a folder with what a device was given and returned: UUID.safetensors, with the definition's inputs
    and outputs by their names.

    Random inputs follow from seed. device is the GPU if there is one. most ends after so many workloads. options are those of
    check_kernel, such as seconds.
    """
    of = _Definition(_read(definition))
    root = Path(workloads).resolve().parent if isinstance(workloads, (str, Path)) else Path.cwd()
    lines = [json.loads(line) for line in Path(workloads).read_text().splitlines() if line.strip()] if isinstance(workloads, (str, Path)) else workloads
    with tempfile.TemporaryDirectory() as work:
        recorded = isinstance(solution, (str, Path)) and Path(solution).is_dir()
        kernel = None if recorded else _kernel(solution, of, Path(work))
        for line in itertools.islice(lines, most):
            workload = line.get("workload") or line  # FlashInfer-Bench keeps it in a trace
            name = workload.get("uuid", "")
            if kernel is None:
                given = load_file(Path(solution) / f"{name}.safetensors")  # type: ignore[arg-type]
                inputs, outputs = of.inputs(workload, root, given, seed), of.named(given)
            else:
                inputs = of.inputs(workload, root, {}, seed)
                try:
                    outputs = of.run(kernel, inputs, workload, device or ("cuda" if torch.cuda.is_available() else "cpu"))
                except Exception as e:  # whatever a solution raises
                    yield name, _failed(f"it raised {type(e).__name__}: {e}")
                    continue
            yield name, of.misshapen(outputs, workload) or of.check(inputs, outputs, options)


def _read(definition: Union[str, Path, Mapping[str, Any]]) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(Path(definition).read_text()) if isinstance(definition, (str, Path)) else definition
    for key in ("axes", "inputs", "outputs", "reference"):
        if key not in data:
            raise CaseError(f"definition: no {key}: want axes, inputs, outputs and reference, as FlashInfer-Bench has them")
    return data


class _Definition:
    """What a definition says: names, shapes and types of tensors, and the function that is right."""

    def __init__(self, data: Mapping[str, Any]):
        self.data = data
        self.space: Dict[str, Any] = {"__name__": "reference"}
        exec(compile(data["reference"], "reference", "exec"), self.space)
        if "run" not in self.space:
            raise CaseError("definition: reference: no function run")

    def sizes(self, workload: Mapping[str, Any]) -> Dict[str, int]:
        """The sizes of the axes: constants, those of the workload, and what is computed of them."""
        axes = self.data["axes"]
        sizes = {name: int(a["value"]) for name, a in axes.items() if a["type"] == "const"} | dict(workload["axes"])
        for name, a in axes.items():
            if a["type"] == "expr":
                sizes[name] = _value(ast.parse(a["expression"], mode="eval").body, sizes)
        return sizes

    def inputs(self, workload: Mapping[str, Any], root: Path, given: Mapping[str, torch.Tensor], seed: int) -> Dict[str, Any]:
        """The inputs of a workload by their names: tensors on the CPU and Python's numbers. What is given is taken as it is."""
        sizes, generator = self.sizes(workload), torch.Generator().manual_seed(seed)
        custom: Mapping[str, Any] = {}
        said = workload["inputs"]
        if any(of["type"] == "custom" and name not in given for name, of in said.items()):
            torch.manual_seed(seed)
            scalars = {name: of["value"] for name, of in said.items() if of["type"] == "scalar"}
            custom = self.space[self.data["custom_inputs_entrypoint"]]({**sizes, **scalars}, torch.device("cpu"))
        inputs: Dict[str, Any] = {}
        for name, spec in self.data["inputs"].items():
            of = said[name]
            if of["type"] == "scalar":
                inputs[name] = of["value"]
            elif name in given:
                inputs[name] = given[name]
                why = _unlike(name, given[name], [sizes[a] for a in spec["shape"]], spec["dtype"])
                if why:
                    raise CaseError(why)
            elif of["type"] == "safetensors":
                inputs[name] = load_file(_found(root, of["path"]))[of["tensor_key"]]
            elif of["type"] == "custom":
                inputs[name] = custom[name]
            else:
                inputs[name] = _random([sizes[a] for a in spec["shape"]], _dtype(spec["dtype"]), generator)
        return inputs

    def run(self, kernel: Kernel, inputs: Mapping[str, Any], workload: Mapping[str, Any], device: str) -> List[torch.Tensor]:
        """What a kernel returns of the inputs, or writes into outputs that are first full of NaN."""
        given = [v.to(device, copy=True) if isinstance(v, torch.Tensor) else v for v in inputs.values()]
        written: List[torch.Tensor] = []
        if getattr(kernel, "writes", False):
            sizes = self.sizes(workload)
            for spec in self.data["outputs"].values():
                dtype = _dtype(spec["dtype"])
                written.append(torch.full([sizes[a] for a in spec["shape"]], float("nan") if dtype.is_floating_point else -1, dtype=dtype, device=device))
        with torch.no_grad():
            made = kernel(*given, *written)
        return written or self.named(made if isinstance(made, Mapping) else dict(zip(self.data["outputs"], made if isinstance(made, (tuple, list)) else [made])))

    def named(self, outputs: Mapping[str, Any]) -> List[torch.Tensor]:
        """The outputs in the definition's order."""
        for name in self.data["outputs"]:
            if not isinstance(outputs.get(name), torch.Tensor):
                raise CaseError(f"{name}: no tensor: want the outputs {', '.join(self.data['outputs'])}")
        return [outputs[name] for name in self.data["outputs"]]

    def misshapen(self, outputs: Sequence[torch.Tensor], workload: Mapping[str, Any]) -> Optional[Report]:
        """FAIL of outputs that have not the shapes and types that the definition says."""
        sizes = self.sizes(workload)
        found = [_unlike(name, t, [sizes[a] for a in spec["shape"]], spec["dtype"]) for (name, spec), t in zip(self.data["outputs"].items(), outputs)]
        return next((_failed(why) for why in found if why), None)

    def check(self, inputs: Mapping[str, Any], outputs: Sequence[torch.Tensor], options: Mapping[str, Any]) -> Report:
        """Judges outputs by the reference, in which numbers that are no tensors are constants."""
        numbers = {name: v for name, v in inputs.items() if not isinstance(v, torch.Tensor)}
        names = [name for name in inputs if name not in numbers]
        plain = getattr(self.space["run"], "__wrapped__", self.space["run"])  # without no_grad, which torch.export records

        def right(*tensors: torch.Tensor) -> Any:
            made = plain(**dict(zip(names, tensors)), **numbers)
            made = [made[name] for name in self.data["outputs"]] if isinstance(made, Mapping) else made
            return made[0] if isinstance(made, (tuple, list)) and len(made) == 1 else made

        return check_kernel(right, [inputs[name] for name in names], list(outputs) if outputs[1:] else outputs[0], **options)


def _unlike(name: str, t: torch.Tensor, shape: Sequence[int], dtype: str) -> str:
    """What is not as a definition says of a tensor, "" if nothing is."""
    if t.dtype == _dtype(dtype) and list(t.shape) == list(shape):
        return ""
    return f"{name}: {str(t.dtype).replace('torch.', '')} {list(t.shape)}: want {dtype} {list(shape)}"


def _failed(why: str) -> Report:
    return Report({"verdict": "FAIL", "reason": why}, f"FAIL  {why}")


def _value(node: ast.AST, sizes: Mapping[str, int]) -> int:
    """What an expression of sizes is."""
    import operator as op

    of = {ast.Add: op.add, ast.Sub: op.sub, ast.Mult: op.mul, ast.Div: op.truediv, ast.FloorDiv: op.floordiv, ast.Mod: op.mod, ast.Pow: op.pow, ast.USub: op.neg, ast.UAdd: op.pos}
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in of:
        return int(of[type(node.op)](_value(node.left, sizes), _value(node.right, sizes)))
    if isinstance(node, ast.UnaryOp) and type(node.op) in of:
        return int(of[type(node.op)](_value(node.operand, sizes)))
    raise CaseError(f"definition: axes: {ast.unparse(node)}: want sums, products and quotients of axes")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise CaseError(f"definition: dtype {name}: torch has none of this name")
    return dtype


def _random(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Normal numbers, of 8 bits within 2; small whole numbers; truth values."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        least = -128 if dtype == torch.int8 else -1024
        return torch.randint(least, -least, shape, generator=generator).to(dtype)
    x = torch.randn(shape, generator=generator)
    return (x.clamp(-2, 2) if dtype.itemsize == 1 else x).to(dtype)


def _found(root: Path, path: str) -> Path:
    """A file of tensors that a workload names: beside it, or in a folder above it."""
    for folder in (root, *root.parents):
        if (folder / path).exists():
            return folder / path
    raise CaseError(f"{path}: not in {root} nor above it")


def _kernel(solution: Any, of: _Definition, work: Path) -> Kernel:
    """The function of a solution; its attribute writes says whether it takes its outputs as arguments."""
    if callable(solution):
        return solution  # type: ignore[no-any-return]
    data = json.loads(Path(solution).read_text())
    spec = data["spec"]
    languages = spec.get("languages") or [spec.get("language", "python")]
    if any(name not in ("python", "pytorch", "triton") for name in languages):
        raise CaseError(f"{solution}: in {', '.join(languages)}: want Python or Triton, or a folder with what a device was given and returned")
    for source in data["sources"]:
        path = (work / source["path"]).resolve()
        if work.resolve() not in path.parents:
            raise CaseError(f"{solution}: {source['path']}: outside of the solution")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source["content"])
    file, _, name = spec["entry_point"].partition("::")
    loaded = importlib.util.spec_from_file_location("solution", work / file)  # Triton reads a kernel's source from its file
    assert loaded and loaded.loader
    module = importlib.util.module_from_spec(loaded)
    sys.path.insert(0, str(work))
    try:
        loaded.loader.exec_module(module)
    finally:
        sys.path.remove(str(work))
    run = getattr(module, name)

    def kernel(*args: Any) -> Any:
        return run(*args)

    kernel.writes = spec.get("destination_passing_style", True)  # type: ignore[attr-defined]
    return kernel


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """refrun judge: 0 if all workloads pass, 1 if one fails, 3 if one shows too little, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="refrun judge", description="Judges a solution of a kernel's definition on its workloads.")
    parser.add_argument("definition", help="definition.json of FlashInfer-Bench or SOL-ExecBench")
    parser.add_argument("workloads", help="workload.jsonl")
    parser.add_argument("solution", help="solution.json in Python or Triton, or a folder of UUID.safetensors with inputs and outputs")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")
    parser.add_argument("--most", type=int, help="end after so many workloads")
    parser.add_argument("--seconds", type=float, help="end each judgement after about so long with the rows judged by then")
    parser.add_argument("--device", help="where the solution runs")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each workload")
    a = parser.parse_args(arguments)
    verdicts = []
    try:
        for name, report in check_definition(a.definition, a.workloads, a.solution, seed=a.seed, device=a.device, most=a.most, **({"seconds": a.seconds} if a.seconds else {})):
            verdicts.append(report.verdict)
            print(json.dumps({"workload": name, **report.data}) if a.json else f"{name}  {report}", flush=True)
    except (ValueError, OSError) as e:
        print(f"refrun judge: {e}", file=sys.stderr)
        return 2
    return 1 if "FAIL" in verdicts else 3 if "NO-POWER" in verdicts or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
