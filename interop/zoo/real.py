"""Real software on the zoo's operators: PyTorch, JAX, ONNX Runtime and OpenVINO on this machine's CPU, each a
correct device, each checked. Unlike the rest of the zoo it needs these packages.

  python3 real.py --binary refrun --seeds 2000-2003 [--only jax,torch] [--keep DIR] [--json FILE]

A row is an operator on a device: the verdict, rms of the error over the expected one, and the contract that refrun
names. Exits with 1 if one that ran fails. With layers, PyTorch's eager devices also hand over what their modules return.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import cases
import family
import respond
from formats import f32, half

EPS = 1e-5
STEPS = 6


class Torch:
    """The operator in PyTorch, under autocast for a half mode."""

    def __init__(self, op, mode, compiled=False, channels_last=False, mkldnn=True, halved=False):
        import torch

        self.t, self.op, self.mode = torch, op, mode
        self.w = {k: torch.from_numpy(np.array(v)) for k, v in op.weights.items()}
        self.last, self.mkldnn, self.taps = channels_last, mkldnn, None
        if halved:                        # as model.half() or .bfloat16(): no autocast
            self.dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}[mode]
            self.w = {k: v.to(self.dtype) if v.is_floating_point() else v for k, v in self.w.items()}
            op.weights.update({k: v.float().numpy() for k, v in self.w.items() if v.is_floating_point()})
        self.halved = halved
        if channels_last:
            self.w = {k: v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in self.w.items()}
        if compiled:
            torch._dynamo.reset()
            # With PyTorch 2.9's caches, code for float16 after code for bfloat16 was wrong three times of 66.
            torch.compiler.config.force_disable_caches = True
        self.run = torch.compile(self.forward) if compiled else self.forward
        self.layers = not compiled

    def tap(self, name, y):
        if self.taps is not None:
            self.taps[name] = y
        return y

    def conv(self, x, name):
        w = self.w[name + ".weight"]
        return self.tap(name, self.t.nn.functional.conv2d(x, w, self.w.get(name + ".bias"), padding=w.shape[-1] // 2))

    def norm(self, x, name):
        f, w, kind = self.t.nn.functional, self.w, self.op.config["normalization"]
        if kind == "none":
            return x
        g, b = w[name + ".weight"], w[name + ".bias"]
        if kind == "instance":
            y = f.instance_norm(x, None, None, g, b, True, .1, EPS)
        elif kind == "batch":
            y = f.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], g, b, False, .1, EPS)
        else:
            y = f.group_norm(x, min(32, x.shape[1]) if kind == "group" else 1, g, b, EPS)
        return self.tap(name, y)

    def act(self, x, name):
        f = self.t.nn.functional
        how = {"gelu": f.gelu, "silu": f.silu, "relu": f.relu, "tanh": self.t.tanh}[self.op.config["activation"]]
        return self.tap(name, how(x))

    def block(self, x, name):
        after = 2 if self.op.config["normalization"] != "none" else 1
        return self.act(self.norm(self.conv(x, name + ".block.0"), name + ".block.1"), f"{name}.block.{after}")

    def forward(self, x, draws):
        for name, kind, a, b in self.op.blocks:
            if kind == "plain":
                x = self.block(x, name)
            else:
                y = self.block(self.block(x, name + ".blocks.0"), name + ".blocks.1")
                x = self.tap(name, y + (x if a == b else self.conv(x, name + ".projection")))
        if self.op.noise:
            x = self.tap("stochastic_block", self.noise(x, draws))
        return self.conv(x, "output_layer.conv")

    def noise(self, x, draws):
        d, s = [v.to(x.dtype) for v in draws], float(self.op.weights["stochastic_block.noise_scale"][0])
        kind = self.op.noise
        if kind == "dropout":
            return x * (d[0] / (1 - s))
        n = d[0] if kind != "laplace" else d[0] * self.t.sign(d[1])
        return x * (1 + n * s) if kind == "multiplicative" else x + n * s

    def advance(self, x, o):
        r = self.op.rollout
        if r["policy_type"] == "autoregressive":
            x = o
        elif r["policy_type"] == "residual":
            x = x + r["dt"] * o
        else:
            x = r["alpha"] * x + (1 - r["alpha"]) * o
        if r.get("normalization") == "minmax":
            lo, hi = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
            x = self.t.where(hi - lo > 1e-8, (x - lo) / (hi - lo), x)
        return x.clamp(*r["clamp_range"]) if r.get("clamp_range") else x

    def __call__(self, x, draws, taps=None):
        t = self.t
        dtype = {"bfloat16": t.bfloat16, "float16": t.float16}.get(self.mode)
        x = x if t.is_tensor(x) else t.from_numpy(x)
        if self.last:
            x = x.contiguous(memory_format=t.channels_last)
        with contextlib.ExitStack() as stack:
            stack.enter_context(t.no_grad())
            stack.enter_context(t.backends.mkldnn.flags(enabled=self.mkldnn))
            stack.enter_context(t.autocast("cpu", dtype, enabled=dtype is not None and not self.halved))
            self.taps = taps
            o = self.run(x.to(self.dtype) if self.halved else x, [t.from_numpy(np.ascontiguousarray(d)) for d in draws])
            self.taps = None
            if taps is not None:
                taps["output"] = o
            return self.advance(x, o)

    def array(self, x):
        return x.float().contiguous().numpy(), x.dtype in (self.t.bfloat16, self.t.float16)


class Jax:
    """The operator in JAX. In bfloat16 every result that autocast stores is cast to it, and computed from in float32.
    XLA drops such casts unless xla_allow_excess_precision is off, which is a flag of the process. wide: the policy is
    float32's, and not in the model's type."""

    def __init__(self, op, mode, wide=False):
        import jax
        import jax.numpy as jnp

        self.j, self.n, self.op, self.mode = jax, jnp, op, mode
        self.w = {k: jnp.asarray(v) for k, v in op.weights.items()}
        self.run = jax.jit(self.step)
        self.layers, self.wide = False, wide

    def conv(self, x, name):
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias")
        r = w.shape[-1] // 2
        if self.mode == "bfloat16":
            x, w = x.astype(self.n.bfloat16), w.astype(self.n.bfloat16)
        y = self.j.lax.conv_general_dilated(x, w, (1, 1), [(r, r)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"), precision="highest")
        return y if b is None else y + b.astype(y.dtype)[None, :, None, None]

    def norm(self, x, name):
        kind, n = self.op.config["normalization"], self.n
        if kind == "none":
            return x
        g, b = self.w[name + ".weight"][None, :, None, None], self.w[name + ".bias"][None, :, None, None]
        y = x.astype(n.float32)
        if kind == "batch":
            m, v = (self.w[f"{name}.running_{k}"][None, :, None, None] for k in ("mean", "var"))
        else:
            groups = {"instance": x.shape[1], "group": min(32, x.shape[1]), "layer": 1}[kind]
            z = y.reshape(x.shape[0], groups, -1)
            m = z.mean(2, keepdims=True)
            v = ((z - m) ** 2).mean(2, keepdims=True)
            y, m, v = (z - m).reshape(y.shape), 0, n.repeat(v, x.shape[1] // groups, 1)[:, :, :, None]
        return ((y - m) / n.sqrt(v + EPS) * g + b).astype(x.dtype)

    def act(self, x):
        f = {"gelu": lambda v: self.j.nn.gelu(v, approximate=False), "silu": self.j.nn.silu, "relu": self.j.nn.relu, "tanh": self.n.tanh}
        return f[self.op.config["activation"]](x.astype(self.n.float32)).astype(x.dtype)

    def block(self, x, name):
        return self.act(self.norm(self.conv(x, name + ".block.0"), name + ".block.1"))

    def step(self, x0, draws):
        x = x0
        for name, kind, a, b in self.op.blocks:
            if kind == "plain":
                x = self.block(x, name)
            else:
                y = self.block(self.block(x, name + ".blocks.0"), name + ".blocks.1")
                x = y + (x if a == b else self.conv(x, name + ".projection"))
        if self.op.noise:
            x = self.noise(x, draws)
        return self.advance(x0, self.conv(x, "output_layer.conv"))

    def noise(self, x, draws):
        d, s = [v.astype(x.dtype) for v in draws], float(self.op.weights["stochastic_block.noise_scale"][0])
        kind = self.op.noise
        if kind == "dropout":
            return x * (d[0].reshape(d[0].shape[:2] + (1, 1)) / (1 - s)).astype(x.dtype)
        n = d[0] if kind != "laplace" else d[0] * self.n.sign(d[1])
        return x * (1 + n * s) if kind == "multiplicative" else x + n * s

    def advance(self, x, o):
        r = self.op.rollout
        if self.wide and r["policy_type"] != "autoregressive":
            o = o.astype(self.n.float32)
        if r["policy_type"] == "autoregressive":
            x = o
        elif r["policy_type"] == "residual":
            x = x + r["dt"] * o
        else:
            x = r["alpha"] * x + (1 - r["alpha"]) * o
        if r.get("normalization") == "minmax":
            lo, hi = x.min((1, 2, 3), keepdims=True), x.max((1, 2, 3), keepdims=True)
            x = self.n.where(hi - lo > 1e-8, (x - lo) / (hi - lo), x)
        return self.n.clip(x, *r["clamp_range"]) if r.get("clamp_range") else x

    def __call__(self, x, draws, taps=None):
        return self.run(x, draws)

    def array(self, x):
        return np.asarray(x.astype(self.n.float32)), x.dtype == self.n.bfloat16


class Onnx:
    """The operator as an ONNX graph, run by a session; the policy is numpy's float32."""

    layers = False

    def __init__(self, op, mode, engine):
        from onnx import TensorProto, helper, numpy_helper

        self.op, self.h, self.numpy, self.nodes, self.given, self.inputs = op, helper, numpy_helper, [], [], ["x"]
        shape = [2, op.config["input_channels"]] + [None, None]
        x = "x"
        for name, kind, a, b in op.blocks:
            if kind == "plain":
                x = self.block(x, name)
            else:
                y = self.block(self.block(x, name + ".blocks.0"), name + ".blocks.1")
                x = self.add("Add", [y, x if a == b else self.conv(x, name + ".projection")])
        x = self.noise(x) if op.noise else x
        y = self.conv(x, "output_layer.conv")
        info = [helper.make_tensor_value_info(k, TensorProto.FLOAT, [None] * 4) for k in self.inputs]
        graph = helper.make_graph(self.nodes, "operator", info, [helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * 4)], self.given)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
        self.f = engine(model, self.inputs, mode)

    def add(self, kind, inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.h.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, v):
        self.given.append(self.numpy.from_array(np.asarray(v), f"w{len(self.given)}"))
        return self.given[-1].name

    def conv(self, x, name):
        w, b = self.op.weights[name + ".weight"], self.op.weights.get(name + ".bias")
        return self.add("Conv", [x, self.constant(w)] + ([self.constant(b)] if b is not None else []), pads=[w.shape[-1] // 2] * 4)

    def block(self, x, name):
        x, w, n = self.conv(x, name + ".block.0"), self.op.weights, name + ".block.1"
        kind = self.op.config["normalization"]
        if kind != "none":
            g, b = w[n + ".weight"], w[n + ".bias"]
            if kind == "batch":
                x = self.add("BatchNormalization", [x] + [self.constant(v) for v in (g, b, w[n + ".running_mean"], w[n + ".running_var"])], epsilon=EPS)
            elif kind == "instance":
                x = self.add("InstanceNormalization", [x, self.constant(g), self.constant(b)], epsilon=EPS)
            else:
                groups = min(32, len(g)) if kind == "group" else 1
                x = self.add("GroupNormalization", [x, self.constant(g), self.constant(b)], epsilon=EPS, num_groups=groups)
        act = self.op.config["activation"]
        if act == "silu":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        return self.add({"gelu": "Gelu", "relu": "Relu", "tanh": "Tanh"}[act], [x])

    def noise(self, x):
        kind, s = self.op.noise, np.float32(self.op.weights["stochastic_block.noise_scale"][0])
        self.inputs.append("n")
        if kind == "dropout":
            return self.add("Mul", [x, self.add("Mul", ["n", self.constant(np.float32(1 / (1 - np.float64(s))))])])
        n = self.add("Mul", ["n", self.constant(s)])
        if kind == "multiplicative":
            return self.add("Mul", [x, self.add("Add", [n, self.constant(np.float32(1))])])
        return self.add("Add", [x, n])

    def __call__(self, x, draws, taps=None):
        kind = self.op.noise
        n = [] if not kind else [draws[0] if kind != "laplace" else draws[0] * np.sign(draws[1])]
        if kind == "dropout":
            n[0] = n[0].reshape(n[0].shape[:2] + (1, 1))
        o, r = f32(self.f([x] + n)), self.op.rollout
        if r["policy_type"] == "autoregressive":
            y = o
        elif r["policy_type"] == "residual":
            y = x + np.float32(r["dt"]) * o
        else:
            y = np.float32(r["alpha"]) * x + np.float32(1 - r["alpha"]) * o
        if r.get("normalization") == "minmax":
            lo, hi = y.min(axis=(1, 2, 3), keepdims=True), y.max(axis=(1, 2, 3), keepdims=True)
            y = np.where(hi - lo > 1e-8, (y - lo) / np.maximum(hi - lo, np.float32(1e-8)), y)
        return np.clip(y, *np.float32(r["clamp_range"])) if r.get("clamp_range") else y

    def array(self, x):
        return x, False


def runtime(model, inputs, mode):
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    s = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda v: s.run(None, dict(zip(inputs, v)))[0]


def openvino(model, inputs, mode):
    import openvino as ov

    core = ov.Core()
    hint = {"float32": "f32", "bfloat16": "bf16"}[mode]
    m = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": 2})
    if mode == "bfloat16" and "bfloat16" not in str(m.get_property("INFERENCE_PRECISION_HINT")).replace("bf16", "bfloat16"):
        raise NotImplementedError("OpenVINO has no bfloat16 on this processor")
    return lambda v: m(v)[m.output(0)].copy()


# name: the mode that it claims, and how it is made of an operator.
DEVICES = {
    "torch": ("float32", lambda op, m: Torch(op, m)),
    "torch-channels-last": ("float32", lambda op, m: Torch(op, m, channels_last=True)),
    "torch-no-mkldnn": ("float32", lambda op, m: Torch(op, m, mkldnn=False)),
    "torch-bfloat16": ("bfloat16", lambda op, m: Torch(op, m)),
    "torch-bfloat16-channels-last": ("bfloat16", lambda op, m: Torch(op, m, channels_last=True)),
    "torch-bfloat16-no-mkldnn": ("bfloat16", lambda op, m: Torch(op, m, mkldnn=False)),
    "torch-float16": ("float16", lambda op, m: Torch(op, m)),
    "torch-half-weights": ("float16", lambda op, m: Torch(op, m, halved=True)),
    "torch-bfloat16-weights": ("bfloat16", lambda op, m: Torch(op, m, halved=True)),
    "torch-compiled": ("float32", lambda op, m: Torch(op, m, compiled=True)),
    "torch-compiled-bfloat16": ("bfloat16", lambda op, m: Torch(op, m, compiled=True)),
    "torch-compiled-float16": ("float16", lambda op, m: Torch(op, m, compiled=True)),
    "jax": ("float32", Jax),
    "jax-bfloat16": ("bfloat16", Jax),
    "jax-bfloat16-wide": ("bfloat16", lambda op, m: Jax(op, m, wide=True)),
    "onnxruntime": ("float32", lambda op, m: Onnx(op, m, runtime)),
    "openvino": ("float32", lambda op, m: Onnx(op, m, openvino)),
    "openvino-bfloat16": ("bfloat16", lambda op, m: Onnx(op, m, openvino)),
}


def make(name, seed):
    """The case of a device on the operator of a seed."""
    mode, device = DEVICES[name]
    op, x, tape = family.draw(seed, mode, {"activation": ["gelu", "gelu", "silu", "relu", "tanh"]}, STEPS, 2)
    if mode != "float32":
        op.rollout["autocast"] = "cpu"
    d = device(op, mode)
    a = Torch(op, "float32") if op.rollout.get("clamp_range") or op.rollout.get("normalization") else None
    if a is not None:                     # the start is post-processed as states are
        op.rollout, was = {**op.rollout, "policy_type": "autoregressive"}, op.rollout
        x = a.advance(a.t.from_numpy(x), a.t.from_numpy(x)).numpy()
        a.op.rollout = op.rollout = was
    states, taps, y = [f32(x)], {}, f32(x)
    for t in range(1, STEPS):
        at = {} if d.layers and t <= 2 else None
        draws = [v[t - 1] for v in tape]
        if op.noise == "dropout" and draws:
            draws = [v.reshape(v.shape[:2] + (1, 1)) for v in draws]
        if at is not None:
            at["input"] = y if not isinstance(y, np.ndarray) else d.t.from_numpy(y)
        y = d(y, draws, at)
        states.append(d.array(y)[0])
        if at is not None:
            taps[t] = {k: d.array(v) for k, v in at.items()}
    return cases.Made(None, op, mode, f32(x), tape, np.stack(states, 1), taps, {})


def work(a, name, seed):
    try:
        made = make(name, seed)
    except (NotImplementedError, ImportError) as e:
        yield {"device": name, "seed": seed, "evidence": "", "verdict": "not run", "reason": str(e)}
        return
    for evidence in ("trajectory", "layers") if made.taps else ("trajectory",):
        root = os.path.join(a.keep, f"{name}{a.tag}-{seed}-{evidence}") if a.keep else tempfile.mkdtemp(prefix="real")
        cases.write(made, root, layers=evidence == "layers")
        r = subprocess.run([a.binary, "check", "--case", root, "--json", "--threads", "1"], capture_output=True, text=True)
        if r.returncode not in (0, 1, 3):
            yield {"device": name, "seed": seed, "evidence": evidence, "verdict": "error", "reason": r.stderr.strip()[-300:]}
            continue
        j = json.loads(r.stdout)
        yield {"device": name + a.tag, "seed": seed, "evidence": evidence, "verdict": j["verdict"], "rms": j["one_step"]["rms_over_expected"],
               "contract": j.get("contract"), "diagnosis": j.get("diagnosis"), "reason": j["reason"],
               "operator": {**made.operator.config, **made.operator.rollout}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--seeds", type=respond.numbers, default=list(range(2000, 2004)))
    p.add_argument("--only", type=lambda t: t.split(","), help="beginnings of names")
    p.add_argument("--keep", help="folder for the cases")
    p.add_argument("--json", help="write the rows here")
    p.add_argument("--no-excess", action="store_true", help="JAX with xla_allow_excess_precision=false, and nothing else")
    a = p.parse_args()
    a.tag = "-no-excess" if a.no_excess else ""
    if a.no_excess:
        os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false"
        a.only = ["jax"]
    rows, failed = [], 0
    for seed in a.seeds:
        for name in DEVICES:
            if a.only and not any(name.startswith(o) for o in a.only):
                continue
            for r in work(a, name, seed):
                rows.append(r)
                bad = r["verdict"].startswith(("FAIL", "error"))
                failed += bad
                print(f"{r['device']:32}{seed:6} {r['evidence']:11}{r['verdict']:16}{r.get('rms', 0):9.3g}  {r['reason'] if bad or not r['evidence'] else r.get('contract')}", flush=True)
    checked = [r for r in rows if r["evidence"]]
    print(f"{len(checked)} checks of {len({(r['device'], r['seed']) for r in checked})} runs, {failed} fail")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
