"""What real devices return of five networks, and what faults make of them, each checked.

    python devices.py [--networks resnet vit ...] [--right | --faults] [--seed 0] [--device cuda]

Right devices must pass and faults must fail, each in the layer that has it. The last line says whether all do.
"""

import argparse
import copy
import os
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

import networks
import refrun


torch.compiler.config.force_disable_caches = True  # or float16 runs as bfloat16: see rollouts.Device
OPTIMIZE = False  # torch.onnx's optimizer, which drops + 1e-8: not the network any more


def onnx_file(module, inputs, path):
    names = ["z", "pos", "edges"] if len(inputs) == 3 else ["x"]
    torch.onnx.export(copy.deepcopy(module), inputs, path, dynamo=True, optimize=OPTIMIZE, verbose=False, external_data=False, input_names=names)
    return {n: x.numpy() for n, x in zip(names, inputs)}


def onnxruntime(module, inputs):
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as d:
        feed = onnx_file(module, inputs, f"{d}/m.onnx")
        return [torch.from_numpy(y) for y in ort.InferenceSession(f"{d}/m.onnx", providers=["CPUExecutionProvider"]).run(None, feed)]


def openvino(module, inputs):
    import openvino as ov

    with tempfile.TemporaryDirectory() as d:
        feed = onnx_file(module, inputs, f"{d}/m.onnx")
        try:
            file = ov.Core().read_model(f"{d}/m.onnx")
        except Exception:  # its reader of ONNX takes no spectrum: its reader of PyTorch does
            file, feed = ov.convert_model(module, example_input=inputs), [x.numpy() for x in inputs]
        model = ov.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        out = model(feed)
        return [torch.from_numpy(out[k].copy()) for k in range(len(model.outputs))]


def autocast(module, inputs):
    with torch.autocast(inputs[0].device.type, torch.bfloat16):
        return module(*inputs)


def narrow(module, inputs):
    with torch.autocast(inputs[0].device.type, torch.float16):
        return module(*inputs)


def tf32(module, inputs):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        return module(*inputs)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def half(module, inputs):
    x = [t.half() if t.is_floating_point() else t for t in inputs]
    return copy.deepcopy(module).half()(*x)


# A device: its name, how it runs, whether it runs the module itself so that layers can be recorded, and its claim.
DEVICES = [
    ("eager-float32", lambda m, x: m(*x), {}),
    ("compile-float32", lambda m, x: torch.compile(m)(*x), {}),
    ("eager-bfloat16", autocast, {"precision": "bfloat16", "autocast": "cpu"}),
    ("compile-bfloat16", lambda m, x: autocast(torch.compile(m), x), {"precision": "bfloat16", "autocast": "cpu"}),
    ("half", half, {"precision": "float16", "autocast": "none"}),
    ("onnxruntime", onnxruntime, {}),
    ("openvino", openvino, {}),
]
# Those of a GPU, where autocast is CUDA's.
GPU = [
    *[(name, run, {**claim, **({"autocast": "cuda"} if claim.get("autocast") == "cpu" else {})}) for name, run, claim in DEVICES[:5]],
    ("eager-float16", narrow, {"precision": "float16", "autocast": "cuda"}),
    ("compile-float16", lambda m, x: narrow(torch.compile(m), x), {"precision": "float16", "autocast": "cuda"}),
    ("eager-tf32", tf32, {"precision": "tf32"}),
    ("compile-tf32", lambda m, x: tf32(torch.compile(m), x), {"precision": "tf32"}),
]


def swap(name, make):
    """A fault that puts another module in the place of one."""

    def broken(module):
        m = copy.deepcopy(module)
        owner, leaf = m.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        setattr(owner, leaf, make(getattr(owner, leaf)))
        return m

    return name, broken


def changed(name, f):
    """A fault that changes a module."""

    def apply(m):
        f(m)
        return m

    return swap(name, apply)


class After(nn.Module):
    """A module whose output a fault changes."""

    def __init__(self, of, f):
        super().__init__()
        self.of, self.f = of, f

    def forward(self, *x):
        y = self.of(*x)
        return (self.f(y[0]), *y[1:]) if isinstance(y, tuple) else self.f(y)


class Before(After):
    def forward(self, *x):
        return self.of(self.f(x[0]), *x[1:])


def after(name, f):
    return swap(name, lambda m: After(m, f))


def before(name, f):
    return swap(name, lambda m: Before(m, f))


class PlainSoftmax(nn.Module):
    """Without the maximum, in half: exp overflows from 11 on, and is coarse below."""

    def forward(self, x):
        e = torch.exp(x.half())
        return (e / e.sum(-1, keepdim=True)).float()


class Overwrites(nn.Module):
    """Messages that overwrite each other where they should be added."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, q, v, basis, cut, u, i, j):
        m = self.of
        a, b, c = torch.split(m.two(m.act(m.one(q)))[j] * (m.filter(basis) * cut), m.width, -1)
        return q.index_copy(0, i, q[i] + a), v + torch.zeros_like(v).index_add(0, i, u[:, :, None] * b[:, None, :] + v[j] * c[:, None, :])


def eps(value):
    return lambda m: setattr(m, "eps", value)


def weight(f):
    def change(m):
        m.weight = nn.Parameter(f(m.weight.detach()).clone().contiguous())

    return change


def nobias(m):
    m.bias = None


def last(y):
    """The last tile of 8 of the last axis is not written."""
    y = y.clone()
    y[..., -8:] = 0
    return y


def coarse(y):
    return y.bfloat16().float()


def counting(m):
    return nn.AvgPool2d(3, 2, 1, count_include_pad=not m.count_include_pad)


# Twelve faults of each network: what it is, and the layer that has it.
FAULTS = {
    "resnet": [
        ("batch norm with eps 1e-3", *changed("an", eps(1e-3))), ("weights transposed", *changed("a", weight(lambda w: w.transpose(0, 1)))),
        ("kernel turned by 180 degrees", *changed("b", weight(lambda w: w.flip(2, 3)))), ("padding not counted in the mean", *swap("mean", lambda m: nn.AvgPool2d(3, 2, 1, count_include_pad=False))),
        ("mean for maximum", *swap("pool", lambda m: nn.AvgPool2d(3, 2, 1))),
        ("last tile dropped", *after("down", last)), ("bias missing", *changed("skip", nobias)), ("operands in bfloat16", *swap("down", lambda m: Before(m, coarse))),
        ("output stored in bfloat16", *after("b", coarse)), ("running variance for its root", *changed("dn", lambda m: m.running_var.pow_(2))),
        ("stride of the skip shifted by a pixel", *before("skip", lambda x: x.roll(1, -1))), ("one channel's weights doubled", *changed("stem", weight(lambda w: torch.cat([2 * w[:1], w[1:]])))),
    ],
    "vit": [
        ("layer norm with eps 1e-3", *changed("blocks.0.norm1", eps(1e-3))), ("weights transposed", *changed("blocks.0.attention.out", weight(lambda w: w.t()))),
        ("scale missing", *before("blocks.0.attention.softmax", lambda x: x * 4)), ("softmax without its maximum, in half", *swap("blocks.1.attention.softmax", lambda m: PlainSoftmax())),
        ("tanh GELU", *swap("blocks.0.act", lambda m: nn.GELU("tanh"))), ("softmax over queries", *swap("blocks.1.attention.softmax", lambda m: nn.Softmax(-2))),
        ("last tile dropped", *after("blocks.0.down", last)), ("variance divided by n-1", *swap("norm", lambda m: _Unbiased(m))),
        ("bias missing", *changed("blocks.1.up", nobias)), ("operands in bfloat16", *before("blocks.1.down", coarse)),
        ("patches of a transposed image", *before("patch", lambda x: x.transpose(2, 3))), ("probabilities rounded to bfloat16", *after("blocks.0.attention.softmax", coarse)),
    ],
    "unet": [
        ("group norm with eps 1e-3", *changed("norm1", eps(1e-3))), ("groups of channels", *swap("norm1", lambda m: _regroup(m))), ("sigmoid for SiLU", *swap("act1", lambda m: nn.Sigmoid())),
        ("pool that does not count padding", *swap("pool", counting)), ("dilation ignored", *changed("two", lambda m: (setattr(m, "dilation", (1, 1)), setattr(m, "padding", (1, 1))))),
        ("instance norm without its weight", *changed("norm2", weight(torch.ones_like))), ("tanh GELU", *swap("act2", lambda m: nn.GELU("tanh"))),
        ("transposed kernel turned", *changed("up", weight(lambda w: w.flip(2, 3)))), ("corners aligned", *swap("large", lambda m: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True))),
        ("last tile dropped", *after("one", last)), ("bias missing", *changed("out", nobias)), ("output stored in bfloat16", *after("three", coarse)),
    ],
    "fno": [
        ("weights' parts exchanged", *changed("spectral.0", lambda m: _exchange(m))), ("highest mode left out", *swap("spectral.1", lambda m: _modes(m))), ("ReLU for GELU", *swap("act", lambda m: nn.ReLU())),
        ("spectrum scaled by 1.001", *after("spectral.0", lambda y: y * 1.001)), ("rows and columns exchanged", *before("spectral.1", lambda x: x.transpose(2, 3))),
        ("bias missing", *changed("lift", nobias)), ("weights transposed", *changed("local.0", weight(lambda w: w.transpose(0, 1)))), ("last tile dropped", *after("project", last)),
        ("tanh GELU", *swap("act", lambda m: nn.GELU("tanh"))), ("output shifted by a pixel", *after("spectral.0", lambda y: y.roll(1, -1))), ("operands in bfloat16", *before("local.1", coarse)),
        ("output stored in bfloat16", *after("spectral.1", coarse)),
    ],
    "painn": [
        ("scatter that overwrites", *swap("messages.0", Overwrites)), ("cutoff missing", "messages.0", swap("radial", lambda m: _NoCutoff(m))[1]), ("cutoff radius 5", *swap("radial", lambda m: _Cutoff(m, 5.0))),
        ("ReLU for SiLU", *swap("act", lambda m: nn.ReLU())), ("weights transposed", *changed("mix", weight(lambda w: w.t()))), ("bias missing", *changed("messages.1.two", nobias)),
        ("filter's bias missing", *changed("messages.0.filter", nobias)), ("embedding shifted by one", *before("table", lambda z: z + 1)), ("last tile dropped", *after("update", last)),
        ("operands in bfloat16", *before("messages.0.two", coarse)), ("output stored in bfloat16", *after("messages.1.filter", coarse)), ("output divided by the number of atoms", *after("out", lambda y: y / 12)),
    ],
}


class _Unbiased(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + self.m.eps) * self.m.weight + self.m.bias


def _regroup(m):
    g = nn.GroupNorm(m.num_channels, m.num_channels, m.eps)
    g.load_state_dict(m.state_dict())
    return g


def _exchange(m):
    m.real, m.imag = m.imag, m.real


def _modes(m):
    """The highest mode is left out."""
    m = copy.deepcopy(m)
    with torch.no_grad():
        m.real[:, :, -1] = 0
        m.imag[:, :, -1] = 0
    return m


class _NoCutoff(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, d):
        basis, cut = self.m(d)
        return basis, torch.ones_like(cut)


class _Cutoff(_NoCutoff):
    def __init__(self, m, cutoff):
        super().__init__(copy.deepcopy(m))
        self.m.cutoff = cutoff


def right(names, seed, kind="cpu", keep=None):
    bad = 0
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{'network':8s} {'device':18s} {'verdict':16s} {'max error':>10s} {'of expected':>11s}  contract")
    for name in names:
        module, inputs = networks.build(name, seed)
        net = refrun.describe(module, inputs)
        module, inputs = module.to(kind), tuple(x.to(kind) for x in inputs)
        for device, run, claim in DEVICES if kind == "cpu" else GPU:
            torch._dynamo.reset()
            try:
                with torch.no_grad():
                    out = run(module, inputs)
            except Exception as e:  # a device that cannot run the network says so
                print(f"{name:8s} {device:18s} does not run: {str(e).strip().splitlines()[0][:90]}", flush=True)
                continue
            r = refrun.check_model(net, inputs, out, **claim)
            bad += not r.ok
            if keep and not r.ok:
                torch.save({"inputs": inputs, "output": out, "claim": claim}, f"{keep}/{name}-{device}-{seed}.pt")
            print(f"{name:8s} {device:18s} {r.verdict:16s} {r.one_step.get('max_abs', 0):10.3g} {float(r.one_step.get('rms_over_expected', 0)):11.3f}  {r.contract or r.reason}", flush=True)
            if device.startswith("eager"):
                with torch.no_grad(), refrun.Layers(module) as layers:
                    out = run(module, inputs)
                r = refrun.check_model(net, inputs, out, layers=layers, **claim)
                bad += not r.ok
                print(f"{name:8s} {device:18s} {r.verdict:16s} {'':10s} {'':11s}  {len(r.layers)} layers: {r.contract or r.reason}", flush=True)
    return bad


def wrong(names, seed):
    bad = 0
    print(f"{'network':8s} {'fault':42s} {'output alone':16s} {'with layers':16s} {'layer':28s} diagnosis")
    for name in names:
        module, inputs = networks.build(name, seed)
        net = refrun.describe(module, inputs)
        for fault, layer, make in FAULTS[name]:
            broken = make(module).eval()
            with torch.no_grad(), refrun.Layers(broken) as layers:
                out = broken(*inputs)
            alone = refrun.check_model(net, inputs, out)
            r = refrun.check_model(net, inputs, out, layers=layers)
            found = r.first_layer == net.modules.get(layer, layer) or r.first_layer.startswith(layer + ".")
            ok = not r.ok and found and not alone.ok
            bad += not ok
            print(f"{name:8s} {fault:42s} {alone.verdict:16s} {r.verdict:16s} {r.first_layer:28s} {r.diagnosis}{'' if ok else '   <-- not as it should be: ' + layer}", flush=True)
    return bad


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--networks", nargs="*", default=list(networks.NAMES))
    p.add_argument("--seed", type=int, default=0, help="of the weights and inputs")
    p.add_argument("--right", action="store_true")
    p.add_argument("--optimize", action="store_true", help="let torch.onnx optimize the files of ONNX Runtime and OpenVINO")
    p.add_argument("--faults", action="store_true")
    p.add_argument("--device", default="cpu", help="where right ones run: cpu or cuda")
    p.add_argument("--keep", help="a folder for inputs and outputs of right devices that fail")
    o = p.parse_args()
    globals()["OPTIMIZE"] = o.optimize
    began, bad = time.time(), 0
    if o.right or not o.faults:
        bad += right(o.networks, o.seed, o.device, o.keep)
    if o.faults or not o.right:
        bad += wrong(o.networks, o.seed)
    print(f"{bad or 'none'} not as it should be, {time.time() - began:.0f} s")
    sys.exit(bool(bad))
