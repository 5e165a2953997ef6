"""Writes case folders: samples to look at and tune on, or the small set the Go tests read.

  python3 samples.py DIR --seeds 0-2                       one folder per subject, mode and seed
  python3 samples.py DIR --only P15,R04,pairwise --modes float16 --amplitudes 1,0.25
  python3 samples.py --small DIR                           the committed set

DIR/index.json says what each folder is: expect (pass or fail), subject, what, family,
amplitude, first_step, first_layer (a module, or "" where none is wrong), place.
"""

import argparse
import json
import os
import shutil

import cases
import faults
import identity
import respond
import variants

SAMPLE = ["P01", "P03", "P06", "P07", "P10", "P15", "P22", "P31", "P44", "I03", "I06b", "I08", "I18b", "I21", "I30", "R01", "R04", "R06",
          "R15", "R16", "S01", "S03", "S05", "S09", "S16", "X01", "X03", "X04"]
LEGAL = ["sequential", "pairwise", "tensor-core-truncating", "winograd2", "vector-activation", "fused-norm-act", "fused-all", "like-cuda",
         "like-pytorch-cpu", "noise-1ulp"]

# The committed set: name, subject, mode, seed, amplitude.
SMALL = [(s, m, 3, 1.0) for s, m in [
    ("sequential", "float32"), ("winograd2", "float32"), ("like-pytorch-cpu", "float32"), ("tensor-core", "tf32"),
    ("like-cuda", "float16"), ("fused-norm-act", "float16"), ("sequential", "bfloat16"), ("fused-all", "bfloat16"),
    ("bias-apart", "bfloat16"), ("half-parameters", "float16")]] + [
    (s, m, 4, 1.0) for s, m in [
        ("P06", "float32"), ("P22", "float32"), ("P37", "tf32"), ("P03", "float16"), ("P10", "float16"), ("P15", "bfloat16"),
        ("I03", "float32"), ("I08", "float16"), ("I21", "bfloat16"), ("R01", "float32"), ("R04", "float16"), ("R06", "bfloat16"),
        ("S01", "tf32"), ("S09", "float16"), ("X01", "float16"), ("X04", "float32"), ("P31c", "bfloat16"), ("P50", "float16"), ("R39c", "float32")]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--seeds", default="0")
    p.add_argument("--modes", default=",".join(faults.ALL))
    p.add_argument("--only", help="subjects by id, or 'all'; a selection by default")
    p.add_argument("--amplitudes", default="1")
    p.add_argument("--small", action="store_true", help="the committed set: no layers, 3 steps of 16x16 pixels")
    a = p.parse_args()
    catalogue = faults.load()
    only = SAMPLE + LEGAL if not a.only else list(catalogue) + list(variants.VARIANTS) if a.only == "all" else a.only.split(",")
    jobs = SMALL if a.small else [
        (s, m, seed, amp) for seed in respond.numbers(a.seeds) for m in a.modes.split(",") for s in only
        for amp in (map(float, a.amplitudes.split(",")) if s in catalogue else [1.0])
        if m in (catalogue[s].modes if s in catalogue else variants.VARIANTS[s][1])]
    index = []
    if a.small and os.path.isdir(a.dir):
        shutil.rmtree(a.dir)
    os.makedirs(a.dir, exist_ok=True)
    for subject, mode, seed, amplitude in jobs:
        small = a.small and ("noisy" if catalogue.get(subject) and catalogue[subject].family == "rng" or mode == "float16" else "silent")
        made = cases.make(subject, mode, seed, amplitude, steps=4 if a.small else 6, small=small)
        name = cases.key(made.truth)
        cases.write(made, os.path.join(a.dir, name), layers=not a.small, compact=a.small)
        truth = dict(made.truth)
        if truth["expect"] == "fail":
            truth.update(identity.judge(made))
        index.append({"case": name, **truth})
    with open(os.path.join(a.dir, "index.json"), "w") as f:
        json.dump(index, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
