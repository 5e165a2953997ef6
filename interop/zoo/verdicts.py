"""Runs and networks of the kinds that an oracle is easily wrong about, right and wrong, made by PyTorch, JAX and ONNX Runtime.

    python interop/zoo/verdicts.py --right 100 --wrong 50 --seed 1 [--only tapes targets] [--results FILE]

A right one must not FAIL, and a wrong one must not pass. Each is drawn by its kind, number and seed alone, so that a
call goes on where one with the same FILE was stopped. Kinds of single kernels are in kernels.py and kinds.py.

    tapes      rollouts whose device believes a tape: of independent draws, or of draws that are not what they must be
    unjudged   networks with an output of an operation that has no model, or that is hard to judge
    targets    indices of targets, tables and rows: those out of range are an error of one line
    sigmoid    ONNX files with sigmoids, evaluated by ONNX Runtime, whose sigmoid is a rational function
    autocast   small networks in half types, as autocast and module.half() run them, by their output and with layers
"""

import argparse
import collections
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import refrun
import torch
import torch.nn.functional as F
from refrun.binary import binary
from safetensors.torch import save_file
from torch import nn


class Draw:
    def __init__(self, *seed):
        self.r = random.Random(repr(seed))
        self.g = torch.Generator().manual_seed(self.r.getrandbits(60))

    def normal(self, *shape, scale=1.0):
        return torch.randn(*shape, generator=self.g) * scale


# tapes

SPOILED = {
    "the same at every step": lambda a, d: a[:1].expand_as(a), "zeros": lambda a, d: torch.zeros_like(a), "each step's twice": lambda a, d: a[torch.arange(len(a)) // 2],
    "the same in all realizations": lambda a, d: a[:, :1].expand_as(a), "times 1.5": lambda a, d: a * 1.5, "times 0.9": lambda a, d: a * 0.9, "one constant": lambda a, d: torch.full_like(a, 0.7),
    "the same in all channels": lambda a, d: a[:, :, :1].expand_as(a), "uniform": lambda a, d: torch.rand(a.shape, generator=d.g), "of one line": lambda a, d: a[..., :1, :].expand_as(a),
    "shifted by a step": lambda a, d: torch.cat([a[:1], a[:-1]]), "all negative": lambda a, d: -a.abs(), "one step once more": lambda a, d: torch.cat([a[:-1], a[1:2]]),
    "two realizations alike": lambda a, d: torch.cat([a[:, :1], a[:, :1], a[:, 2:]], 1), "channels that share a half": lambda a, d: (a + a[:, :, :1]) / 2**0.5,
    "antithetic realizations": lambda a, d: torch.cat([a[:, :1], -a[:, :1], a[:, 2:]], 1), "antithetic steps": lambda a, d: torch.cat([a[:1], -a[:1], a[2:]]),
}


def by_jax(kind, shape, d, implementation="threefry2x32"):
    import jax

    key = jax.random.key(d.r.getrandbits(31), impl=implementation)
    return torch.from_numpy(np.array(getattr(jax.random, kind)(key, shape)))


def by_jax_rbg(kind, shape, d):
    return by_jax(kind, shape, d, "rbg")


def by_numpy(kind, shape, d):
    g = np.random.default_rng(d.r.getrandbits(60))
    return torch.from_numpy({"normal": g.standard_normal, "exponential": g.standard_exponential}[kind](shape, dtype=np.float32))


def by_torch(kind, shape, d):
    return torch.randn(shape, generator=d.g) if kind == "normal" else torch.empty(shape).exponential_(generator=d.g)


def by_torch_bfloat16(kind, shape, d):
    drawn = torch.empty(shape, dtype=torch.bfloat16)
    return (drawn.normal_(generator=d.g) if kind == "normal" else drawn.exponential_(generator=d.g)).float()


def tapes(d, wrong):
    """A rollout of two convolutions, with noise between them, in float32 or under autocast; of as many numbers as a
    pass wants, and as faults in the states would want to show: smaller runs are NO-POWER whatever their tape is."""
    r = d.r
    noise, runs, size, width = r.choice(["gaussian", "multiplicative", "laplace"]), r.choice([2, 3, 4]), r.choice([12, 16, 20]), r.choice([4, 6])
    steps = 3 + 5120 // (runs * size * size)
    scale, alpha = float(np.float32(r.choice([0.05, 0.2, 0.5]))), r.choice([0.3, 0.5, 0.9])
    precision = r.choice(["float32", "bfloat16"])
    source = r.choice([by_torch, by_numpy, by_jax, by_jax_rbg] + [by_torch_bfloat16] * (precision == "bfloat16"))
    kinds = ["exponential", "normal"] if noise == "laplace" else ["normal"]
    tape = [torch.stack([source(k, (runs, width, size, size), d) for _ in range(steps - 1)]) for k in kinds]
    fault = r.choice([f for f in SPOILED if noise != "laplace" or f != "all negative" and "antithetic" not in f]) if wrong else ""
    if wrong:
        tape[0] = SPOILED[fault](tape[0], d).contiguous()
    w = {"a.weight": d.normal(width, 1, 3, 3, scale=0.4), "a.bias": d.normal(width, scale=0.2), "out.weight": d.normal(1, width, 1, 1, scale=0.5), "out.bias": d.normal(1, scale=0.2)}
    x = d.normal(1, 1, size, size).expand(runs, -1, -1, -1)
    states = [x]
    for t in range(steps - 1):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision != "float32"):
            y = F.gelu(F.conv2d(x, w["a.weight"], w["a.bias"], padding=1))
            q = [v[t].to(y.dtype) for v in tape]
            q = q[0] * torch.sign(q[1]) if noise == "laplace" else q[0]
            y = y * (1 + q * scale) if noise == "multiplicative" else y + q * scale
            x = alpha * x + (1 - alpha) * F.conv2d(y, w["out.weight"], w["out.bias"])
        states.append(x)
    nodes = [{"op": "conv", "name": "a", "in": ["input"], "out_channels": width, "kernel_size": 3, "padding_mode": "zeros", "bias": True}, {"op": "act", "name": "b", "in": ["a"], "activation": "gelu"},
             {"op": "noise", "name": "noise", "in": ["b"], "noise_type": noise, "noise_scale": scale}, {"op": "conv", "name": "out", "in": ["noise"], "out_channels": 1, "kernel_size": 1, "bias": True}]
    rollout = {"policy_type": "convex", "alpha": alpha, "precision": precision, "num_realizations": runs, "num_timesteps": steps, "engine_batch": runs, "base_seed": 0}
    if precision != "float32":
        rollout["autocast"] = "cpu"
    with tempfile.TemporaryDirectory() as f:
        json.dump({"version": 1, "operator": {"input_channels": 1, "nodes": nodes}, "rollout": rollout}, open(f"{f}/case.json", "w"))
        save_file(w | {"noise.noise_scale": torch.tensor([scale])}, f"{f}/weights.safetensors")
        save_file({"trajectory": torch.stack(states, 1).float().contiguous(), "initial_condition": states[0].contiguous()}, f"{f}/trajectory.safetensors")
        save_file({f"batch0.draw{i}.{k}" if len(kinds) > 1 else "batch0": t for i, (k, t) in enumerate(zip(kinds, tape))}, f"{f}/noise.safetensors")
        return f"{noise}, {precision}, {source.__name__}: {fault}", refrun.check(f)


# unjudged

class Beside(nn.Module):
    """A small network whose second output an operation makes of what is on the way."""

    def __init__(self, d, hard):
        super().__init__()
        n = d.r.choice([5, 8, 17])
        self.a, self.b, self.hard = nn.Linear(n, n), nn.Linear(n, d.r.choice([3, 8])), hard

    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.b(h), self.hard(h)


HARD = {
    "floor": lambda h: torch.floor(4 * h), "round": lambda h: torch.round(8 * h), "argmax": lambda h: h.argmax(-1), "top 2": lambda h: h.topk(2, -1).values, "prod": lambda h: h.prod(-1), "sign": torch.sign,
    "above": lambda h: (h > 0.1).float(), "sorted": lambda h: h.sort(-1).values, "cumsum": lambda h: h.cumsum(-1), "frac": lambda h: torch.frac(3 * h), "1/h": lambda h: 1 / h,
    "remainder": lambda h: torch.remainder(3 * h, 0.7), "largest": lambda h: h.max(-1).values, "places of top 2": lambda h: h.topk(2, -1).indices, "log h": lambda h: torch.log(h.abs()),
}
OTHER = {"7 everywhere": lambda y, d: torch.full_like(y, 7), "NaN": lambda y, d: torch.full_like(y, float("nan")), "turned round": lambda y, d: y.flip(0), "one more": lambda y, d: y + 1,
         "zeros": lambda y, d: torch.zeros_like(y), "infinite": lambda y, d: torch.full_like(y, float("inf"))}


def unjudged(d, wrong):
    name = d.r.choice(list(HARD))
    torch.manual_seed(d.r.getrandbits(30))
    m = Beside(d, HARD[name]).eval()
    x = d.normal(d.r.choice([2, 4, 9]), m.a.in_features)
    with torch.no_grad(), refrun.Layers(m) as layers:
        out = list(m(x))
    fault = ""
    while wrong:
        k, fault = d.r.choice([0, 1, 1]), d.r.choice(list(OTHER))
        if (fault in ("NaN", "infinite")) and not out[k].is_floating_point():
            continue
        y = OTHER[fault](out[k], d)
        if not torch.equal(y, out[k]):
            out[k] = y
            break
    return f"{name}: {fault}", refrun.check_model(m, (x,), tuple(out), layers=layers if d.r.random() < 0.5 else None)


# targets

def targets(d, wrong):
    """An index that is out of range is an error, whatever a kernel made of it."""
    r, rows, cols = d.r, d.r.randint(3, 20), d.r.randint(5, 60)
    x = d.normal(rows, cols)
    op = r.choice(["cross_entropy", "embedding", "index_select", "gather", "scatter_add", "index_add", "take from the end"])
    i = torch.randint(0, cols if op != "embedding" else rows, (rows,), generator=d.g)
    size = cols if op != "embedding" else rows
    bad = i.clone()
    if wrong:
        bad[r.randrange(rows)] = r.choice([size, size + 7, -1 - size, 2**31] + [-1] * (op != "take from the end"))
    near = bad.clamp(0, size - 1)
    if op == "cross_entropy":
        if r.random() < 0.3:
            bad[0] = near[0] = -100
        y = F.cross_entropy(x, near, reduction="none")
        return op, refrun.check_kernel(op, [x, bad], y)
    if op == "embedding":
        return op, refrun.check_kernel(op, {"weight": x, "indices": bad}, F.embedding(near, x))
    if op == "index_select":
        return op, refrun.check_kernel(op, [x, bad], x.index_select(1, near), dim=1)
    if op == "gather":
        return op, refrun.check_kernel(op, [x, bad[:, None]], x.gather(1, near[:, None]), dim=1)
    if op == "take from the end":
        if not wrong:
            bad = torch.where(torch.rand(rows, generator=d.g) < 0.5, bad, bad - size)
            return op, refrun.check_kernel(lambda x, i: x[:, i] * 1.5, [x, bad], x[:, bad] * 1.5)
        net = refrun.describe(_Taken(), (x, i))
        return op, refrun.check_model(net, (x, bad), x[:, near] * 1.5)
    s = d.normal(rows, rows)
    if op == "scatter_add":
        return op, refrun.check_kernel(op, [x, bad[:, None], s[:, :1]], x.scatter_add(1, near[:, None], s[:, :1].contiguous()), dim=1)
    return op, refrun.check_kernel(op, [x, bad, s], x.index_add(1, near, s), dim=1)


class _Taken(nn.Module):
    def forward(self, x, i):
        return x[:, i] * 1.5


# sigmoid

def sigmoid(d, wrong):
    """Products with sigmoids, gates and SiLU after them."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    r, n, k = d.r, d.r.choice([5, 16, 33]), d.r.choice([4, 16, 40])
    w, b, v = d.normal(n, k, scale=r.choice([1, 3]) * n**-0.5).numpy(), d.normal(k).numpy(), d.normal(k, k, scale=k**-0.5).numpy()
    x = d.normal(r.choice([2, 8, 30]), n, scale=r.choice([1, 4])).numpy()
    way = r.choice(["sigmoid", "gate", "silu", "deep"])
    fault = r.choice(["times 1.0002", "in bfloat16", "bias of one more", "a cubic's", "last row stale"]) if wrong else ""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["h"]), helper.make_node("Sigmoid", ["h"], ["s"])]
    if way == "sigmoid":
        nodes.append(helper.make_node("Identity", ["s"], ["y"]))
    else:
        nodes.append(helper.make_node("Mul", ["h", "s"], ["y" if way == "silu" else "g"]))
    if way == "gate":
        nodes += [helper.make_node("Tanh", ["p"], ["t"]), helper.make_node("Mul", ["t", "s"], ["y"])]
    if way == "deep":
        nodes += [helper.make_node("MatMul", ["g", "v"], ["q"]), helper.make_node("Sigmoid", ["q"], ["y"])]
    weights = [numpy_helper.from_array(a, name) for a, name in ((w, "w"), (b, "b"), (v, "v"))]
    kind = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, x.shape)], [helper.make_tensor_value_info("y", kind, (len(x), k))], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    y = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    if fault == "times 1.0002":
        y = y * np.float32(1.0002)
    elif fault == "last row stale":
        y[-1] = y[0]
    elif fault:
        h = torch.from_numpy(x @ w + b + (fault == "bias of one more"))
        s = {"in bfloat16": lambda h: torch.sigmoid(h.bfloat16()).float(), "a cubic's": lambda h: torch.sigmoid(h) + 2e-4 * torch.sin(9 * h)}.get(fault, torch.sigmoid)
        g = {"sigmoid": s(h), "silu": h * s(h), "gate": torch.tanh(torch.from_numpy(x @ w)) * s(h), "deep": s((h * s(h)) @ torch.from_numpy(v))}[way]
        y = g.numpy()
    with tempfile.TemporaryDirectory() as f:
        onnx.save(model, f"{f}/m.onnx")
        np.save(f"{f}/x.npy", x)
        np.save(f"{f}/y.npy", y.astype(np.float32))
        done = subprocess.run([binary(), "check", "--onnx", f"{f}/m.onnx", "--input", f"x={f}/x.npy", "--output", f"y={f}/y.npy", "--claim", "float32", "--json"], capture_output=True, text=True)
    if done.returncode == 2:
        raise ValueError(done.stderr.strip())
    data = json.loads(done.stdout)
    return f"{way}: {fault}", refrun.Report(data, data.get("text", ""))


# autocast

class Attention(nn.Module):
    def __init__(self, n, heads, causal):
        super().__init__()
        self.heads, self.causal, self.scale = heads, causal, None
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (z.view(b, t, self.heads, n // self.heads).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)
        return self.out(y.transpose(1, 2).reshape(b, t, n))


class Scaled(nn.Module):
    """An RMS norm with its own casts."""

    def __init__(self, n):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.rand(n) + 0.5), 1e-6

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.w


class Step(nn.Module):
    """A step of an LSTM."""

    def __init__(self, n, width):
        super().__init__()
        self.x, self.h = nn.Linear(n, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def set_to(name, attribute, value):
    """A fault: an attribute of a module is another."""

    def change(m):
        setattr(m.get_submodule(name), attribute, value)

    return change


def turned(name):
    def change(m):
        w = m.get_submodule(name).weight
        w.data = w.data.flip(0).clone()

    return change


def unbiased(name):
    def change(m):
        m.get_submodule(name).bias.data.zero_()

    return change


def network(d):
    """A network, its inputs, and faults: each with the module that has it."""
    r = d.r
    which = r.choice(["attention", "attention", "rms", "transposed", "lstm", "mlp", "conv"])
    if which == "attention":
        heads = r.choice([1, 2, 4])
        n, t = heads * r.choice([8, 16]), r.choice([5, 8, 17, 33, 64])
        m = Attention(n, heads, r.random() < 0.5)
        return m, (d.normal(r.choice([1, 2]), t, n),), {"another scale": ("", set_to("", "scale", 0.7)), "other rows": ("qkv", turned("qkv")), "no bias": ("out", unbiased("out"))}
    if which == "rms":
        n = r.choice([16, 64, 200])
        m = nn.Sequential(nn.Linear(n, n), Scaled(n), nn.Linear(n, n))
        return m, (d.normal(r.choice([2, 7]), n),), {"eps": ("1", set_to("1", "eps", 1e-1)), "no bias": ("0", unbiased("0")), "other rows": ("2", turned("2"))}
    if which == "transposed":
        c, (k, s, p) = r.choice([4, 8]), r.choice([(2, 2, 0), (4, 2, 1), (3, 1, 1)])
        m = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), r.choice([nn.ReLU, nn.SiLU, nn.GELU])(), nn.ConvTranspose2d(c, 4, k, s, p))
        return m, (d.normal(2, c, r.choice([5, 8]), 8),), {"no bias": ("2", unbiased("2")), "other channels": ("0", turned("0"))}
    if which == "lstm":
        n, width, some = r.choice([5, 8, 32]), r.choice([8, 16, 40]), r.choice([0.0, 1.0])
        return Step(n, width), (d.normal(4, n), some * d.normal(4, width), some * d.normal(4, width)), {"no bias": ("x", unbiased("x")), "other gates": ("x", turned("x"))}
    if which == "mlp":
        n = r.choice([8, 32, 100])
        m = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n), nn.LayerNorm(n), nn.Linear(n, 7))
        return m, (d.normal(r.choice([2, 9]), n),), {"eps": ("3", set_to("3", "eps", 0.1)), "tanh GELU of another": ("1", lambda m: m.__setitem__(1, nn.SiLU())), "no bias": ("4", unbiased("4"))}
    c = r.choice([3, 8])
    m = nn.Sequential(nn.Conv2d(c, 8, 3, padding=1), nn.GroupNorm(r.choice([1, 2, 8]), 8), nn.SiLU(), nn.Conv2d(8, 5, 1))
    return m, (d.normal(2, c, r.choice([6, 11]), 9),), {"eps": ("1", set_to("1", "eps", 0.1)), "no bias": ("3", unbiased("3")), "other channels": ("0", turned("0"))}


def autocast(d, wrong):
    torch.manual_seed(d.r.getrandbits(30))
    m, x, faults = network(d)
    m = m.eval()
    dt, half, with_layers = d.r.choice([torch.bfloat16, torch.float16]), d.r.random() < 0.5, d.r.random() < 0.5
    device, fault = copy.deepcopy(m), d.r.choice(list(faults)) if wrong else ""
    if wrong:
        faults[fault][1](device)
    with torch.no_grad():
        if half:
            device = device.to(dt)
            with refrun.Layers(device) as layers:
                y = device(*(t.to(dt) for t in x))
        else:
            with torch.autocast("cpu", dt), refrun.Layers(device) as layers:
                y = device(*x)
    what = f"{type(m[0]).__name__ if isinstance(m, nn.Sequential) else type(m).__name__}, {'half' if half else 'autocast'} {str(dt)[6:]}, {'layers' if with_layers else 'output'}: {fault}"
    r = refrun.check_model(m, x, y, layers=layers if with_layers and len(layers) else None, precision=str(dt)[6:], autocast="none" if half else "cpu")
    if wrong and with_layers and r.first_layer and faults[fault][0]:
        r.data["right_layer"] = (r.first_layer + ".").startswith(faults[fault][0] + ".")
    return what, r


KINDS = {"tapes": tapes, "unjudged": unjudged, "targets": targets, "sigmoid": sigmoid, "autocast": autocast}


def judged(kind, seed, number, wrong):
    """One of a kind: what it is, its verdict, and whether that is as it should be."""
    what = kind
    try:
        what, r = KINDS[kind](Draw(kind, seed, number, wrong), wrong)
        verdict, reason, named, layer = r.verdict, r.reason, r.diagnosis, r.data.get("right_layer")
    except ValueError as e:
        verdict, reason, named, layer = "error" if "\n" not in str(e) else "error of many lines", str(e), "", None
    ok = (verdict == "error" if kind == "targets" else verdict != "error of many lines" and not verdict.startswith("PASS")) if wrong else verdict.startswith("PASS") or verdict == "NO-POWER"
    return {"kind": kind, "number": number, "wrong": wrong, "what": what, "verdict": verdict, "ok": ok, "named": named, "right_layer": layer, "reason": reason}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--right", type=int, default=40, help="right ones of each kind")
    p.add_argument("--wrong", type=int, default=20, help="wrong ones of each kind")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", default=list(KINDS))
    p.add_argument("--results", help="a file to keep each result in, a line of JSON each; those that are in it are not judged again")
    a = p.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    done = {}
    if a.results and os.path.exists(a.results):
        done = {(r["kind"], r["number"], r["wrong"]): r for r in map(json.loads, open(a.results))}
    file = open(a.results, "a") if a.results else None
    table = collections.defaultdict(collections.Counter)
    for number in range(max(a.right, a.wrong)):
        for kind in a.only:
            for wrong in [False] * (number < a.right) + [True] * (number < a.wrong):
                r = done.get((kind, number, wrong)) or judged(kind, a.seed, number, wrong)
                if file and (kind, number, wrong) not in done:
                    print(json.dumps(r), file=file, flush=True)
                if not r["ok"]:
                    print("let pass:" if wrong else "refused:", json.dumps(r), file=sys.stderr, flush=True)
                table[kind].update({"wrong" if wrong else "right": 1, ("passed" if wrong else "failed"): not r["ok"], "no power": not wrong and r["verdict"] == "NO-POWER",
                                    "another layer": r["right_layer"] is False})
    print("| kind | right | of which fail | NO-POWER | wrong | of which pass | another layer named |\n|---|---|---|---|---|---|---|")
    for kind, n in table.items():
        print("|", " | ".join([kind] + [str(n[k]) for k in ("right", "failed", "no power", "wrong", "passed", "another layer")]), "|")


if __name__ == "__main__":
    main()
