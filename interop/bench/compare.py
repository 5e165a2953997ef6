"""Times one step of the same CNN operator in refrun, ONNX Runtime and PyTorch.

Weights, shapes and threads are the same, inputs change between steps, and the
contestants take turns, so that other load on the machine meets all of them. The
outputs are compared before anything is timed. Prints medians, and their ratios
to ONNX Runtime in float32.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # no thread spins into the next one's turn

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

# base channels, kernel size, grid, batch
SHAPES = [(64, 3, 128, 1), (64, 3, 128, 5), (32, 3, 64, 5), (16, 3, 64, 5), (32, 5, 64, 5), (32, 7, 64, 5)]


class ConvBlock(torch.nn.Module):
    def __init__(self, i, o, k):
        super().__init__()
        self.block = torch.nn.Sequential(
            torch.nn.Conv2d(i, o, k, padding=k // 2, bias=False), torch.nn.InstanceNorm2d(o, affine=True), torch.nn.GELU())

    def forward(self, x):
        return self.block(x)


class ResidualBlock(torch.nn.Module):
    def __init__(self, i, o, k):
        super().__init__()
        self.blocks = torch.nn.Sequential(ConvBlock(i, o, k), ConvBlock(o, o, k))
        self.projection = torch.nn.Conv2d(i, o, 1, bias=False) if i != o else torch.nn.Identity()

    def forward(self, x):
        return self.blocks(x) + self.projection(x)


class Output(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = torch.nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class Operator(torch.nn.Module):
    """Spinlock's CNN operator of 4 layers, instance norm and GELU, without its noise."""

    def __init__(self, base, k):
        super().__init__()
        widths = [base, base, 2 * base, 4 * base, 4 * base]
        self.conv_blocks = torch.nn.Sequential(
            ConvBlock(3, base, k), *[ResidualBlock(i, o, k) for i, o in zip(widths, widths[1:])])
        self.output_layer = Output(4 * base, 3)

    def forward(self, x):
        return self.output_layer(self.conv_blocks(x))


def onnx_model(net, shape):
    """The same operator as an ONNX graph, node by node."""
    nodes, weights = [], []

    def node(op, inputs, **attributes):
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def given(p):
        weights.append(numpy_helper.from_array(p.detach().numpy(), f"w{len(weights)}"))
        return weights[-1].name

    def conv(m, x):
        k = m.kernel_size[0]
        return node("Conv", [x, given(m.weight)] + ([given(m.bias)] if m.bias is not None else []), kernel_shape=[k, k], pads=[k // 2] * 4)

    def block(m, x):
        c, n, _ = m.block
        x = node("InstanceNormalization", [conv(c, x), given(n.weight), given(n.bias)], epsilon=n.eps)
        return node("Gelu", [x])

    def residual(m, x):
        y = x
        for b in m.blocks:
            y = block(b, y)
        return node("Add", [y, conv(m.projection, x) if isinstance(m.projection, torch.nn.Conv2d) else x])

    x = block(net.conv_blocks[0], "x")
    for m in list(net.conv_blocks)[1:]:
        x = residual(m, x)
    x = conv(net.output_layer.conv, x)
    graph = helper.make_graph(nodes, "operator", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


class Refrun:
    """A child process that takes a step for each line and answers its seconds."""

    def __init__(self, program, case, precision, grid, batch, threads):
        half = ["--autocast", "cpu:2.x"] if precision.endswith("float16") else []
        self.name = f"refrun {precision}"
        self.child = subprocess.Popen(
            [program, "bench", "--lines", "--config", f"{case}/op.json", "--weights", f"{case}/w.safetensors", "--precision", precision,
             "--grid", str(grid), "--batch", str(batch), "--threads", str(threads), *half],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Local:
    """A function of this process, given three inputs in turn."""

    def __init__(self, name, f, inputs):
        self.name, self.f, self.inputs, self.n = name, f, inputs, 0

    def step(self):
        self.n += 1
        x = self.inputs[self.n % len(self.inputs)]
        began = time.perf_counter()
        self.f(x)
        return time.perf_counter() - began

    def close(self):
        pass


def session(model, threads):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    o.add_session_config_entry("session.force_spinning_stop", "1")  # between calls; within one they may spin
    return onnxruntime.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def check(args, case, net, sess, x):
    """Returns how far ONNX Runtime and PyTorch are from refrun, RMS over the output's std."""
    save_file({"x0": x[0]}, f"{case}/x0.safetensors")
    subprocess.run([args.refrun, "run", "--config", f"{case}/op.json", "--weights", f"{case}/w.safetensors", "--x0", f"{case}/x0.safetensors",
                    "--noise", "none", "-o", f"{case}/out.safetensors", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    ours = load_file(f"{case}/out.safetensors")["trajectory"][0, 1]
    far = {}
    for name, theirs in {"onnxruntime": sess.run(None, {"x": x})[0][0], "torch": net(torch.from_numpy(x)).numpy()[0]}.items():
        far[name] = float(np.sqrt(np.mean((ours.astype(np.float64) - theirs) ** 2)) / ours.std())
        if not far[name] < 1e-5:
            raise SystemExit(f"{name} computes something else: RMS difference {far[name]:.3g} of the standard deviation")
    return far


def measure(args, base, k, grid, batch):
    torch.manual_seed(base + k)
    net = Operator(base, k).eval()
    shape = (batch, 3, grid, grid)
    inputs = [np.random.default_rng(s).standard_normal(shape, dtype=np.float32) for s in range(3)]
    tensors = [torch.from_numpy(x) for x in inputs]
    with tempfile.TemporaryDirectory() as case:
        save_file({n: p.numpy() for n, p in net.state_dict().items()}, f"{case}/w.safetensors")
        with open(f"{case}/op.json", "w") as f:
            json.dump({"operator": {"num_layers": 4, "base_channels": base, "kernel_size": k, "grid_size": grid},
                       "rollout": {"policy_type": "autoregressive", "num_timesteps": 2, "num_realizations": 1}, "torch": {"version": "2.9.1"}}, f)
        sess = session(onnx_model(net, shape), args.threads)
        with torch.inference_mode():
            far = check(args, case, net, sess, inputs[0])
        sess = session(onnx_model(net, shape), args.threads)  # a new one, whose first call is timed

        def eager(x):
            with torch.inference_mode():
                net(x)

        def autocast(x):
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
                net(x)

        all_ = [Local("onnxruntime float32", lambda x: sess.run(None, {"x": x}), inputs), Local("torch float32", eager, tensors)]
        all_ += [Local("torch bfloat16", autocast, tensors)]
        if args.compile:
            compiled = torch.compile(net)

            def fused(x):
                with torch.inference_mode():
                    compiled(x)

            all_ += [Local("torch.compile float32", fused, tensors)]
        all_ += [Refrun(args.refrun, case, p, grid, batch, args.threads) for p in args.precisions.split(",")]
        rows = {}
        try:
            for c in all_:
                rows[c.name] = {"first": c.step()}
                c.step()
            times = {c.name: [] for c in all_}
            for _ in range(args.rounds):
                for c in all_:
                    time.sleep(0.01)
                    if rows[c.name]["first"] < 0.3:
                        c.step()  # now the caches are this one's
                    times[c.name].append(c.step())
        finally:
            for c in all_:
                c.close()
    flop = 2 * batch * grid * grid * sum(p.numel() for n, p in net.named_parameters() if p.dim() == 4)
    for name, t in times.items():
        rows[name] |= {"seconds": statistics.median(t), "least": min(t), "gflops": flop / statistics.median(t) / 1e9}
    return {"base": base, "kernel": k, "grid": grid, "batch": batch, "flop": flop, "distance": far, "rows": rows}


def cpu():
    try:
        with open("/proc/cpuinfo") as f:
            return re.search(r"model name\s*: (.*)", f.read())[1]
    except (OSError, TypeError):
        return platform.processor()


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--refrun", required=True, help="the program")
    a.add_argument("--rounds", type=int, default=7, help="timed steps of each (default 7)")
    a.add_argument("--threads", type=int, default=2, help="of each (default 2)")
    a.add_argument("--only", default="", help="shapes to measure, a regular expression")
    a.add_argument("--precisions", default="float32,tf32,float16,bfloat16", help="of refrun")
    a.add_argument("--compile", action="store_true", help="torch.compile as well; needs a C++ compiler and a minute for each shape")
    a.add_argument("--json", metavar="FILE", help="write the figures there")
    args = a.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    where = f"{cpu()}, {args.threads} threads of {os.cpu_count()}; onnxruntime {onnxruntime.__version__}, torch {torch.__version__}"
    print(where)
    results = []
    for base, k, grid, batch in SHAPES:
        what = f"base {base}, {k}x{k} kernels, {grid}x{grid}, batch {batch}"
        if not re.search(args.only, what):
            continue
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        r = measure(args, base, k, grid, batch) | {"load": load}
        results.append(r)
        print(f"\n{what}: {r['flop'] / 1e9:.3g} GFLOP; load average {load:.2f}; RMS from refrun " +
              ", ".join(f"{n} {d:.1e}" for n, d in r["distance"].items()))
        print("                          first call      median       least   GFLOP/s   against ONNX Runtime")
        unit = r["rows"]["onnxruntime float32"]["seconds"]
        for name, row in r["rows"].items():
            print(f"  {name:22}  {row['first'] * 1e3:9.1f} ms {row['seconds'] * 1e3:8.1f} ms {row['least'] * 1e3:8.1f} ms  {row['gflops']:8.1f}   {row['seconds'] / unit:6.2f}x")
    if not results:
        raise SystemExit("--only: matches no shape")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"where": where, "results": results}, f, indent=1)


main()
