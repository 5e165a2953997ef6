"""The kernels of gpuemu's corpus, searched: each faulty one has to be caught on inputs that refrun.fuzz chooses by
itself, and each right one has to pass.

    python interop/suites/gpuemu.py FOLDER [--seconds 30] [--only softmax_triton ...] [--results FILE.jsonl]

FOLDER has the kernels, gpuemu_corpus/data of github.com/sarkar-dipankar/gpuemu-corpus; nothing of it is here. Triton's
run under its interpreter, on a CPU; that of Triton 3.5 wants a numpy before 2.4.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import refrun
import torch


def l2norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-12)


# What a kernel should compute, by its reference: ATen's name and attributes, or a function.
OPERATIONS = {
    "softmax": ("softmax", {"dim": -1}),
    "layernorm": ("layer_norm", {"normalized_shape": ["H"], "eps": 1e-5}),
    "rmsnorm_triton": ("rms_norm", {"normalized_shape": ["H"], "eps": 1e-5}),
    "l2norm_triton": (l2norm, {}),
    "gelu_triton": ("gelu", {"approximate": "tanh"}),
    "leaky_relu_triton": ("leaky_relu", {"negative_slope": 0.01}),
    "attention_triton": ("scaled_dot_product_attention", {}),
    **{f"{op}_triton": (op, {}) for op in ("relu", "elu", "sigmoid", "silu", "tanh", "matmul")},
    "matmul": ("matmul", {}),
}


def load(path: Path, names):
    """A kernel of numpy arrays by their names as one of tensors in order, on a CPU."""
    source = path.read_text().replace("torch.cuda.is_available()", "True").replace('device="cuda"', 'device="cpu"')
    with tempfile.NamedTemporaryFile(
        "w", suffix=".py", delete=False
    ) as f:  # triton reads a kernel's source from its file
        f.write(source)
    space: dict = {"__name__": path.parent.name}
    exec(compile(source, f.name, "exec"), space)

    def kernel(*tensors: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(space["run"]({n: t.numpy() for n, t in zip(names, tensors)}))

    kernel.__name__ = path.parent.name
    return kernel


def search(folder: Path, seconds: float, dtype: str) -> dict:
    meta = json.loads((folder / "meta.json").read_text())
    op, attributes = OPERATIONS[Path(meta["reference"]).parent.name]
    shapes = [" ".join(i["dims"]) for i in meta["op_schema"]["inputs"]]
    kernel = load(folder / "kernel.py", meta["input_names"])
    with tempfile.TemporaryDirectory() as work:
        row = {"kernel": folder.name, "dtype": dtype, "faulty": "buggy" in folder.name}
        try:
            r = refrun.fuzz(kernel, op, shapes, dtypes=[dtype], seconds=seconds, folder=work, **attributes)
        except ValueError as e:
            return {**row, "verdict": str(e)}
    row |= {"verdict": r.verdict, "seconds": round(r.data["seconds"], 1)}
    if r.verdict == "FAIL":
        row |= {"fault": r.fault, "inputs": r.inputs, "report": r.report["text"]}
    return {**row, "raised": r.covered["raised"], "refused": r.covered["refused"], "verdicts": r.covered["verdicts"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--results", type=Path, help="a file of JSON lines")
    a = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for meta in sorted(a.folder.glob("*/meta.json")):
        if a.only and meta.parent.name not in a.only:
            continue
        for dtype in json.loads(meta.read_text())["dtypes"]:
            row = search(meta.parent, a.seconds, dtype)
            rows.append(row)
            print(
                *(row.get(k, "") for k in ("kernel", "dtype", "verdict", "seconds", "fault", "inputs", "raised")),
                sep="  ",
                flush=True,
            )
            if a.results:
                with a.results.open("a") as f:
                    f.write(json.dumps(row) + "\n")
    caught = {r["kernel"] for r in rows if r["faulty"] and r["verdict"] == "FAIL"}
    wrong, right = {r["kernel"] for r in rows if r["faulty"]}, [r for r in rows if not r["faulty"]]
    failed = [f"{r['kernel']} {r['dtype']}" for r in right if r["verdict"] == "FAIL"]
    print(
        f"faulty kernels caught: {len(caught)} of {len(wrong)}; "
        f"right ones that failed, of {len(right)} by type: {', '.join(failed) or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())
