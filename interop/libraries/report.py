"""What the scripts here share: faults, the lines that they print, and the table at the end."""

from __future__ import annotations

import argparse
import collections
import json
import sys
import warnings

import torch

from inputs import KINDS

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in TYPES.items()}
SILENT = ("NOT RUN", "NOT JUDGED")  # a library or refrun lacks it: counted, and in the results


def faults(y):
    """An output of numbers that are not whole with one element off, and with all."""
    by = 1 + 2.0 ** -(7 if y.dtype == torch.float32 else 4)
    some = y.isfinite() & (y != 0)
    if not y.is_floating_point() or not some.any():
        return
    lone = y.clone(memory_format=torch.contiguous_format)
    lone.view(-1)[torch.where(some, y.abs(), -1).reshape(-1).argmax()] *= by
    yield "one", lone
    yield "all", y * by


def shows(y):
    """Whether an output has two different numbers: of others no input like it could tell one constant from another."""
    return not isinstance(y, torch.Tensor) or bool(y.isfinite().any()) and bool((y != y.reshape(-1)[:1]).any())


def judged(row, y, judge, wrong):
    """The records of a right output and, if that passes, of its faults. judge returns a verdict and what it says."""
    verdict, says = judge(y)
    yield dict(row, verdict=verdict, says=says, shows=shows(y))
    if wrong and verdict.startswith("PASS") and isinstance(y, torch.Tensor):
        for fault, other in faults(y):
            verdict, says = judge(other)
            yield dict(row, fault=fault, verdict=verdict, says=says)


def arguments(text, names, libraries):
    p = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", nargs="+", choices=libraries, default=list(libraries))
    p.add_argument("--dtype", nargs="+", choices=TYPES, default=list(TYPES))
    p.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--only", nargs="+", choices=names, default=list(names), metavar="NAME")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--faults", action="store_true")
    p.add_argument("--results", help="a file of records")
    return p.parse_args()


def unwanted(row):
    if row["verdict"] in SILENT:
        return False
    if "fault" in row:
        return not row["verdict"].startswith("FAIL")
    return not row["verdict"].startswith("PASS") and (row["shows"] or not row["verdict"].startswith("NO-POWER"))


def run(rows, results):
    """Prints each unwanted record and a table; exits with 1 if a right output has failed."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts, kept = collections.defaultdict(collections.Counter), open(results, "w") if results else None
    for row in rows:
        what = "wrong: " + row["fault"] if "fault" in row else "right"
        counts[row["library"], row["dtype"]][f"{what} {row['verdict']}"] += 1
        if unwanted(row):
            print(what, row["verdict"], *(row[k] for k in ("library", "name", "dtype", "kind")), "|", " ".join(row["says"].split())[:400], flush=True)
        if kept:
            print(json.dumps(row), file=kept, flush=True)
    for (library, dtype), n in counts.items():
        print(f"{library:12} {dtype:9}", ", ".join(f"{k} {v}" for k, v in sorted(n.items())))
    sys.exit(any(k.startswith("right FAIL") for n in counts.values() for k in n))
