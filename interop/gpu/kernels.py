"""Records what PyTorch's kernels of this machine's GPU return, eager and compiled, in four formats, as files that
`refrun kernel` judges.

    python kernels.py --out DIR [--device cuda] [--only NAME ...] [--compiled] [--no-judge]

Leaves DIR/NAME.safetensors, the function's NAME.chain.json beside it, and DIR/index.json: for each file what computed it, its
precision, whether it must pass, and with a judge the verdict. Each function runs as it is written here, on inputs of the
format. TF32 is float32 with TF32 allowed, and the same result sold as float32 is a fault. Faults are those that people
have made: see FAULTS. Exits with 1 if a verdict is not the one that it must be.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "python" / "src")]

import torch
import torch.nn.functional as F

import refrun
from refrun.binary import binary
from refrun.case import write_safetensors
from refrun.kernel import _tensor, _traced

FORMATS = {"float32": torch.float32, "tf32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def n(*shape, scale=1.0, shift=0.0):
    return lambda g: torch.randn(*shape, generator=g) * scale + shift


def u(*shape):
    return lambda g: torch.rand(*shape, generator=g) + 0.05


def ints(high, *shape):
    return lambda g: torch.randint(high, shape, generator=g)


def attention(**more):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **more)


def by(backend, **more):
    """Attention by one of PyTorch's backends on a GPU; on a CPU by its own."""

    def f(q, k, v):
        if not q.is_cuda:
            return F.scaled_dot_product_attention(q, k, v, **more)
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, backend)):
            return F.scaled_dot_product_attention(q, k, v, **more)

    return f


def last(x):  # channels last
    return x.contiguous(memory_format=torch.channels_last)


def conv(**more):
    return lambda x, w, b: F.conv2d(x, w, b, **more)


def conv_last(x, w, b):
    return F.conv2d(last(x), last(w), b, padding=1)


def rms(x, w):
    return F.rms_norm(x, [x.shape[-1]], w, 1e-5)


def layer(x, w, b):
    return F.layer_norm(x, [x.shape[-1]], w, b)


def mlp(x, w, u, v):
    return F.linear(F.silu(F.linear(x, w)) * F.linear(x, u), v)


def block(x, w, g, s):
    return F.gelu(F.group_norm(F.conv2d(x, w, padding=1), 4, g, s)) + x


def spectrum(x, w):
    return torch.fft.irfft2(torch.fft.rfft2(x.float()) * w.float(), s=x.shape[-2:]).to(x.dtype)


def gathered(x, at):
    return x[at]


def added(x, at, y):
    return x.index_add(0, at, y)


C = 16
PRODUCT = {  # function, inputs: matrix units have a part in it
    "matmul": (torch.matmul, n(48, 96), n(96, 40)),
    "matmul_long": (torch.matmul, n(16, 2048), n(2048, 16)),
    "matmul_odd": (torch.matmul, n(37, 131), n(131, 29)),
    "matmul_square": (torch.matmul, n(128, 128), n(128, 128)),
    "matmul_one_sign": (torch.matmul, u(32, 512), u(512, 24)),
    "matvec": (torch.matmul, n(64, 257), n(257)),
    "bmm": (torch.bmm, n(4, 24, 64), n(4, 64, 20)),
    "addmm": (torch.addmm, n(40), n(32, 80), n(80, 40)),
    "linear": (F.linear, n(33, 120), n(48, 120, scale=.1), n(48)),
    "linear_gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), n(33, 120), n(48, 120, scale=.1), n(48)),
    "linear_relu": (lambda x, w, b: F.relu(F.linear(x, w, b)), n(33, 120), n(48, 120, scale=.1), n(48)),
    "mlp": (mlp, n(24, 64), n(96, 64, scale=.12), n(96, 64, scale=.12), n(64, 96, scale=.1)),
    "einsum": (lambda a, b: torch.einsum("bik,bjk->bij", a, b), n(3, 20, 48), n(3, 18, 48)),
    "conv2d": (conv(padding=1), n(2, C, 16, 16), n(12, C, 3, 3, scale=.1), n(12)),
    "conv2d_wide": (conv(padding=1), n(1, 64, 12, 12), n(64, 64, 3, 3, scale=.04), n(64)),
    "conv2d_channels_last": (conv_last, n(2, C, 16, 16), n(16, C, 3, 3, scale=.1), n(16)),
    "conv2d_1x1": (conv(), n(2, 24, 9, 11), n(16, 24, 1, 1, scale=.2), n(16)),
    "conv2d_5x5": (conv(padding=2), n(1, 8, 14, 14), n(8, 8, 5, 5, scale=.07), n(8)),
    "conv2d_stride": (conv(padding=1, stride=2), n(2, C, 15, 15), n(12, C, 3, 3, scale=.1), n(12)),
    "conv2d_dilated": (conv(padding=2, dilation=2), n(1, C, 14, 14), n(12, C, 3, 3, scale=.1), n(12)),
    "conv2d_depthwise": (conv(padding=1, groups=C), n(2, C, 13, 13), n(C, 1, 3, 3, scale=.3), n(C)),
    "conv2d_groups": (conv(padding=1, groups=4), n(2, C, 13, 13), n(16, 4, 3, 3, scale=.2), n(16)),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding=2), n(2, 12, 60), n(16, 12, 5, scale=.15), n(16)),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b, padding=1), n(1, 6, 7, 8, 9), n(8, 6, 3, 3, 3, scale=.1), n(8)),
    "conv_transpose2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), n(2, 12, 9, 9), n(12, 8, 2, 2, scale=.2), n(8)),
    "conv_transpose2d_3x3": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1), n(1, 12, 9, 9), n(12, 8, 3, 3, scale=.2), n(8)),
    "conv_norm_gelu_skip": (block, n(2, C, 12, 12), n(C, C, 3, 3, scale=.1), n(C, shift=1), n(C)),
    "attention": (attention(), n(1, 2, 48, 32), n(1, 2, 48, 32), n(1, 2, 48, 32)),
    "attention_causal": (attention(is_causal=True), n(1, 2, 50, 32), n(1, 2, 50, 32), n(1, 2, 50, 32)),
    "attention_math": (by("MATH"), n(1, 2, 40, 32), n(1, 2, 40, 32), n(1, 2, 40, 32)),
    "attention_efficient": (by("EFFICIENT_ATTENTION"), n(1, 2, 72, 32), n(1, 2, 72, 32), n(1, 2, 72, 32)),
    "attention_flash": (by("FLASH_ATTENTION"), n(1, 2, 72, 64), n(1, 2, 72, 64), n(1, 2, 72, 64)),
    "attention_cudnn": (by("CUDNN_ATTENTION"), n(1, 2, 72, 64), n(1, 2, 72, 64), n(1, 2, 72, 64)),
    "attention_long": (attention(), n(1, 1, 24, 32), n(1, 1, 300, 32), n(1, 1, 300, 32)),
    "attention_one_sign": (attention(), u(1, 2, 40, 32), u(1, 2, 40, 32), u(1, 2, 40, 32)),
    "attention_5d": (attention(), n(1, 3, 2, 20, 16), n(1, 3, 2, 20, 16), n(1, 3, 2, 20, 16)),
}
OTHER = {
    "layer_norm": (layer, n(40, 200, shift=1), n(200, shift=1), n(200)), "layer_norm_odd": (layer, n(29, 77, shift=3), n(77, shift=1), n(77)), "layer_norm_1024": (layer, n(8, 1024), n(1024, shift=1), n(1024)),
    "rms_norm": (rms, n(40, 200), n(200, shift=1)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), n(2, C, 12, 12, shift=1), n(C, shift=1), n(C)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), n(2, C, 12, 12, shift=1), n(C, shift=1), n(C)),
    "batch_norm": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), n(3, C, 9, 9), n(C), u(C), n(C, shift=1), n(C)),
    "batch_norm_training": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), n(3, C, 9, 9, shift=2), n(C, shift=1), n(C)),
    "softmax": (lambda x: F.softmax(x, -1), n(40, 200, scale=3)), "softmax_long": (lambda x: F.softmax(x, -1), n(4, 3000, scale=3)), "softmax_axis": (lambda x: F.softmax(x, 1), n(8, 30, 40)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), n(40, 200, scale=3)), "logsumexp": (lambda x: torch.logsumexp(x, -1), n(40, 200, scale=3)),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t, reduction="none"), n(40, 200, scale=2), ints(200, 40)),
    "sum": (lambda x: x.sum(-1), n(64, 500)), "sum_axis": (lambda x: x.sum(0), n(300, 64)), "mean": (lambda x: x.mean(-1), n(64, 500, shift=1)), "mean_all": (lambda x: x.mean((2, 3)), n(4, 8, 20, 20)),
    "var": (lambda x: x.var(-1), n(64, 300, shift=1)), "std": (lambda x: x.std(-1), n(64, 300, shift=1)), "norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), n(64, 300)),
    "prod": (lambda x: x.prod(-1), n(64, 12)), "cumsum": (lambda x: x.cumsum(-1), n(12, 300)), "cumsum_axis": (lambda x: x.cumsum(0), n(200, 16)), "cumprod": (lambda x: x.cumprod(-1), n(16, 12, shift=1, scale=.3)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), n(2, 6, 15, 15)), "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), n(2, 6, 15, 15)), "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 5), n(2, 6, 17, 13)),
    "bilinear": (lambda x: F.interpolate(x, size=(23, 31), mode="bilinear"), n(1, 4, 13, 17)), "bilinear_corners": (lambda x: F.interpolate(x, size=(23, 31), mode="bilinear", align_corners=True), n(1, 4, 13, 17)),
    "bilinear_half": (lambda x: F.interpolate(x, scale_factor=.5, mode="bilinear"), n(1, 4, 14, 18)), "bicubic": (lambda x: F.interpolate(x, size=(19, 23), mode="bicubic"), n(1, 4, 13, 17)),
    "antialias": (lambda x: F.interpolate(x, size=(9, 7), mode="bilinear", antialias=True), n(1, 4, 21, 17)), "nearest": (lambda x: F.interpolate(x, scale_factor=2.), n(1, 4, 9, 9)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), n(1, 4, 13, 17), n(1, 12, 12, 2, scale=.6)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), n(1, 16, 7, 7)),
    "index_add": (added, n(20, 32), ints(20, 300), n(300, 32)), "index_add_zeros": (lambda at, y: y.new_zeros(20, 32).index_add(0, at, y), ints(20, 300), n(300, 32)),
    "scatter_add": (lambda x, at, y: x.scatter_add(1, at, y), n(24, 10), ints(10, 24, 120), n(24, 120)), "gather": (gathered, n(40, 24), ints(40, 90)), "embedding": (lambda w, at: F.embedding(at, w), n(50, 32), ints(50, 70)),
    "rfft_product": (spectrum, n(2, 4, 16, 16), n(16, 9)),
    "swiglu": (lambda a, b: F.silu(a) * b, n(40, 100), n(40, 100)), "geglu": (lambda a, b: F.gelu(a, approximate="tanh") * b, n(40, 100), n(40, 100)),
    "bias_gelu": (lambda x, b: F.gelu(x + b), n(40, 100), n(100)), "add_layer_norm": (lambda x, r, w, b: layer(x + r, w, b), n(30, 120), n(30, 120), n(120, shift=1), n(120)),
    "lerp": (lambda x, y: torch.lerp(x, y, .3), n(40, 100), n(40, 100)), "addcmul": (lambda x, a, b: torch.addcmul(x, a, b, value=.7), n(40, 100), n(40, 100), n(40, 100)),
    "affine_tanh": (lambda x: torch.tanh(1.7 * x + .3), n(40, 100)), "convex": (lambda x, y: .9 * x + (1 - .9) * y, n(40, 100), n(40, 100)), "hypot": (torch.hypot, n(40, 100), n(40, 100)),
    "pow3": (lambda x: x ** 3, n(40, 100)), "pow_half": (lambda x: x ** 1.5, u(40, 100)), "div": (torch.div, n(40, 100), u(40, 100)), "atan2": (torch.atan2, n(40, 100), n(40, 100)),
    "huber": (lambda x, y: F.huber_loss(x, y, reduction="none"), n(40, 100), n(40, 100)), "cosine": (lambda x, y: F.cosine_similarity(x, y), n(40, 100), n(40, 100)),
}
for name in "gelu silu mish softplus elu selu hardswish leaky_relu sigmoid tanh relu6 logsigmoid softsign".split():
    OTHER[name] = getattr(F, name), n(40, 200, scale=2)
OTHER["gelu_tanh"] = lambda x: F.gelu(x, approximate="tanh"), n(40, 200, scale=2)
for name in "exp expm1 sin cos erf tan atan sinh cosh asinh exp2 square reciprocal erfc".split():
    OTHER[name] = getattr(torch, name), n(40, 200)
for name in "log log1p log2 log10 sqrt rsqrt".split():
    OTHER[name] = getattr(torch, name), u(40, 200)


def flags(tf32):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def tile(y):
    y = y.clone()
    y.reshape(y.shape[0], -1)[-8:, -8:] = 0
    return y


# What changes a right output, and what computes a wrong one: by name, what it needs.
FAULTS = {"a tile not written": tile, "times 1.002": lambda y: y * 1.002, "rounded to bfloat16": lambda y: y.bfloat16().to(y.dtype), "one row of the one before": lambda y: torch.cat([y[:1], y[:1], y[2:]])}


def worse(f, inputs, y, changed):
    """Whether a fault at least doubles the mean square error to float64."""
    truth = f(*[x.double() if x.is_floating_point() else x for x in inputs])
    error = lambda y: torch.where(y.double() == truth, 0, y.double() - truth).pow(2).mean().item()
    return error(changed) > 2 * error(y)


def write(out, name, traced, output, **more):
    """A question for refrun kernel: its file, its chain, and its line of the index."""
    net, feed = traced
    write_safetensors(out / f"{name}.safetensors", {**{k: _tensor(v, k) for k, v in feed.items()}, "output": _tensor(output, "output")})
    if net is not None:
        net.save(out / f"{name}.chain.json")
    return {"name": name, **more}


def gradients(out, name, f, inputs, there, g, precision, judge):
    """What autograd returns for a random gradient of the output: inputs, output, grad_output, and each input's gradient. With
    a judge the verdict."""
    wanted = [x.requires_grad_() for x in there if x.is_floating_point()]
    y = f(*there)
    gy = torch.randn(y.shape, generator=g).to(y.dtype)
    grads = torch.autograd.grad(y, wanted, gy.to(y.device), allow_unused=True)
    at = [i for i, x in enumerate(inputs) if x.is_floating_point()]
    kept = {f"input.{i}": x for i, x in enumerate(inputs)} | {"output": y, "grad_output": gy} | {f"grad.{i}": x for i, x in zip(at, grads) if x is not None}
    write_safetensors(out / f"{name}_grad.safetensors", {k: _tensor(v, k) for k, v in kept.items()})
    entry = {"name": name + "_grad", "precision": precision}
    if not judge:
        return entry
    began, given = time.time(), dict(zip(at, grads))
    try:
        r = refrun.check_grad(f, [x.detach() for x in inputs], [gy], [given.get(i) for i in range(len(inputs))], **({"precision": "tf32"} if precision == "tf32" else {}))
    except ValueError as e:
        return {**entry, "error": f"not judged: {e}"[:300]}
    return {**entry, "verdict": r.verdict, "contract": r.data.get("contract"), "named": r.data.get("fault"), "reason": (r.data.get("reason") or "")[:300], "seconds": round(time.time() - began, 2),
            "as it must be": r.ok or r.verdict == "NO-POWER"}


def traced(f, inputs):
    """The graph of a function and its inputs by name; without a graph where refrun takes none, and why."""
    try:
        return _traced(f, inputs, {}), ""
    except Exception as e:
        return (None, {f"input.{i}": x for i, x in enumerate(inputs)}), f"{type(e).__name__}: {e}"[:300]


def judged(out, entry):
    args = [binary(), "kernel", str(out / f"{entry['name']}.safetensors"), "--graph", str(out / f"{entry['name']}.chain.json"), "--json", "--threads", "1"]
    if entry["precision"] == "tf32":
        args += ["--precision", "tf32"]
    began = time.time()
    done = subprocess.run(args, capture_output=True, text=True)
    r = json.loads(done.stdout) if done.stdout.startswith("{") else {"verdict": "error", "reason": done.stderr.strip()[:300]}
    must = entry["must"]  # None: nothing is asked
    return {**entry, "verdict": r["verdict"], "contract": r.get("contract"), "named": r.get("fault"), "reason": (r.get("reason") or "")[:300], "seconds": round(time.time() - began, 2),
            "as it must be": must is None or r["verdict"].startswith("PASS" if must else "FAIL") or r["verdict"] == "NO-POWER"}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--compiled", action="store_true", help="torch.compile's kernels in place of eager ones")
    p.add_argument("--gradients", action="store_true", help="of the same functions, by autograd")
    p.add_argument("--no-judge", action="store_true")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--part", default="0/1", help="I/N: every Nth from the Ith")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    entries, machine = [], torch.cuda.get_device_name() if a.device == "cuda" else "CPU"
    part, parts = map(int, a.part.split("/"))
    index = lambda: json.dump({"torch": torch.__version__, "device": machine, "compiled": a.compiled, "seed": a.seed, "kernels": entries}, open(out / f"index{part}.json", "w"), indent=1)
    for i, (name, (f, *makers)) in enumerate({**PRODUCT, **OTHER}.items()):
        if a.only and name not in a.only or i % parts != part:
            continue
        for precision, dtype in FORMATS.items():
            if precision == "tf32" and name not in PRODUCT:
                continue
            full = f"{name}_{precision}" + a.compiled * "_compiled"
            try:
                g = torch.Generator().manual_seed(a.seed)
                inputs = [m(g) for m in makers]
                inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
                flags(precision == "tf32")
                there, run = [x.to(a.device) for x in inputs], f
                if a.gradients:
                    entries.append(gradients(out, full, f, inputs, there, g, precision, not a.no_judge))
                    continue
                if a.compiled:
                    torch._dynamo.reset()
                    run = torch.compile(f, dynamic=False)
                with torch.no_grad():
                    y = run(*there).cpu()
                ieee = None
                if precision == "tf32" and a.device == "cuda":
                    flags(False)
                    torch._dynamo.reset()
                    with torch.no_grad():
                        ieee = run(*there).cpu()
                graph, why = traced(f, inputs)
                why = {"error": why} if why else {}
                entries.append(write(out, full, graph, y, precision=precision, must=True, **why))
                if ieee is not None and worse(f, inputs, ieee, y):  # for small ones libraries use no TF32, allowed or not
                    entries.append(write(out, full + "_sold_as_float32", graph, y, precision="float32", must=False, **why))
                for k, (fault, change) in enumerate(FAULTS.items()):
                    if not why and not a.compiled and (i + k) % 4 == 0 and precision != "tf32" and y.shape[0] > 2 and worse(f, inputs, y, change(y)):
                        entries.append(write(out, f"{full}_{fault.replace(' ', '_').replace('.', '')}", graph, change(y), precision=precision, must=False))
            except Exception as e:  # a kernel that this PyTorch refuses is told, and fails nothing else
                entries.append({"name": full, "error": f"{type(e).__name__}: {e}"[:300]})
                if os.environ.get("TRACE"):
                    traceback.print_exc()
        index()
    if not a.no_judge:
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            entries[:] = pool.map(lambda e: e if "error" in e or "must" not in e else judged(out, e), entries)
        index()
    bad = [e for e in entries if not e.get("as it must be", True)]
    for e in bad + [e for e in entries if "error" in e]:
        print({k: v for k, v in e.items() if v is not None})
    print(f"{len(entries)} of {machine}, {len(bad)} not as they must be, {sum('error' in e for e in entries)} that did not run", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
