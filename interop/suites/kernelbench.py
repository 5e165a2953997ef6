"""KernelBench's problems, judged: what PyTorch returns of each has to pass, and faults have to fail.

    python interop/suites/kernelbench.py FOLDER [--levels 1 2 3] [--dtypes float32 bfloat16] [--modes eval train]
        [--faults 3] [--only 2/1 2/17] [--results FILE.jsonl]

FOLDER has level1, level2 and level3 of KernelBench (github.com/ScalingIntelligence/KernelBench); nothing of it is here.
Sizes are made smaller by one rule, `Shrink`. A line of the results has one problem in one mode and type: what was said
of PyTorch's own output, and of each fault where it is, what was said of it, and whether KernelBench's rule passes it.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import resource
import sys
import warnings
from pathlib import Path

import refrun
import torch
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2}  # KernelBench's, by type
# Numbers of a value in a problem, where its sizes allow, and of an input at most.
MOST, TOO_MANY = 1 << 14, 1 << 19


class Shrink(ast.NodeTransformer):
    """Smaller sizes. Those of the module and of its functions are halved until they are at most `most`; or, so that
    they keep their ratios, divided by `by`, those above 4. Numbers above 16 within its classes, which are numbers of
    channels, are divided by `inside`. With batch, that of the batch is `batch`, and all else outside is as it is."""

    def __init__(self, most: int = 0, by: int = 0, inside: int = 1, batch: int = 0):
        self.most, self.by, self.of_classes, self.inside, self.batch = most, by, inside, False, batch

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.inside = True
        self.generic_visit(node)
        self.inside = False
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        if self.batch and not self.inside and any("batch" in name for name in names):
            node.value = ast.Constant(self.batch)
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        n = node.value
        if type(n) is not int:
            return node
        if self.inside:
            return ast.Constant(n // self.of_classes if n > 16 and n % self.of_classes == 0 else n)
        if self.batch:
            return node
        if self.by:
            return ast.Constant(max(2, n // self.by) if n > 4 else n)
        while n > self.most:
            n = (n + 1) // 2
        return ast.Constant(n)


# What is tried, from small to large, each with its classes' numbers divided and as they are.
HALVED = [{"most": most, "inside": inside} for most in (4, 8, 16, 32, 64, 128, 256) for inside in (8, 1)]
BATCHES = [{"batch": 2, "inside": 8}, {"batch": 2}, {"batch": 1}]
DIVIDED = [{"by": by, "inside": inside} for by in (32, 16, 8, 4, 2) for inside in (8, 1)]


def load(path: Path, rule: dict):
    """The module of a problem, with smaller sizes."""
    tree = ast.fix_missing_locations(Shrink(**rule).visit(ast.parse(path.read_text())))
    space: dict = {"__name__": path.stem}
    exec(compile(tree, str(path), "exec"), space)
    return space


class Problem:
    """A model, its inputs and what it returns, of the last rule under which it runs and is small, or of the first under
    which it runs."""

    def __init__(self, path: Path, dtype: str, mode: str, seed: int = 0):
        self.model, self.why, self.constant = None, ValueError("no sizes"), {}
        for rules in (HALVED, DIVIDED, BATCHES):
            for rule in rules:
                if not self._grow(path, rule, DTYPES[dtype], mode, seed):
                    break
            if self.model is not None:
                return
        if not self.constant:
            raise self.why
        vars(self).update(self.constant)

    def _grow(self, path: Path, rule: dict, dtype: torch.dtype, mode: str, seed: int) -> bool:
        """Takes the problem under a rule, if it runs and is small; returns whether a larger one may be."""
        kept = dict(vars(self))
        try:
            self._load(path, rule, dtype, mode, seed)
            if sum(x.numel() for x in self.inputs if isinstance(x, torch.Tensor)) > TOO_MANY:
                vars(self).update(kept)
                return False
            with Faulty(-1) as values:
                self.output = self.run()
        except Exception as e:  # a size is too small, another one of each problem
            vars(self).update(kept)
            self.why = e
            return True
        if constant(self.output):  # as a norm of groups of one number is: other sizes may show more
            self.constant = self.constant or dict(vars(self))
            vars(self).update({**kept, "constant": self.constant})
            return True
        small = values.largest <= MOST
        if not small and kept["model"] is not None:
            vars(self).update(kept)
        return small

    def _load(self, path: Path, rule: dict, dtype: torch.dtype, mode: str, seed: int) -> None:
        torch.manual_seed(seed)
        space = load(path, rule)
        model = space["Model"](*space["get_init_inputs"]())
        inputs = [
            x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in space["get_inputs"]()
        ]
        if mode == "eval" and path.parent.name == "level3":
            normalized(model, [x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs])
        model = model.train(mode == "train").to(dtype)
        self.rule, self.model, self.inputs = rule, model, inputs

    def run(self, inputs=None, model=None):
        torch.manual_seed(1)
        with torch.no_grad():
            return (model or self.model)(*(inputs or self.inputs))

    def draws(self) -> bool:
        """Whether it draws at random, which then follows from the seed of a run."""
        self.run()
        after = torch.get_rng_state()
        return not torch.equal(after, torch.manual_seed(1).get_state())

    def exact(self):
        """What float64 has of the same numbers."""
        import copy

        wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in self.inputs]
        try:
            return self.run(wide, copy.deepcopy(self.model).double())
        except RuntimeError:  # it draws numbers of float32 itself
            return self.output


def normalized(model: torch.nn.Module, inputs) -> None:
    """Gives batch norms the statistics of these inputs: with those that they begin with numbers vanish from layer to
    layer, and what a network returns is its last bias."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if norms:
        for m in norms:
            m.momentum = 1.0
        with torch.no_grad():
            model.train()(*inputs)


def constant(output) -> bool:
    return all(o.numel() > 1 and bool((o == o.flatten()[0]).all()) for o in leaves(output))


def leaves(output):
    return list(output) if isinstance(output, (list, tuple)) else [output]


def distance(output, exact) -> float:
    """The mean square error, over all outputs."""
    pairs = [(o.double(), e.double()) for o, e in zip(leaves(output), leaves(exact))]
    return sum(float(((o - e) ** 2).sum()) for o, e in pairs) / max(1, sum(e.numel() for _, e in pairs))


def bits(x: torch.Tensor, n: int) -> torch.Tensor:
    """x with n bits after the first."""
    m, e = torch.frexp(x.double())
    return torch.ldexp((m * 2 ** (n + 1)).round() / 2 ** (n + 1), e).to(x.dtype)


def tail(x: torch.Tensor) -> torch.Tensor:
    """The last places of the last axis with more than one are 0: a tile that was masked."""
    axis = next((d for d in reversed(range(x.dim())) if x.shape[d] > 1), None)
    if axis is None:
        return torch.zeros_like(x)
    return x.clone().index_fill_(axis, torch.arange(x.shape[axis] - max(1, x.shape[axis] // 8), x.shape[axis]), 0)


FAULTS = {
    "a value in half of its bits": lambda x: bits(x, 10 if x.dtype == torch.float32 else 3),
    "a last tile of zeros": tail,
    "the neighbour's number": lambda x: x.roll(1, -1) if x.dim() else x + 1,
    "a factor of 1 + 1/64": lambda x: x * (1 + 2**-6),
    "a row that is the first": lambda x: torch.cat([x[:-1], x[:1]]) if x.dim() and x.shape[0] > 1 else x * 1.5,
    "a sign": lambda x: x.clone()
    .view(-1)
    .index_put_((torch.arange(0, x.numel(), 7),), -x.contiguous().view(-1)[::7])
    .view(x.shape),
}


class Faulty(TorchDispatchMode):
    """Changes what the k-th operation of a call returns."""

    def __init__(self, at: int, fault=None):
        super().__init__()
        self.at, self.fault, self.calls, self.names, self.largest = at, fault, 0, [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        first = made[0] if isinstance(made, (tuple, list)) and made else made
        if isinstance(first, torch.Tensor):
            self.largest = max(self.largest, first.numel())
        moves = any(
            w in str(func)
            for w in (
                "view",
                "empty",
                "detach",
                "transpose",
                "permute",
                "slice",
                "_to_copy",
                "expand",
                "aten.t.",
                "select",
                "squeeze",
                "alias",
                "copy_",
                "fill",
                "zeros",
                "ones",
            )
        )
        if not moves and isinstance(first, torch.Tensor) and first.is_floating_point():
            k, self.calls = self.calls, self.calls + 1
            self.names.append(str(func).replace("aten.", "").partition(".")[0])
            if k == self.at:
                first.copy_(self.fault(first.clone()))
        return made


def faulty(p: Problem, count: int, seed: str):
    """Outputs with a fault each: its name, where it is, and the output, until as many count."""
    right, exact = distance(p.output, p.exact()), p.exact()
    with Faulty(-1) as plain:
        p.run()
    r, found, names = random.Random(seed), 0, list(FAULTS)
    r.shuffle(names)
    for k in range(6 * count):
        name, at = names[k % len(names)], r.randrange(max(1, plain.calls))
        with Faulty(at, FAULTS[name]):
            output = p.run()
        if (
            any(not bool(torch.isfinite(o).all()) for o in leaves(output) if isinstance(o, torch.Tensor))
            or distance(output, exact) < 2 * right
            or all(torch.equal(a, b) for a, b in zip(leaves(output), leaves(p.output)))
        ):
            continue
        found += 1
        yield name, plain.names[at] if plain.names else "", output
        if found == count:
            return


def judge(p: Problem, net, output, level: int, dtype: str, **options):
    output = output if isinstance(output, torch.Tensor) else list(leaves(output))
    if net is None:
        return refrun.check_kernel(p.model, p.inputs, output, seed=1, **options)
    if level < 3:
        return refrun.check_kernel(net, p.inputs, output, **options)
    return refrun.check_model(net, p.inputs, output, precision=dtype, autocast=None if dtype == "float32" else "none")


def of(p: Problem, level: int, dtype: str, faults: int, seed: str) -> dict:
    """What is said of one problem in one type and mode."""
    row: dict = {"rule": p.rule}
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        net, options = None if p.draws() else refrun.describe(p.model, p.inputs), {}
        r = judge(p, net, p.output, level, dtype)
        if r.verdict == "FAIL" and level < 3 and dtype != "float32":  # some of PyTorch's sums on a CPU are kept in half
            row["plain"], options = r.reason, {"accumulate": dtype}
            r = judge(p, net, p.output, level, dtype, **options)
    except ValueError as e:
        return {**row, "refused": str(e)}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    row |= {
        "verdict": r.verdict,
        "reason": r.reason,
        "diagnosis": r.diagnosis,
        "processor_s": round(used.ru_utime - begun.ru_utime + used.ru_stime - begun.ru_stime, 2),
        "faults": [],
    }
    if not r.verdict.startswith("PASS"):
        return row
    for name, at, output in faulty(p, faults, seed):
        tolerance = TOLERANCE[dtype]
        close = all(
            torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(leaves(output), leaves(p.output))
        )
        f = judge(p, net, output, level, dtype, **options)
        row["faults"].append(
            {"fault": name, "at": at, "verdict": f.verdict, "named": f.diagnosis, "kernelbench": close}
        )
    return row


def changes(model: torch.nn.Module) -> bool:
    """Whether training mode computes something else."""
    return any(
        isinstance(m, torch.nn.modules.batchnorm._BatchNorm) or "Dropout" in type(m).__name__ and getattr(m, "p", 0)
        for m in model.modules()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    parser.add_argument("--modes", nargs="+", default=["eval", "train"])
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="LEVEL/NUMBER of problems")
    parser.add_argument("--results", type=Path, help="a file of JSON lines; what is there already is not done again")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in a.results.read_text().splitlines()] if a.results and a.results.exists() else []
    done = {(r["problem"], r["dtype"], r["mode"]) for r in rows}
    for level in a.levels:
        for path in sorted((a.folder / f"level{level}").glob("*.py"), key=lambda p: int(p.name.partition("_")[0])):
            number = f"{level}/{path.name.partition('_')[0]}"
            for dtype in a.dtypes:
                for mode in a.modes:
                    if (number, dtype, mode) in done or a.only and number not in a.only:
                        continue
                    row = {"problem": number, "name": path.stem, "dtype": dtype, "mode": mode}
                    try:
                        p = Problem(path, dtype, mode)
                    except Exception as e:  # PyTorch itself has it not on this machine
                        row["not run"] = f"{type(e).__name__}: {e}".splitlines()[0]
                    else:
                        row |= (
                            {"same": True}
                            if mode == "train" and not changes(p.model)
                            else of(p, level, dtype, a.faults, f"{number} {dtype} {mode}")
                        )
                    rows.append(row)
                    if a.results:
                        with a.results.open("a") as f:
                            f.write(json.dumps(row) + "\n")
                    print(
                        number,
                        path.stem,
                        dtype,
                        mode,
                        row.get("verdict") or row.get("refused", "")[:200] or row.get("not run") or "the same",
                        *(f"{f['verdict']}" for f in row.get("faults", ())),
                        flush=True,
                    )
    summary(rows)


def summary(rows) -> None:
    """The counts by level, mode and type, and what is refused by its cause."""
    keys = {(r["problem"][0], r["mode"], r["dtype"]) for r in rows}
    for key in sorted(keys):
        of = [r for r in rows if (r["problem"][0], r["mode"], r["dtype"]) == key]
        judged = [r for r in of if "verdict" in r]
        faults = [f for r in judged for f in r["faults"]]
        caught = [f for f in faults if f["verdict"].startswith("FAIL")]
        counts = {
            "problems": len(of),
            "as in evaluation": sum("same" in r for r in of),
            "judged": len(judged),
            "right ones failed": sum(r["verdict"].startswith("FAIL") for r in judged),
            "with sums in half": sum("plain" in r for r in judged),
            "without power": sum(r["verdict"] == "NO-POWER" for r in judged),
            "faults": len(faults),
            "caught": len(caught),
            "named": sum(bool(f["named"]) for f in caught),
            "passed by KernelBench": sum(f["kernelbench"] for f in faults),
        }
        print("level", *key, ", ".join(f"{k} {n}" for k, n in counts.items()))
    causes: dict = {}
    for r in rows:
        cause = r.get("refused") or r.get("not run")
        if cause:
            causes.setdefault(cause[:200], []).append(f"{r['problem']} {r['dtype']} {r['mode']}")
    for cause, of in sorted(causes.items(), key=lambda c: -len(c[1])):
        print(f"{len(of)} times: {cause}\n    {', '.join(of[:8])}")


if __name__ == "__main__":
    sys.exit(main())
