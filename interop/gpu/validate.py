"""Runs one operator on this machine's GPU in every way PyTorch offers, and has
refrun judge each: eager float32 without and with TF32, float16, bfloat16;
channels_last; cudnn.benchmark; torch.compile, default and max-autotune; a
hand-written Triton kernel, correct and with faults; and the noise of the
device's generator against refrun's torch-cuda stream.

    python validate.py --binary ./refrun --out results [--base 32] [--grid 64] [--steps 8]

Needs torch (and triton, which it brings) and numpy, safetensors. Leaves
results/table.md, results/report.json, and per mode a case folder and report.html
(about 2 MB a mode at the defaults). Without a GPU (--device cpu) the modes that
need one are left out, and the Triton kernels run interpreted, slowly, if
TRITON_INTERPRET=1 is set. Exits with 1 if a correct mode did not pass or a fault
did.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python" / "src"), str(HERE.parent / "python" / "examples"), str(HERE)]


def modes(torch, devices, cuda, triton):
    """name: (function of (path, op, x, steps) that records, whether it must pass)."""
    dev, h, b = devices.torch_device, torch.float16, torch.bfloat16

    def flags(tf32=False, benchmark=False):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = benchmark

    def run(tf32=False, benchmark=False, **kw):
        def f(*a):
            flags(tf32, benchmark)
            try:
                return dev(*a, **kw)
            finally:
                flags()
        return f

    m = {
        "eager-float32": (run(), True),
        "eager-float16": (run(precision="float16", dtype=h), True),
        "eager-bfloat16": (run(precision="bfloat16", dtype=b), True),
        "channels-last-float32": (run(channels_last=True), True),
        "channels-last-float16": (run(precision="float16", dtype=h, channels_last=True), True),
        "channels-last-bfloat16": (run(precision="bfloat16", dtype=b, channels_last=True), True),
    }
    for mode in (None, "max-autotune-no-cudagraphs") if cuda else (None,):
        tag = "compile" + ("-max" if mode else "")
        m[f"{tag}-float32"] = (run(compiled=True, mode=mode), True)
        m[f"{tag}-float16"] = (run(precision="float16", dtype=h, compiled=True, mode=mode), True)
        m[f"{tag}-bfloat16"] = (run(precision="bfloat16", dtype=b, compiled=True, mode=mode), True)
    if cuda:
        m["eager-tf32"] = (run(tf32=True, precision="tf32"), True)
        m["tf32-sold-as-float32"] = (run(tf32=True), False)
        m["benchmark-float16"] = (run(precision="float16", dtype=h, benchmark=True), True)
        m["benchmark-bfloat16"] = (run(precision="bfloat16", dtype=b, benchmark=True), True)
    if triton:
        import triton_block

        def kernel(precision, dtype, fault=""):
            return lambda path, op, x, steps: dev(path, op, x, steps, precision=precision, run=triton_block.TritonOperator(op, dtype, fault))

        for precision, dtype in (("float32", torch.float32), ("float16", h)):
            m[f"triton-{precision}"] = (kernel(precision, dtype), True)
            for fault in triton_block.FAULTS:
                if precision == "float32" and fault == "half-accumulator" or fault == "tf32" and (precision == "float16" or not cuda):
                    continue
                m[f"triton-{precision}-{fault}"] = (kernel(precision, dtype, fault), False)
    return m


def stream(torch, np, binary, out, sms):
    """Compares the device's draws with refrun's torch-cuda stream, beyond one wave of blocks."""
    from refrun.case import Case

    rows = []
    for c, grid in ((1, 8), (16, 64), (64, 256)):
        case = Case(out / f"draws-{c}-{grid}", {"input_channels": 1, "nodes": [
            {"op": "conv", "name": "a", "out_channels": c, "kernel_size": 1}, {"op": "noise", "name": "n", "noise_type": "gaussian", "noise_scale": 1.0},
            {"op": "conv", "name": "b", "out_channels": 1, "kernel_size": 1}]}, policy_type="autoregressive", precision="float32", base_seed=42)
        case.weights({"a.weight": np.zeros((c, 1, 1, 1), np.float32), "a.bias": np.zeros(c, np.float32), "n.noise_scale": np.ones(1, np.float32),
                      "b.weight": np.zeros((1, c, 1, 1), np.float32), "b.bias": np.zeros(1, np.float32)})
        case.info = {"torch": {"version": torch.__version__, "sm_count": sms}}
        case.states(np.zeros((1, 2, 1, grid, grid), np.float32))
        case.close()
        tape = out / f"draws-{c}-{grid}" / "ours.safetensors"
        subprocess.run([binary, "run", "--case", str(case.path), "--noise", f"torch-cuda:{sms}", "--record", str(tape), "-o", str(out / "ignored.npy"), "--force", "--quiet"], check=True)
        from safetensors.numpy import load_file
        ours = load_file(tape)["batch0"].reshape(-1)
        torch.manual_seed(42 + 1)
        theirs = torch.randn(1, c, grid, grid, device="cuda").cpu().numpy().reshape(-1)
        rows.append({"numbers": int(ours.size), "max_abs": float(np.abs(ours - theirs).max()), "equal": float((ours == theirs).mean())})
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--binary", help="the refrun binary; $REFRUN_BIN, PATH or a build otherwise")
    ap.add_argument("--out", default="results")
    ap.add_argument("--base", type=int, default=32)
    ap.add_argument("--grid", type=int, default=64)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--only", nargs="*", help="names, or parts of names")
    ap.add_argument("--device", choices=("cuda", "cpu"))
    a = ap.parse_args()
    if a.binary:
        os.environ["REFRUN_BIN"] = str(Path(a.binary).resolve())
    import numpy as np
    import torch

    import devices
    import refrun

    kind = a.device or ("cuda" if torch.cuda.is_available() else "cpu")
    cuda = kind == "cuda"
    triton = cuda or os.environ.get("TRITON_INTERPRET") == "1"
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    result = {"torch": torch.__version__, "python": platform.python_version(), "device": torch.cuda.get_device_name() if cuda else "CPU", "modes": {}}
    lines = [f"PyTorch {torch.__version__} on {result['device']}; base {a.base}, {a.grid}x{a.grid}, {a.steps} steps, 2 realizations", "",
             "| mode | verdict | as it must be | one step: max, mean | rms over expected | contract | pattern | diagnosis |", "|---|---|---|---|---|---|---|---|"]
    wrong = 0
    for name, (run, must) in modes(torch, devices, cuda, triton).items():
        if a.only and not any(o in name for o in a.only):
            continue
        torch.manual_seed(0)
        op = devices.Operator(base=a.base).eval().to(kind)
        x = torch.randn(2, 3, a.grid, a.grid, device=kind)
        path = out / name
        try:
            options = run(path, op, x, a.steps)
            r = refrun.check(path, report=str(path / "report.html"), **options)
        except Exception as e:  # a mode that this PyTorch refuses is told, not fatal
            traceback.print_exc()
            result["modes"][name] = {"error": f"{type(e).__name__}: {e}"[:400]}
            lines.append(f"| {name} | not run: {type(e).__name__} | | | | | | |")
            continue
        right = r.ok == must
        wrong += not right
        one = r.one_step
        result["modes"][name] = {"verdict": r.verdict, "right": right, "report": r.data}
        lines.append(f"| {name} | {r.verdict} | {'yes' if right else '**no**'} | {one['max_abs']:.3g}, {one['mean_abs']:.3g} | {one['rms_over_expected']} | {r.contract} | {r.pattern} | {r.diagnosis} |")
        print(lines[-1], flush=True)
    if cuda:
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        result["stream"] = stream(torch, np, refrun.binary(), out, sms)
        lines += ["", f"torch-cuda:{sms} against torch.randn: " + "; ".join(f"{r['numbers']} numbers, largest difference {r['max_abs']:.2g}, {100 * r['equal']:.4g} % equal" for r in result["stream"])]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "report.json").write_text(json.dumps(result, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
