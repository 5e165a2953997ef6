"""Runs one operator on this machine's GPU in every way PyTorch offers, and has
refrun judge each: eager float32 without and with TF32, float16, bfloat16;
channels_last; cudnn.benchmark; torch.compile, default and max-autotune; a
hand-written Triton kernel; PyTorch modules and Triton kernels with faults, which
must not pass; and the device's random numbers against refrun's torch-cuda stream.

    python validate.py --binary ./refrun --out results [--base 32] [--grid 64] [--steps 8]

Needs torch (and triton, which it brings), numpy, safetensors. Leaves
results/table.md, results/report.json and a report.html for each mode, some
100 KB each; the recorded states stay where a verdict is not the one that it must
be, or with --keep. Exits with 1 if there is such a one.

--device cpu runs what makes sense without a GPU: the same but for TF32, cudnn and
autotuning, and the Triton kernels, interpreted and slow, if TRITON_INTERPRET=1 is
set. The stream is then held against philox.py alone.
"""

import argparse
import functools
import importlib.util
import json
import os
import platform
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python" / "src"), str(HERE.parent / "python" / "examples"), str(HERE)]

HEAD = ["| mode | verdict | as it must be | max error | rms over expected | first step, layer | arithmetic | diagnosis |", "|---|---|---|---|---|---|---|---|"]


def modes(kind, triton):
    """name: (function of (path, op, x, steps) that records, whether it must pass)."""
    import torch

    import devices
    import faults

    cuda = kind == "cuda"

    def flags(tf32=False, benchmark=False):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = benchmark

    def run(tf32=False, benchmark=False, **options):
        def f(*a):
            flags(tf32, benchmark)
            try:
                devices.torch_device(*a, **options)
            finally:
                flags()
        return f

    flags()  # PyTorch allows TF32 in convolutions unless told otherwise
    half, brain = {"precision": "float16", "dtype": torch.float16}, {"precision": "bfloat16", "dtype": torch.bfloat16}
    m = {}
    for name, options in (("float32", {}), ("float16", half), ("bfloat16", brain)):
        m[f"eager-{name}"] = run(**options), True
        m[f"channels-last-{name}"] = run(channels_last=True, **options), True
        m[f"compile-{name}"] = run(compiled=True, **options), True
        m[f"compile-own-noise-{name}"] = run(compiled=True, own_noise=True, **options), True
        if cuda:
            m[f"compile-max-{name}"] = run(compiled=True, mode="max-autotune-no-cudagraphs", **options), True
    if cuda:
        m["eager-tf32"] = run(tf32=True, precision="tf32"), True
        m["benchmark-float16"] = run(benchmark=True, **half), True
        m["benchmark-bfloat16"] = run(benchmark=True, **brain), True
        m["fault: TF32 sold as float32"] = run(tf32=True), False
    for name, (inject, _, _) in faults.FAULTS.items():
        for bfloat16 in (False, True):
            if not (bfloat16 and name in faults.ALLOWED):
                m[f"fault: {name}, {'bfloat16' if bfloat16 else 'float32'}"] = functools.partial(fault, kind, inject, bfloat16), False
    if triton:
        m.update(triton_modes(cuda))
    return m


def fault(kind, inject, bfloat16, path, op, x, steps):
    """Records the small operator of faults.py, on the device, with a fault."""
    import faults

    faults.record(path, inject, bfloat16, kind=kind)


def triton_modes(cuda):
    import torch

    import devices
    import triton_block

    def kernel(precision, dtype, name=""):
        return lambda path, op, x, steps: devices.torch_device(path, op, x, steps, precision=precision, run=triton_block.TritonOperator(op, dtype, name))

    m = {}
    for precision, dtype in (("float32", torch.float32), ("float16", torch.float16)):
        m[f"triton-{precision}"] = kernel(precision, dtype), True
        for name in triton_block.FAULTS:
            if precision == "float32" and name == "half-accumulator" or name == "tf32" and (precision == "float16" or not cuda):
                continue
            m[f"fault: triton {name}, {precision}"] = kernel(precision, dtype, name), False
    return m


def judge(name, run, must, path, op, x, steps, keep=False):
    """Records a mode and checks it. Returns the line of the table and what the report keeps of it."""
    import refrun

    try:
        run(path, op, x, steps)
    except Exception as e:  # a mode that this PyTorch refuses is told, and fails nothing else
        traceback.print_exc()
        return f"| {name} | not run: {type(e).__name__} | | | | | | |", {"error": f"{type(e).__name__}: {e}"[:400], "right": None}
    try:
        r = refrun.check(path, report=str(path / "report.html"))
    except ValueError as e:
        return f"| {name} | not checked: {e} | **no** | | | | | |", {"error": str(e), "right": False}
    right = r.ok == must and r.verdict != "NO-POWER"
    if right and not keep:
        for big in [*path.glob("*.safetensors"), path / "SHA256SUMS"]:
            big.unlink()
    one = r.one_step
    where = f"{r.first_step}, {r.first_layer}" if r.first_step > 0 else ""
    return (f"| {name} | {r.verdict} | {'yes' if right else '**no**'} | {one['max_abs']:.3g} | {one['rms_over_expected']:.3f} | {where} | {r.contract} | {r.diagnosis} |",
            {"verdict": r.verdict, "right": right, "report": r.data})


def folder(name):
    """A mode's name as the name of its folder."""
    return "".join(c if c.isalnum() else "-" for c in name.replace("'", "")).replace("--", "-")


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--binary", help="the refrun binary; $REFRUN_BIN, PATH or a build otherwise")
    ap.add_argument("--out", default="results")
    ap.add_argument("--base", type=int, default=32)
    ap.add_argument("--grid", type=int, default=64)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--only", nargs="*", help="names, or parts of names")
    ap.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    ap.add_argument("--keep", action="store_true", help="keep all recorded states")
    a = ap.parse_args(argv)
    if a.binary:
        os.environ["REFRUN_BIN"] = str(Path(a.binary).resolve())
    if importlib.util.find_spec("torch") is None:
        print("validate.py: torch is not installed: want PyTorch, with CUDA for --device cuda", file=sys.stderr)
        return 2
    import torch

    if a.device == "cuda" and not torch.cuda.is_available():
        print(f"validate.py: PyTorch {torch.__version__} sees no CUDA device here: want one, or --device cpu for what can be run without", file=sys.stderr)
        return 2
    import devices
    import refrun
    import stream

    cuda = a.device == "cuda"
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    triton = importlib.util.find_spec("triton") is not None and (cuda or os.environ.get("TRITON_INTERPRET") == "1")
    result = {"torch": torch.__version__, "python": platform.python_version(), "device": torch.cuda.get_device_name() if cuda else "CPU", "modes": {}}
    lines = [f"PyTorch {torch.__version__} on {result['device']}; base {a.base}, {a.grid}x{a.grid}, {a.steps} steps, 2 realizations", "", *HEAD]
    print("\n".join(lines), flush=True)
    for name, (run, must) in modes(a.device, triton).items():
        if a.only and not any(o in name for o in a.only):
            continue
        torch.manual_seed(0)
        op = devices.Operator(base=a.base).eval().to(a.device)
        x = torch.randn(2, 3, a.grid, a.grid, device=a.device)
        line, result["modes"][name] = judge(name, run, must, out / folder(name), op, x, a.steps, a.keep)
        lines.append(line)
        print(line, flush=True)
    wrong = sum(m["right"] is False for m in result["modes"].values())
    if not a.only or "stream" in a.only:
        p = torch.cuda.get_device_properties(0) if cuda else None
        sms, threads = (p.multi_processor_count, p.max_threads_per_multi_processor) if cuda else (132, 2048)
        result["stream"] = stream.rows(refrun.binary(), out, sms, threads, torch if cuda else None)
        wrong += sum(not r["right"] for r in result["stream"])
        lines += ["", f"torch-cuda:{sms}:{threads} against {'torch.rand and torch.randn of this device' if cuda else 'philox.py (no device)'}:", ""]
        lines += ["- " + stream.line(r) for r in result["stream"]]
        print("\n".join(lines[-len(result["stream"]) - 3:]), flush=True)
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "report.json").write_text(json.dumps(result, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
