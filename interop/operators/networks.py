"""Public networks as operators of rollouts: what refrun takes, and what it says of right and of faulty devices.

    pip install -r requirements.txt --no-deps
    python networks.py [--steps 4] [--only NAME ...] [--out RESULTS.jsonl] [--table docs/operators.md]

For each network of catalogue.py, with random weights: its exact output and PyTorch's beside float64; steps that PyTorch
runs in float32 and under autocast to bfloat16 and float16, recorded and checked; and the same in float32 with a fault,
rows of one weight that are shifted by one from step 2 on. --describe only asks which operations are missing. A result
is one line of JSON; --table makes the table of all lines of --out.
"""

import argparse
import collections
import contextlib
import copy
import json
import signal
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import catalogue
import refrun

PRECISIONS = ("float32", "bfloat16", "float16")
FIRST = 2  # the step at which a fault begins
DT = 0.1
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


class Wide(TorchDispatchMode):
    """Makes float64 numbers wherever a program asks for float32 ones."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(torch.dtype, lambda d: _WIDE.get(d, d), (args, kwargs or {}))
        return func(*args, **kwargs)


def float64(module, x):
    """What a module returns in float64, whatever casts it has."""
    module = copy.deepcopy(module)
    module._apply(lambda t: t.to(_WIDE.get(t.dtype, t.dtype)))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Wide():
            return module(x.double())
    finally:
        torch.set_default_dtype(before)


def faulty(module, x):
    """A copy of the module in which the rows of a weight are shifted by one: the first from the middle on that shows."""
    names = [n for n, p in module.named_parameters() if p.dim() > 1 and p.shape[0] > 1]
    with torch.no_grad():
        right = copy.deepcopy(module)(x)
        for name in names[len(names) // 2 :] + names[: len(names) // 2]:
            other = copy.deepcopy(module)
            weight = dict(other.named_parameters())[name]
            weight.data = weight.data.roll(1, 0)
            if distance(copy.deepcopy(other)(x), right.double()) > 0.01:
                return other
    raise ValueError("no weight of two rows or more shows in the output")


class Step(nn.Module):
    """x + DT m(x), from step FIRST on of another module."""

    def __init__(self, right, other=None):
        super().__init__()
        self.right, self.other, self.t = right, other, 0

    def forward(self, x):
        self.t += 1
        m = self.other if self.other is not None and self.t >= FIRST else self.right
        return x + DT * m(x).to(x.dtype)


def distance(y, exact):
    return float((y.double() - exact).square().mean().sqrt() / exact.std())


def judged(module, x, steps, precision, other=None):
    """The verdict of a recorded rollout, with what PyTorch cannot run as its own."""
    half = precision != "float32"
    with tempfile.TemporaryDirectory() as folder, torch.autocast("cpu", getattr(torch, precision), enabled=half):
        try:
            with torch.no_grad():
                Step(module)(x)
        except RuntimeError as e:
            return {"verdict": "PyTorch: " + str(e).splitlines()[0][:120]}
        refrun.record(folder + "/case", Step(module, other), x, like=Step(module), steps=steps)
        began = time.time()
        r = refrun.check(folder + "/case")
        return {
            "verdict": r.verdict,
            "step": r.first_step,
            "why": (r.diagnosis or r.reason or "")[:200],
            "seconds": round(time.time() - began, 1),
        }


def missing(e):
    """The reasons of a refusal, each once."""
    lines = getattr(e, "layers", None) or [str(e).splitlines()[0]]
    return sorted({line.partition(": ")[2] or line for line in lines})


@contextlib.contextmanager
def limited(seconds):
    def late(*_):
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def tried(name, o):
    """All that is found of one network."""
    found = {"name": name, "steps": o.steps}
    module, x = catalogue.build(name)
    try:
        net = refrun.describe(copy.deepcopy(module), (x,))
    except refrun.UnsupportedLayer as e:
        return {**found, "missing": missing(e)}
    found["operations"] = len(net.nodes)
    if o.describe:
        return found
    other = faulty(module, x)
    exact = float64(module, x)
    with torch.no_grad():
        found["torch"] = distance(copy.deepcopy(module)(x), exact)
    found["refrun"] = distance(refrun.reference(module)(x), exact)
    for precision in PRECISIONS:
        found[precision] = judged(module, x, o.steps, precision)
    found["fault"] = judged(module, x, o.steps, "float32", other)
    return found


def table(path):
    """The table of all results, the latest of each network, and what is missing first."""
    of = {}
    for line in Path(path).read_text().splitlines():
        r = json.loads(line)
        of[r["name"]] = r
    rows = list(of.values())
    done = [r for r in rows if "refrun" in r]
    passed = {p: sum(r[p]["verdict"].startswith("PASS") for r in done) for p in PRECISIONS}
    runs = {p: sum(not r[p]["verdict"].startswith("PyTorch") for r in done) for p in PRECISIONS}
    nearer = sum(r["refrun"] < r["torch"] for r in done)
    caught = sum(r["fault"]["verdict"].startswith("FAIL") for r in done)
    steps = collections.Counter(r["steps"] for r in done)
    counts = collections.Counter(m for r in rows for m in r.get("missing", [r["error"]] if "error" in r else []))
    out = [
        "# Public networks as operators",
        "",
        f"`python interop/operators/networks.py` tries {len(rows)} public networks, small and with random weights,",
        "as operators of rollouts. The versions are in [requirements.txt](../interop/operators/requirements.txt), the sizes in",
        "[catalogue.py](../interop/operators/catalogue.py). PyTorch runs on a CPU with one thread.",
        " ".join(f"{n} networks made {k} steps." for k, n in sorted(steps.items())),
        "",
        "| | |",
        "|---|---|",
        f"| described | {sum('operations' in r for r in rows)} of {len(rows)} |",
        f"| of these run and checked here | {len(done)} |",
        f"| nearer to float64 than PyTorch | {nearer} of {len(done)} |",
        *(f"| steps recorded in {p} that pass | {passed[p]} of {runs[p]} that PyTorch runs |" for p in PRECISIONS),
        f"| rows of a weight shifted by one: FAIL | {caught} of {len(done)} |",
        "",
    ]
    failed = [(r["name"], p) for r in done for p in PRECISIONS if r[p]["verdict"].startswith("FAIL")]
    if failed:
        out += ["## Right ones that fail", "", *(f"- {name} in {p}" for name, p in failed), ""]
    out += ["## What is refused", ""]
    out += (
        ["| networks | why |", "|---|---|", *(f"| {n} | {why} |" for why, n in counts.most_common()), ""]
        if counts
        else ["Nothing of these.", ""]
    )
    out += [
        "## All networks",
        "",
        "RMS distances to float64 are in the deviation of the output.",
        "",
        "| network | operations | PyTorch | refrun | float32 | bfloat16 | float16 | fault |",
        "|---|---|---|---|---|---|---|---|",
    ]
    short = lambda v: v["verdict"].split(":")[0] if v["verdict"].startswith("PyTorch") else v["verdict"]
    for r in rows:
        if "refrun" in r:
            cells = [
                str(r["operations"]),
                f"{r['torch']:.1e}",
                f"{r['refrun']:.1e}",
                *(short(r[p]) for p in PRECISIONS),
                short(r["fault"]),
            ]
        elif "operations" in r:
            cells = [str(r["operations"]), *["not run"] * 6]
        else:
            cells = ["refused", *[""] * 6]
        out.append(f"| {r['name']} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", nargs="*", help="networks, or beginnings of their names")
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--seconds", type=int, default=600, help="of one network at most")
    p.add_argument("--describe", action="store_true")
    p.add_argument("--out", default="operators.jsonl")
    p.add_argument("--table", help="only writes the table of what --out has")
    o = p.parse_args()
    if o.table:
        Path(o.table).write_text(table(o.out))
        return
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    names = [n for n in catalogue.NETWORKS if not o.only or n.startswith(tuple(o.only))]
    for name in names:
        began = time.time()
        try:
            with limited(o.seconds):
                found = tried(name, o)
        except Exception as e:
            found = {"name": name, "error": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:150]}"}
        found["took"] = round(time.time() - began, 1)
        with open(o.out, "a") as f:
            f.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
