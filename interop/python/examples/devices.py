"""One operator on several devices, each checked: PyTorch eager (float32,
bfloat16, float16; channels_last), torch.compile, JAX, ONNX Runtime.

    python devices.py [--out DIR] [--grid 32] [--steps 6] [--only NAME ...]

Prints a row a device: the verdict, and which arithmetic the device keeps. A
device whose package is not installed is a row that says so. Exits with 1 if one
that ran does not pass.
"""

import argparse
import contextlib
import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import refrun


class Noise(nn.Module):
    """Adds noise that is drawn, or given, for frameworks with another generator."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x + torch.randn_like(x) * self.scale


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.GELU())
        self.b = nn.Sequential(nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.GELU())
        self.projection = nn.Conv2d(cin, cout, 1, bias=False)

    def forward(self, x):
        return self.b(self.a(x)) + self.projection(x)


class Operator(nn.Module):
    def __init__(self, base=8, noise=0.02):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, base, 3, padding=1, bias=False), nn.InstanceNorm2d(base, affine=True), nn.GELU())
        self.middle = Residual(base, 2 * base)
        self.noise = Noise(noise)
        self.out = nn.Conv2d(2 * base, 3, 1)

    def hidden(self, x):
        return self.middle(self.first(x))

    def forward(self, x):
        return self.out(self.noise(self.hidden(x)))


ALPHA = 0.5


def torch_device(path, op, x, steps, precision="float32", dtype=None, compiled=False, own_noise=False, channels_last=False, mode=None, run=None, seed=4100):
    """Rolls out and records; run is a module of other kernels in place of op.

    Compiled code draws PyTorch's noise, which is recorded, or with own_noise
    what its kernels draw by themselves, which is checked by its statistics.
    """
    f = run if run is not None else torch.compile(op, mode=mode) if compiled else op
    if channels_last:
        f, x = f.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    device = x.device.type
    with contextlib.ExitStack() as stack:
        if compiled:
            torch._dynamo.reset()
            stack.enter_context(torch._inductor.config.patch(fallback_random=not own_noise))
            # PyTorch 2.9's cache takes code compiled for one type of autocast on the CPU for the other's.
            stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        rec = stack.enter_context(refrun.record(path, f, alpha=ALPHA, precision=precision, autocast=device if precision in ("float16", "bfloat16") else None,
                                                layers=not compiled and run is None, like=op))
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(device, dtype, enabled=dtype is not None))
        torch.manual_seed(seed)
        for _ in range(steps):
            x = ALPHA * x + (1 - ALPHA) * f(x)
        rec.finish(x)


def parameters(op):
    return {k: v.detach().numpy() for k, v in op.state_dict().items()}


def arrays_device(path, op, x, steps, step):
    """A device that is a function of arrays: step(x, noise) -> O(x)."""
    d = refrun.describe(op)
    case = refrun.Case(path, d.operator, policy_type="convex", alpha=ALPHA, precision="float32")
    case.weights(d.weights)
    rng = np.random.default_rng(7)
    x = x.numpy()
    channels = op.out.in_channels
    states, tape = [x], []
    for _ in range(steps):
        n = rng.standard_normal((x.shape[0], channels, *x.shape[2:])).astype(np.float32)
        x = (np.float32(ALPHA) * x + np.float32(1 - ALPHA) * np.asarray(step(x, n))).astype(np.float32)
        tape.append(n)
        states.append(x)
    case.states(np.stack(states, 1))
    case.noise([np.stack(tape)])
    case.close()


def jax_device(path, op, x, steps):
    import jax
    import jax.numpy as jnp

    p = parameters(op)

    def conv(x, w, pad):
        return jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"), precision="highest")

    def norm(x, name):
        m = x.mean((2, 3), keepdims=True)
        v = ((x - m) ** 2).mean((2, 3), keepdims=True)
        return (x - m) / jnp.sqrt(v + 1e-5) * p[name + ".weight"][None, :, None, None] + p[name + ".bias"][None, :, None, None]

    def block(x, name):
        return jax.nn.gelu(norm(conv(x, p[name + ".0.weight"], 1), name + ".1"), approximate=False)

    @jax.jit
    def step(x, n):
        x = block(x, "first")
        x = block(block(x, "middle.a"), "middle.b") + conv(x, p["middle.projection.weight"], 0)
        return conv(x + n * np.float32(op.noise.scale), p["out.weight"], 0) + p["out.bias"][None, :, None, None]

    arrays_device(path, op, x, steps, step)


def onnx_device(path, op, x, steps):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []
    p = parameters(op)

    def add(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def conv(x, name, pad, bias=False):
        inputs = [x, constant(name + ".weight", p[name + ".weight"])] + ([constant(name + ".bias", p[name + ".bias"])] if bias else [])
        return add("Conv", inputs, name, pads=[pad] * 4)

    def block(x, name):
        y = conv(x, name + ".0", 1)
        y = add("InstanceNormalization", [y, constant(name + ".1.weight", p[name + ".1.weight"]), constant(name + ".1.bias", p[name + ".1.bias"])], name + ".1", epsilon=1e-5)
        return add("Gelu", [y], name + ".2")

    first = block("x", "first")
    hidden = add("Add", [block(block(first, "middle.a"), "middle.b"), conv(first, "middle.projection", 0)], "middle")
    noisy = add("Add", [hidden, add("Mul", ["n", constant("scale", op.noise.scale)], "scaled")], "noisy")
    out = conv(noisy, "out", 0, bias=True)
    shape = [None, None, None, None]
    graph = helper.make_graph(nodes, "operator", [helper.make_tensor_value_info(k, TensorProto.FLOAT, shape) for k in ("x", "n")],
                              [helper.make_tensor_value_info(out, TensorProto.FLOAT, shape)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    arrays_device(path, op, x, steps, lambda x, n: session.run(None, {"x": x, "n": n})[0])


def devices(cuda):
    """name: (function of path, op, x, steps that records; the packages that it needs beside torch)."""
    half, brain = {"precision": "float16", "dtype": torch.float16}, {"precision": "bfloat16", "dtype": torch.bfloat16}
    d = {
        "torch-float32": {},
        "torch-float32-channels-last": {"channels_last": True},
        "torch-bfloat16": brain,
        "torch-float16": half,
        "compile-float32": {"compiled": True},
        "compile-bfloat16": {"compiled": True, **brain},
        "compile-float16": {"compiled": True, **half},
        "compile-float32-own-noise": {"compiled": True, "own_noise": True},
        "compile-bfloat16-own-noise": {"compiled": True, "own_noise": True, **brain},
    }
    d = {name: (functools.partial(torch_device, **options), []) for name, options in d.items()}
    if not cuda:
        d["jax-float32"] = jax_device, ["jax"]
        d["onnxruntime-float32"] = onnx_device, ["onnxruntime", "onnx"]
    return d


HEAD = f"{'device':28} {'verdict':16} {'max error':>10} {'of expected':>12}  arithmetic"


def row(name, r):
    """A line of the table: errors of one step against exact arithmetic, and what the device was seen to do."""
    arithmetic = "; ".join(t for t in (r.contract, r.diagnosis) if t)
    return f"{name:28} {r.verdict:16} {r.one_step['max_abs']:10.2e} {r.one_step['rms_over_expected']:12.3f}  {arithmetic}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default="devices")
    ap.add_argument("--grid", type=int, default=32)
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--only", nargs="*", help="parts of names")
    ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = ap.parse_args()
    failed = 0
    print(HEAD)
    for name, (run, needs) in devices(a.device == "cuda").items():
        if a.only and not any(o in name for o in a.only):
            continue
        missing = [p for p in needs if importlib.util.find_spec(p) is None]
        if missing:
            print(f"{name:28} not run: {' and '.join(missing)} not installed", flush=True)
            continue
        torch.manual_seed(0)
        op = Operator().eval().to(a.device)
        x = torch.randn(2, 3, a.grid, a.grid, device=a.device)
        run(Path(a.out) / name, op, x, a.steps)
        r = refrun.check(Path(a.out) / name)
        failed += not r.ok
        print(row(name, r), flush=True)
        if not r.ok:
            print(r.reason)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
