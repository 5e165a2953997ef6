"""Times one step of the same CNN operator in refrun, ONNX Runtime, OpenVINO, JAX and PyTorch.

Weights, shapes and threads are the same, inputs change between steps, and the
contestants take turns, so that other load on the machine meets all of them.
Before anything is timed, each has to compute the operator. Prints medians, and
their ratios to the first contestant's.
"""

import argparse
import json
import os
import platform
import re
import statistics
import sys
import tempfile
import time
import warnings
from importlib.metadata import PackageNotFoundError, version

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # no thread spins into the next one's turn

# base channels, kernel size, grid, batch
SHAPES = [(64, 3, 128, 1), (64, 3, 128, 5), (32, 3, 64, 5), (16, 3, 64, 5), (32, 5, 64, 5), (32, 7, 64, 5)]
# with --more: batches, a large grid, and the other norm
MORE = [(32, 3, 128, 1), (32, 3, 128, 2), (32, 3, 128, 8), (32, 3, 128, 16), (32, 3, 256, 1), (32, 3, 128, 1, "group")]

UNIT = {"float32": 2**-24, "tf32": 2**-11, "float16": 2**-11, "bfloat16": 2**-8 / 2}  # half an ulp of 1
PACKAGES = ["onnxruntime", "openvino", "jax", "torch"]


def shape_name(base, k, grid, batch, norm="instance"):
    return f"{base}, {k}x{k}, {batch} x {grid}x{grid}" + (f", {norm} norm" if norm != "instance" else "")


def allowed(precision, net):
    """The RMS distance from float64, over the output's standard deviation, that a contestant may have.

    Some 30 roundings lie on the way through the network; each is a half ulp of a
    number of the size of the data, which norms keep at 1. float32 sums of n
    products err by sqrt(n) of them, in half precision they are float32's. Loose,
    for methods such as Winograd's, and far below what another function would give
    in float32: another GELU makes 1e-3.
    """
    longest = max(p[0].numel() for p in net.parameters() if p.dim() == 4)
    return 30 * UNIT[precision] * (longest**0.5 if precision == "float32" else 1)


def truths(net, inputs):
    """What the network gives in float64 for the first two inputs."""
    import copy

    import torch

    wide = copy.deepcopy(net).double()
    with torch.inference_mode():
        return [wide(torch.from_numpy(x).double()).numpy() for x in inputs[:2]]


def distance(contestant, want):
    """How far its outputs are from these, RMS over their standard deviation: the larger one."""
    return max(float(((contestant.output(k) - y) ** 2).mean() ** 0.5 / y.std()) for k, y in enumerate(want))


def measure(args, base, k, grid, batch, norm="instance"):
    import numpy as np
    import torch
    from safetensors.numpy import save_file

    from contestants import contestants
    from operators import Operator

    torch.manual_seed(base + k)
    net = Operator(base, k, norm).eval()
    shape = (batch, 3, grid, grid)
    inputs = [np.random.default_rng(s).standard_normal(shape, dtype=np.float32) for s in range(3)]
    want, rows, running = truths(net, inputs), {}, {}
    with tempfile.TemporaryDirectory() as case:
        save_file({n: p.numpy() for n, p in net.state_dict().items()}, f"{case}/w.safetensors")
        with open(f"{case}/op.json", "w") as f:
            json.dump({"operator": {"num_layers": 4, "base_channels": base, "kernel_size": k, "grid_size": grid, "normalization": norm},
                       "rollout": {"policy_type": "autoregressive", "num_timesteps": 2, "num_realizations": batch}, "torch": {"version": "2.9.1"}}, f)
        try:
            for name, (make, precision) in contestants(net, inputs, case, args.refrun, args.threads).items():
                if not re.search(args.systems, name):
                    continue
                began = time.perf_counter()
                c = running[name] = make()
                c.step()
                first = time.perf_counter() - began
                far, most = distance(c, want), allowed(precision, net)
                if not far <= most:
                    raise SystemExit(f"{name} computes something else: {far:.3g} of the standard deviation from float64, want at most {most:.3g}")
                rows[name] = {"first": first, "distance": far, "allowed": most}
            for c in running.values():
                c.step()
            times = {name: [] for name in running}
            began = time.monotonic()
            for done in range(args.rounds):
                if done >= 3 and time.monotonic() - began > args.seconds:
                    break
                for name, c in running.items():
                    time.sleep(0.01)
                    if times[name] and times[name][0] < 0.3:
                        c.step()  # now the caches are this one's
                    times[name].append(c.step())
        finally:
            for c in running.values():
                c.close()
    flop = net.flop(inputs[0])
    for name, t in times.items():
        middle = statistics.median(t)
        rows[name] |= {"seconds": middle, "least": min(t), "rounds": len(t), "gflops": flop / middle / 1e9}
    return {"name": shape_name(base, k, grid, batch, norm), "norm": norm, "base": base, "kernel": k, "grid": grid, "batch": batch, "flop": flop, "rows": rows}


def text(r):
    """The figures of one shape, for people."""
    unit = next(iter(r["rows"].values()))["seconds"]
    print(f"\n{r['name']}: {r['flop'] / 1e9:.3g} GFLOP, {next(iter(r['rows'].values()))['rounds']} rounds; load average before {r['load']:.2f}")
    print(f"  {'':24} first result     median       least   GFLOP/s   ratio   from float64 (at most)")
    for name, row in r["rows"].items():
        print(f"  {name:24} {row['first'] * 1e3:8.1f} ms {row['seconds'] * 1e3:8.1f} ms {row['least'] * 1e3:8.1f} ms  {row['gflops']:8.1f} {row['seconds'] / unit:6.2f}x"
              f"   {row['distance']:.1e} ({row['allowed']:.1e})", flush=True)


def brief(v):
    """Three digits, or all before the point."""
    return f"{v:.0f}" if v >= 100 else f"{v:.3g}"


def markdown(where, results):
    """The same for a document: a row a contestant, a column a shape."""
    def line(*cells):
        return "| " + " | ".join(cells) + " |"

    def table(title, cell):
        out = [line(title, *(r["name"] for r in results)), "|---" * (len(results) + 1) + "|"]
        for name in results[0]["rows"]:
            bold = f"**{name}**" if name == "refrun float32" else name
            out.append(line(bold, *(cell(r, name) for r in results)))
        return out

    def later(r, name):
        unit = next(iter(r["rows"].values()))["seconds"]
        return f"{brief(r['rows'][name]['seconds'] * 1e3)} ({r['rows'][name]['seconds'] / unit:.2f})"

    out = [where, "", "Median in milliseconds, in brackets relative to the first row:", ""]
    out += table("base, kernel, batch x grid", later)
    out.append(line("*load average before*", *(f"{r['load']:.2f}" for r in results)))
    out.append(line("*rounds*", *(str(next(iter(r["rows"].values()))["rounds"]) for r in results)))
    out += ["", "Until the first result (loading, compiling, transforming weights), in seconds:", ""]
    out += table("base, kernel, batch x grid", lambda r, name: brief(r["rows"][name]["first"]))
    out += ["", "Distance from the network in float64, RMS over the output's standard deviation:", ""]
    out += table("base, kernel, batch x grid", lambda r, name: f"{r['rows'][name]['distance']:.1e}")
    return "\n".join(out)


def cpu():
    try:
        with open("/proc/cpuinfo") as f:
            return re.search(r"model name\s*: (.*)", f.read())[1]
    except (OSError, TypeError):
        return platform.processor()


def installed(package):
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--refrun", required=True, help="the program")
    a.add_argument("--rounds", type=int, default=5, help="timed steps of each (default 5)")
    a.add_argument("--seconds", type=float, default=40, help="after three rounds, begin no other that long after the first (default 40)")
    a.add_argument("--threads", type=int, default=2, help="of each (default 2)")
    a.add_argument("--only", default="", help="shapes to measure, a regular expression for names such as '32, 3x3, 5 x 64x64'")
    a.add_argument("--more", action="store_true", help="other shapes: batches 1, 2, 8 and 16, a grid of 256, group norm")
    a.add_argument("--systems", default="", help="contestants, a regular expression for names such as 'torch.compile bfloat16'")
    a.add_argument("--markdown", metavar="FILE", nargs="?", const="-", help="print tables for a document at the end, or write them to FILE")
    a.add_argument("--json", metavar="FILE", help="write the figures there")
    args = a.parse_args()
    warnings.filterwarnings("ignore")
    known = MORE if args.more else SHAPES
    shapes = [s for s in known if re.search(args.only, shape_name(*s))]
    if not shapes:
        raise SystemExit("--only: matches no shape: want one of " + "; ".join(shape_name(*s) for s in known))
    os.environ["NPROC"] = str(args.threads)  # XLA's threads
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import torch

    torch.set_num_threads(args.threads)
    where = f"{cpu()}, {args.threads} threads of {os.cpu_count()}; " + ", ".join(map(installed, PACKAGES))
    print(where, flush=True)
    results = []
    for s in shapes:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        results.append(measure(args, *s) | {"load": load})
        text(results[-1])
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"where": where, "results": results}, f, indent=1)
    if args.markdown:
        table = markdown(where, results)
        if args.markdown == "-":
            print("\n" + table)
        else:
            with open(args.markdown, "w") as f:
                f.write(table + "\n")


if __name__ == "__main__":
    sys.exit(main())
