"""What PyTorch's CPU autocast returns: whole rollouts, single operations, and
the type of every operation's result. See README.md for how it was run.

    python3 make.py cases bfloat16    writes SET/rollouts/NAME/
    python3 make.py ops bfloat16      writes SET/ops/
    python3 make.py rules             writes this version's part of rules.json

SET is the version and the type, such as 2.9-float16. It needs torch (1.13 or
2.x) and nothing else, runs on one thread, and writes the same bytes again on
the same CPU. --out DIR writes below DIR instead of beside this script.
"""

import argparse
import json
import math
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

# --- files -----------------------------------------------------------------

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def raw(t):
    """The bytes of a tensor as it is stored; numpy has no bfloat16."""
    t = t.detach().contiguous()
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()


def save(path, tensors, metadata=None):
    """Writes a safetensors file. Numbers without dimensions become [1]."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, t in tensors.items():
        end = at + t.numel() * t.element_size()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape) or [1], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(raw(t))


def save_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


# --- where this runs -------------------------------------------------------

RELEASE = ".".join(torch.__version__.split(".")[:2])
# Debian's 1.13.1 calls itself 1.13.0a0.
VERSION = "1.13.1" if RELEASE == "1.13" else torch.__version__.split("+")[0]


def machine():
    config = torch.__config__.show().splitlines()
    pick = lambda word: next((s.strip(" -") for s in config if word in s), "")
    return {
        "version": VERSION,
        "build": torch.__version__,
        "mkl": torch.backends.mkl.is_available(),
        "onednn": pick("MKL-DNN").replace("Intel(R) MKL-DNN ", ""),
        "capability": pick("CPU capability").replace("CPU capability usage: ", ""),
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "default"),
        "threads": torch.get_num_threads(),
    }


def produced_by():
    m = machine()
    return "PyTorch %s CPU autocast (ATen %s, oneDNN %s, ISA %s)" % (
        VERSION, m["capability"], m["onednn"].split(" ")[0], m["onednn_max_cpu_isa"])


# --- the operator ----------------------------------------------------------
# Modules with the names of Spinlock's state_dict (spelled out in docs/FORMATS.md).

def make_norm(kind, c):
    return {
        "instance": lambda: nn.InstanceNorm2d(c, affine=True),
        "batch": lambda: nn.BatchNorm2d(c),
        "group": lambda: nn.GroupNorm(min(32, c), c),
        "layer": lambda: nn.GroupNorm(1, c),
    }[kind]()


ACTIVATIONS = {"gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh, "relu": nn.ReLU}


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, k, norm, act):
        super().__init__()
        seq = [nn.Conv2d(cin, cout, k, padding=k // 2, bias=norm == "none")]
        if norm != "none":
            seq.append(make_norm(norm, cout))
        self.block = nn.Sequential(*seq, ACTIVATIONS[act]())

    def forward(self, x):
        return self.block(x)


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, k, norm, act):
        super().__init__()
        self.blocks = nn.ModuleList([ConvBlock(cin, cout, k, norm, act), ConvBlock(cout, cout, k, norm, act)])
        self.projection = nn.Conv2d(cin, cout, 1, bias=False) if cin != cout else None

    def forward(self, x):
        y = x
        for b in self.blocks:
            y = b(y)
        return y + (x if self.projection is None else self.projection(x))


class StochasticBlock(nn.Module):
    """Noise of scale s. The draws of the last call are in self.draws, by kind."""

    def __init__(self, kind, scale):
        super().__init__()
        self.kind = kind
        self.register_buffer("noise_scale", torch.tensor(scale, dtype=torch.float32))

    def forward(self, x):
        y, self.draws = noise(self.kind, x, self.noise_scale)
        return y


def noise(kind, x, s):
    """x with noise of scale s, and the draws it took."""
    if kind == "gaussian":
        n = torch.randn_like(x)
        return x + n * s, {"normal": n}
    if kind == "multiplicative":
        n = torch.randn_like(x)
        return x * (1 + n * s), {"normal": n}
    if kind == "laplace":
        e = torch.empty_like(x).exponential_()
        n = torch.randn_like(x)
        return x + e * torch.sign(n) * s, {"exponential": e, "normal": n}
    if kind == "dropout":
        # The mask is what the same generator does to ones.
        p, state = float(s), torch.get_rng_state()
        mask = F.dropout2d(torch.ones_like(x), p, training=True)[:, :, :1, :1] != 0
        torch.set_rng_state(state)
        return F.dropout2d(x, p, training=True), {"bernoulli": mask.to(x.dtype)}
    raise ValueError(kind)


class OutputLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 1)
        self.activation = nn.Identity()

    def forward(self, x):
        return self.activation(self.conv(x))


class Operator(nn.Module):
    def __init__(self, num_layers, base_channels, input_channels, output_channels, kernel_size,
                 normalization, activation, noise_type, noise_scale, grid_size):
        super().__init__()
        c = base_channels
        blocks = [ConvBlock(input_channels, c, kernel_size, normalization, activation)]
        kind = ResidualBlock if num_layers > 3 else ConvBlock
        for i in range(num_layers):
            cin, c = c, base_channels * 2 ** min(i, 2)
            blocks.append(kind(cin, c, kernel_size, normalization, activation))
        self.conv_blocks = nn.ModuleList(blocks)
        self.stochastic_block = StochasticBlock(noise_type, noise_scale)
        self.output_layer = OutputLayer(c, output_channels)

    def forward(self, x):
        for b in self.conv_blocks:
            x = b(x)
        return self.output_layer(self.stochastic_block(x))


def policy(rollout, x, y):
    if rollout["policy_type"] == "residual":
        return x + rollout["dt"] * y
    if rollout["policy_type"] == "convex":
        return rollout["alpha"] * x + (1 - rollout["alpha"]) * y
    return y


# --- cases -----------------------------------------------------------------

CONVEX = lambda a: {"policy_type": "convex", "alpha": a}
RESIDUAL = lambda dt: {"policy_type": "residual", "dt": dt}
AUTO = {"policy_type": "autoregressive"}

# name: layers, base channels, kernel, grid, norm, activation, noise, scale, policy, states, seed
CASES = {
    "seed_small": (4, 8, 3, 32, "instance", "gelu", "gaussian", 0.01, CONVEX(0.5), 4, 42),
    "residual_blocks": (4, 4, 3, 12, "instance", "gelu", "gaussian", 0.1, CONVEX(0.7), 5, 7),
    "instance_gelu_laplace": (2, 4, 3, 12, "instance", "gelu", "laplace", 0.05, RESIDUAL(0.01), 5, 3),
    "instance_silu_dropout": (2, 6, 3, 12, "instance", "silu", "dropout", 0.2, CONVEX(0.7), 6, 5),
    "batch_relu_autoregressive": (2, 5, 3, 12, "batch", "relu", "gaussian", 0.1, AUTO, 6, 11),
    "none_tanh_multiplicative": (2, 4, 5, 13, "none", "tanh", "multiplicative", 0.1, RESIDUAL(0.05), 6, 13),
    "none_gelu": (3, 4, 3, 12, "none", "gelu", "gaussian", 0.03, CONVEX(0.3), 5, 17),
    "group_silu_k5": (3, 4, 5, 12, "group", "silu", "gaussian", 0.05, RESIDUAL(0.05), 5, 19),
    "layer_tanh_multiplicative": (3, 4, 3, 12, "layer", "tanh", "multiplicative", 0.1, CONVEX(0.7), 5, 23),
}
REALIZATIONS = 2


def describe(name, dtype):
    """case.json of a case."""
    layers, base, k, grid, norm, act, kind, scale, policy, states, seed = CASES[name]
    return {
        "version": 1,
        "operator": {
            "input_channels": 3, "output_channels": 3, "kernel_size": k, "normalization": norm,
            "activation": act, "noise_type": kind, "noise_scale": scale, "num_layers": layers,
            "base_channels": base, "grid_size": grid,
        },
        "rollout": {
            **policy, "num_timesteps": states, "num_realizations": REALIZATIONS, "base_seed": seed,
            "precision": dtype, "engine_batch": 4, "autocast": "cpu",
        },
        "produced_by": produced_by(),
        "note": "testdata/autocast/make.py: operator and policy inside torch.autocast; "
                "torch.manual_seed(base_seed + t) before step t; all realizations in one batch",
        "torch": machine(),
    }


def shake(model):
    """Moves norms away from 1 and 0, and running statistics from theirs, which
    would hide what is done with them."""
    for m in model.modules():
        if isinstance(m, (nn.InstanceNorm2d, nn.BatchNorm2d, nn.GroupNorm)):
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.uniform_(-0.3, 0.3)
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.1, 0.1)
            m.running_var.uniform_(0.05, 0.3)


def make_case(name, dtype, folder):
    case = describe(name, dtype)
    r = case["rollout"]
    low = lambda: torch.autocast("cpu", dtype=getattr(torch, dtype))
    torch.manual_seed(0)
    model = Operator(**case["operator"]).eval()
    if name == "seed_small":
        case["weights_seed"] = 0  # an untrained operator, as Spinlock builds it
    else:
        shake(model)
    torch.manual_seed(1000 + r["base_seed"])
    g = case["operator"]["grid_size"]
    start = torch.randn(3, g, g)

    x = start.repeat(REALIZATIONS, 1, 1, 1)
    states, tape = [x], []
    for t in range(1, r["num_timesteps"]):
        torch.manual_seed(r["base_seed"] + t)
        with low():
            x = policy(r, x, model(x))
        states.append(x.float())
        tape.append(model.stochastic_block.draws)
    trajectory = torch.stack(states, 1)
    assert torch.isfinite(trajectory).all(), name

    layers = {"input": start[None]}
    if name != "seed_small":  # too large; residual_blocks is the same network
        # Every module whose output is its own: the leaves and the residual sums.
        hooks = [m.register_forward_hook(lambda m, i, o, n=n: layers.update({n: o.clone()}))
                 for n, m in model.named_modules()
                 if n and (isinstance(m, (ResidualBlock, StochasticBlock)) or not list(m.children()))]
        torch.manual_seed(r["base_seed"] + 1)
        with low():
            layers["output"] = model(start[None])
        for h in hooks:
            h.remove()
        draws = model.stochastic_block.draws
        for i, (kind, d) in enumerate(draws.items()):
            one = "stochastic_block.draw"
            layers[one if len(draws) == 1 else "%s%d.%s" % (one, i, kind)] = d
        save(folder + "/layers.safetensors", layers, {"step": "1", "realization": "0", "batch": "1"})

    kinds = list(tape[0])
    save(folder + "/noise.safetensors", {
        "batch0" if len(kinds) == 1 else "batch0.draw%d.%s" % (i, kind): torch.stack([d[kind] for d in tape])
        for i, kind in enumerate(kinds)})
    if "weights_seed" not in case:
        save(folder + "/weights.safetensors", model.state_dict(), {"source": "torch " + torch.__version__})
    save(folder + "/trajectory.safetensors", {"initial_condition": start, "trajectory": trajectory}, {"precision": dtype})
    save_json(folder + "/case.json", case)


def make_cases(dtype, out):
    for name in CASES:
        # PyTorch 1.13 refuses a half input with float32 weights here (rules.json).
        if RELEASE == "1.13" and CASES[name][4] in ("group", "layer"):
            continue
        make_case(name, dtype, os.path.join(out, "rollouts", name))


# --- single operations -----------------------------------------------------

TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def uniform(*shape, lo=-1.0, hi=1.0):
    return torch.rand(*shape) * (hi - lo) + lo


def wide(low, *shape):
    """Numbers of the half type over many powers of two, some subnormal."""
    return (torch.randn(*shape) * 2.0 ** torch.randint(-24, 8, shape)).to(low)


def integers(*shape, most):
    return torch.randint(-most, most + 1, shape).float()


def conv_ops(low):
    """name, operation, its arguments. Weights and biases are float32, as in a
    module: autocast rounds them."""
    def one(name, x, cout, k, bias, **attrs):
        w = torch.randn(cout, x.shape[1], k, k) / math.sqrt(x.shape[1] * k * k)
        return name, F.conv2d, {"x": x, "weight": w, **({"bias": uniform(cout)} if bias else {})}, attrs

    yield one("conv2d_3x3", torch.randn(1, 16, 12, 12).to(low), 16, 3, False, stride=1, padding=1)
    yield one("conv2d_3x3_bias_float32", torch.randn(2, 3, 12, 12), 8, 3, True, stride=1, padding=1)
    yield one("conv2d_3x3_c64", torch.randn(1, 64, 8, 8).to(low), 32, 3, False, stride=1, padding=1)
    yield one("conv2d_1x1", torch.randn(1, 16, 12, 12).to(low), 32, 1, False, stride=1, padding=0)
    yield one("conv2d_1x1_bias", torch.randn(2, 32, 16, 16).to(low), 3, 1, True, stride=1, padding=0)
    yield one("conv2d_stride2_bias", torch.randn(1, 8, 15, 14).to(low), 16, 3, True, stride=2, padding=1)
    yield one("conv2d_5x5_bias", torch.randn(1, 6, 13, 13).to(low), 12, 5, True, stride=1, padding=2)
    yield one("conv2d_wide", wide(low, 1, 8, 12, 12), 8, 3, True, stride=1, padding=1)
    # Integers: every float32 sum is exact, so any order and any blocking must
    # return the exact value rounded once; many of them are ties.
    exact = {"x": integers(1, 24, 10, 10, most=15).to(low), "weight": integers(16, 24, 3, 3, most=15),
             "bias": integers(16, most=250)}
    yield "conv2d_integers", F.conv2d, exact, {"stride": 1, "padding": 1}
    up = {"x": torch.randn(1, 12, 9, 9).to(low), "weight": torch.randn(12, 8, 2, 2) / 7, "bias": uniform(8)}
    yield "conv_transpose2d", F.conv_transpose2d, up, {"stride": 2, "padding": 0}


def norm_ops(low):
    """name, operation, arguments. eps is the default, 1e-5."""
    affine = lambda c: {"weight": uniform(c, lo=0.5, hi=1.5), "bias": uniform(c, lo=-0.3, hi=0.3)}
    instance = lambda x, weight, bias: F.instance_norm(x, None, None, weight, bias)
    yield "instance_norm", instance, {"x": torch.randn(2, 8, 12, 12).to(low), **affine(8)}, {}
    # Variance next to eps, far from the mean, and of odd size.
    small = torch.randn(1, 4, 11, 13) * torch.tensor([1e-3, 3e-3, 1e-2, 0.1]).view(4, 1, 1)
    yield "instance_norm_small", instance, {"x": small.to(low), **affine(4)}, {}
    far = torch.randn(1, 4, 12, 12) + torch.tensor([3.0, 10.0, 30.0, 100.0]).view(4, 1, 1)
    yield "instance_norm_far", instance, {"x": far.to(low), **affine(4)}, {}
    yield "batch_norm", lambda x, mean, variance, weight, bias: F.batch_norm(x, mean, variance, weight, bias), {
        "x": torch.randn(2, 8, 10, 10).to(low), "mean": uniform(8), "variance": uniform(8, lo=0.01, hi=2), **affine(8)}, {}
    if RELEASE != "1.13":  # which refuses them: rules.json
        group = lambda x, weight, bias, num_groups: F.group_norm(x, num_groups, weight, bias)
        yield "group_norm", group, {"x": torch.randn(2, 12, 9, 9).to(low), **affine(12)}, {"num_groups": 4}
        yield "layer_norm", group, {"x": torch.randn(2, 12, 9, 9).to(low), **affine(12)}, {"num_groups": 1}


def noise_ops(low):
    x = torch.randn(2, 8, 10, 10).to(low)
    n, e = torch.randn_like(x), torch.empty_like(x).exponential_()
    s = torch.tensor(0.1)  # a module's buffer: float32, without dimensions
    scaled = lambda n, s: n * s
    yield "scale", scaled, {"n": n, "s": s}, {}
    yield "scale_wide", scaled, {"n": wide(low, 2048), "s": torch.tensor(0.01)}, {}
    yield "gaussian", lambda x, n, s: x + n * s, {"x": x, "n": n, "s": s}, {}
    yield "multiplicative", lambda x, n, s: x * (1 + n * s), {"x": x, "n": n, "s": s}, {}
    yield "laplace", lambda x, e, n, s: x + e * torch.sign(n) * s, {"x": x, "e": e, "n": n, "s": s}, {}
    for p in (0.1, 0.2):
        y, draws = noise("dropout", x, torch.tensor(p))
        yield "dropout2d_%g" % p, None, {"x": x, "mask": draws["bernoulli"]}, {"p": p}, y


def policy_ops(low):
    x, y = torch.randn(2, 3, 12, 12), torch.randn(2, 3, 12, 12).to(low)
    convex = lambda x, y, alpha: alpha * x + (1 - alpha) * y
    residual = lambda x, y, dt: x + dt * y
    for a in (0.5, 0.7, 0.3):
        yield "convex_%g" % a, convex, {"x": x, "y": y}, {"alpha": a}
    for dt in (0.01, 0.05):
        yield "residual_%g" % dt, residual, {"x": x, "y": y}, {"dt": dt}
    yield "scaled_output", lambda y, factor: factor * y, {"y": wide(low, 2048)}, {"factor": 0.01}


def other_ops(low):
    a, b = wide(low, 2048), wide(low, 2048)
    add = lambda a, b: a + b
    yield "add", add, {"a": a, "b": b}, {}
    yield "add_near", add, {"a": torch.randn(2048).to(low), "b": torch.randn(2048).to(low)}, {}
    yield "add_float32", add, {"a": a, "b": b.float() * 1.1}, {}
    x = torch.randn(1, 4, 12, 12).to(low)
    yield "avg_pool2d", F.avg_pool2d, {"x": x}, {"kernel_size": 2}
    yield "avg_pool2d_3", F.avg_pool2d, {"x": x}, {"kernel_size": 3}
    x = torch.randn(1, 4, 7, 7).to(low)
    for f in (2, 3):
        yield "nearest_%d" % f, F.interpolate, {"x": x}, {"scale_factor": f, "mode": "nearest"}
        yield "bilinear_%d" % f, F.interpolate, {"x": x}, {"scale_factor": f, "mode": "bilinear", "align_corners": False}


# Their input is every bit pattern of the type, in order, and is not stored. (ReLU
# rounds nothing; the layers of batch_relu_autoregressive have it.)
EVERYWHERE = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
}


def make_ops(dtype, out):
    low = getattr(torch, dtype)
    index = []

    def record(name, group, inputs, attrs, y):
        save(os.path.join(out, "ops", name + ".safetensors"), {**inputs, "out": y})
        index.append({"file": name + ".safetensors", "op": group, "attrs": attrs, "inputs": list(inputs),
                      "input_dtypes": [TYPES[t.dtype] for t in inputs.values()], "out_dtype": TYPES[y.dtype]})

    torch.manual_seed(20)
    for ops in (conv_ops, norm_ops, noise_ops, policy_ops, other_ops):
        for name, f, inputs, attrs, *y in ops(low):
            with torch.autocast("cpu", dtype=low):
                y = y[0] if y else f(*inputs.values(), **attrs)
            record(name, name_of_op(name), inputs, attrs, y)

    bits = torch.arange(-1 << 15, 1 << 15, dtype=torch.int32).to(torch.int16).roll(1 << 15)
    x = bits.view(low).view(1, 1, 256, 256)
    for name, f in EVERYWHERE.items():
        with torch.autocast("cpu", dtype=low):
            record("act_" + name, name, {}, {"input": "all 65536 bit patterns, in order"}, f(x).view(-1))
    save_json(os.path.join(out, "ops", "index.json"), {"produced_by": produced_by(), "torch": machine(), "cases": index})


def name_of_op(name):
    """The operation of a file: what comes before the variant."""
    known = ["conv_transpose2d", "conv2d", "instance_norm", "batch_norm", "group_norm", "layer_norm",
             "avg_pool2d", "dropout2d"]
    return next((k for k in known if name.startswith(k)), name.split("_")[0])


# --- rules: the type of every operation's result ---------------------------

def rule_ops(dtype):
    """Operations on a tensor of that type, with the float32 parameters that a
    module would have."""
    x = torch.rand(2, 4, 8, 8).to(dtype) + 0.5
    y = torch.rand(2, 4, 8, 8) + 0.5  # float32, whatever x is
    w, v, m = torch.rand(4, 4, 3, 3), torch.rand(4), torch.rand(8, 8)
    s = torch.tensor(0.1)
    grid = torch.rand(2, 8, 8, 2).to(dtype)
    return {
        "conv2d": lambda: F.conv2d(x, w),
        "conv_transpose2d": lambda: F.conv_transpose2d(x, w),
        "linear": lambda: F.linear(x, m),
        "matmul": lambda: x @ m,
        "einsum": lambda: torch.einsum("bcij,jk->bcik", x, m),
        "instance_norm": lambda: F.instance_norm(x, None, None, v, v),
        "instance_norm, no affine": lambda: F.instance_norm(x),
        "batch_norm": lambda: F.batch_norm(x, v, v, v, v),
        "group_norm": lambda: F.group_norm(x, 2, v, v),
        "group_norm, no affine": lambda: F.group_norm(x, 2),
        "layer_norm": lambda: F.layer_norm(x, (8,), torch.rand(8), torch.rand(8)),
        "layer_norm, no affine": lambda: F.layer_norm(x, (8,)),
        "gelu": lambda: F.gelu(x),
        "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "silu": lambda: F.silu(x),
        "relu": lambda: F.relu(x),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "softplus": lambda: F.softplus(x),
        "exp": lambda: torch.exp(x),
        "log": lambda: torch.log(x),
        "pow": lambda: torch.pow(x, 2.5),
        "rsqrt": lambda: torch.rsqrt(x),
        "reciprocal": lambda: torch.reciprocal(x),
        "add, both": lambda: x + x,
        "add, float32": lambda: x + y,
        "mul, both": lambda: x * x,
        "mul, float32": lambda: x * y,
        "mul, python number": lambda: x * 0.1,
        "mul, float32 without dimensions": lambda: x * s,
        "mul, float32 of one element": lambda: x * s[None],
        "cat, both": lambda: torch.cat([x, x], 1),
        "cat, float32": lambda: torch.cat([x, y], 1),
        "stack, float32": lambda: torch.stack([x, y]),
        "addcmul, float32": lambda: torch.addcmul(x, x, y),
        "addcdiv, float32": lambda: torch.addcdiv(x, x, y),
        "grid_sampler": lambda: F.grid_sample(x, grid, align_corners=False),
        "randn_like": lambda: torch.randn_like(x),
        "rand_like": lambda: torch.rand_like(x),
        "randn": lambda: torch.randn(2, 4),
        "exponential_": lambda: torch.empty_like(x).exponential_(),
        "sign": lambda: torch.sign(x),
        "dropout": lambda: F.dropout(x, 0.5, training=True),
        "dropout2d": lambda: F.dropout2d(x, 0.5, training=True),
        "avg_pool2d": lambda: F.avg_pool2d(x, 2),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(x, 1),
        "max_pool2d": lambda: F.max_pool2d(x, 2),
        "interpolate nearest": lambda: F.interpolate(x, scale_factor=2, mode="nearest"),
        "interpolate bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        "interpolate bicubic": lambda: F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False),
        "pad zeros": lambda: F.pad(x, (1, 1, 1, 1)),
        "pad circular": lambda: F.pad(x, (1, 1, 1, 1), mode="circular"),
        "pad reflect": lambda: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad replicate": lambda: F.pad(x, (1, 1, 1, 1), mode="replicate"),
        "softmax": lambda: torch.softmax(x, 1),
        "sum": lambda: x.sum(1),
        "mean": lambda: x.mean(1),
        "prod": lambda: x.prod(1),
        "cumsum": lambda: x.cumsum(1),
        "norm": lambda: torch.norm(x),
        "rfft2": lambda: torch.fft.rfft2(x),
        "mse_loss": lambda: F.mse_loss(x, y),
        "l1_loss": lambda: F.l1_loss(x, y),
    }


def index_rules(dtype):
    """The same of operations that move numbers, recorded in 2.x only."""
    x = torch.rand(2, 4, 8, 8).to(dtype) + 0.5
    y = torch.rand(2, 4, 8, 8) + 0.5
    i = torch.zeros(2, 4, 8, 8, dtype=torch.int64)
    k = torch.tensor([1, 0])
    table, rows, wide = x.reshape(64, 8), torch.ones(2, 8, dtype=dtype), torch.ones(2, 8)
    return {
        "reshape": lambda: x.reshape(8, 64),
        "flatten": lambda: x.flatten(1),
        "unflatten": lambda: x.unflatten(1, (2, 2)),
        "squeeze": lambda: x.squeeze(),
        "unsqueeze": lambda: x.unsqueeze(0),
        "permute": lambda: x.permute(3, 2, 1, 0),
        "transpose": lambda: x.transpose(0, 1),
        "expand": lambda: x.expand(3, 2, 4, 8, 8),
        "stack, both": lambda: torch.stack([x, x]),
        "split": lambda: x.split(2, 1)[0],
        "chunk": lambda: x.chunk(2, 1)[0],
        "unbind": lambda: x.unbind(1)[0],
        "slice": lambda: x[:, ::2],
        "select": lambda: x.select(1, 0),
        "flip": lambda: x.flip(1),
        "roll": lambda: x.roll(1, 1),
        "repeat": lambda: x.repeat(1, 2, 1, 1),
        "repeat_interleave": lambda: x.repeat_interleave(2, 1),
        "tril": lambda: x.tril(),
        "triu": lambda: x.triu(),
        "pixel_shuffle": lambda: F.pixel_shuffle(x, 2),
        "pixel_unshuffle": lambda: F.pixel_unshuffle(x, 2),
        "gather": lambda: x.gather(1, i),
        "index_select": lambda: x.index_select(0, k),
        "embedding": lambda: F.embedding(k, table),
        "embedding_bag": lambda: F.embedding_bag(k[None], table),
        "index": lambda: x[k, k],
        "scatter": lambda: x.scatter(1, i, x),
        "scatter, float32": lambda: x.scatter(1, i, y),
        "scatter_add": lambda: x.scatter_add(1, i, x),
        "scatter_add, float32": lambda: x.scatter_add(1, i, y),
        "scatter_reduce": lambda: x.scatter_reduce(1, i, x, "amax"),
        "scatter_reduce, float32": lambda: x.scatter_reduce(1, i, y, "amax"),
        "index_add": lambda: table.index_add(0, k, rows),
        "index_add, float32": lambda: table.index_add(0, k, wide),
        "index_reduce": lambda: table.index_reduce(0, k, rows, "amax"),
        "index_put": lambda: table.index_put((k,), rows),
        "index_put, float32": lambda: table.index_put((k,), wide),
        "index_put, accumulate, float32": lambda: table.index_put((k,), wide, accumulate=True),
        "topk": lambda: x.topk(2)[0],
        "topk, places": lambda: x.topk(2)[1],
        "sort": lambda: x.sort()[0],
        "sort, places": lambda: x.sort()[1],
        "argmax": lambda: x.argmax(1),
        "argmin": lambda: x.argmin(1),
    }


def spectral_rules(dtype):
    """The same of Fourier transforms, whose complex numbers are seen as pairs of real ones."""
    x = torch.rand(2, 4, 8, 8).to(dtype) + 0.5
    return {
        "fft_fft": lambda: torch.view_as_real(torch.fft.fft(x)),
        "fft_ifft": lambda: torch.view_as_real(torch.fft.ifft2(x)),
        "fft_rfft": lambda: torch.view_as_real(torch.fft.rfft2(x)),
        "fft_irfft": lambda: torch.fft.irfft2(x),
    }


def pool_rules(dtype):
    """The same of pooling and resizing, recorded in 2.x only; 1.13 has some of it above."""
    lines, planes, volumes = (torch.rand(*([2, 4] + [6] * n)).to(dtype) for n in (1, 2, 3))
    ops = {}
    for n, x in enumerate([lines, planes, volumes], 1):
        for name, size in [("max_pool", 2), ("avg_pool", 2), ("adaptive_avg_pool", 3), ("adaptive_max_pool", 3)]:
            f = getattr(F, name + str(n) + "d")
            ops[name + str(n) + "d"] = lambda f=f, x=x, size=size: f(x, size)
    for mode, x in [("linear", lines), ("trilinear", volumes), ("nearest-exact", planes), ("area", planes)]:
        ops["interpolate " + mode] = lambda mode=mode, x=x: F.interpolate(x, scale_factor=2, mode=mode)
    for n, x in [(1, lines), (3, volumes)]:
        ops["interpolate nearest, %d axes" % n] = lambda x=x: F.interpolate(x, scale_factor=2)
    return ops


def product_rules(dtype):
    """The same of products beyond those above, of convolutions of one and of three axes,
    and of attention."""
    x, m, v = torch.rand(2, 4, 8).to(dtype), torch.rand(8, 8), torch.rand(8)
    line, volume = torch.rand(2, 4, 6).to(dtype), torch.rand(2, 4, 6, 6, 6).to(dtype)
    w1, w3 = torch.rand(4, 4, 3), torch.rand(4, 4, 3, 3, 3)
    return {
        "mm": lambda: torch.mm(x[0], m),
        "bmm": lambda: torch.bmm(x, torch.rand(2, 8, 8)),
        "addmm": lambda: torch.addmm(v, x[0], m),
        "baddbmm": lambda: torch.baddbmm(v, x, torch.rand(2, 8, 8)),
        "conv1d": lambda: F.conv1d(line, w1),
        "conv3d": lambda: F.conv3d(volume, w3),
        "conv_transpose1d": lambda: F.conv_transpose1d(line, w1),
        "conv_transpose3d": lambda: F.conv_transpose3d(volume, w3),
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(x, x, x),
        "scaled_dot_product_attention, float32 mask": lambda: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.rand(4, 4)),
    }


def norm_rules(dtype):
    """The same of norms that 1.13 has not."""
    x = torch.rand(2, 4, 8).to(dtype)
    return {
        "rms_norm": lambda: F.rms_norm(x, (8,), torch.ones(8)),
        "rms_norm, no affine": lambda: F.rms_norm(x, (8,)),
    }


def reduce_rules(dtype):
    """The same of reductions beyond those above."""
    x = torch.rand(2, 4, 8, 8).to(dtype)
    return {
        "log_softmax": lambda: torch.log_softmax(x, 1),
        "logsumexp": lambda: torch.logsumexp(x, 1),
        "amax": lambda: x.amax(1),
        "amin": lambda: x.amin(1),
        "max": lambda: x.max(1)[0],
        "min": lambda: x.min(1)[0],
        "var": lambda: x.var(1),
        "std": lambda: x.std(1),
        "any": lambda: x.any(1),
        "all": lambda: x.all(1),
        "linalg_vector_norm": lambda: torch.linalg.vector_norm(x, 2, 1),
    }


def pointwise_rules(dtype):
    """The same of functions of each number beyond those above."""
    x, y, c = torch.rand(2, 4, 8, 8).to(dtype), torch.rand(2, 4, 8, 8), torch.rand(2, 4, 8, 8) > 0.5
    ops = {name: lambda name=name: getattr(torch, name)(x) for name in (
        "exp2 expm1 log2 log1p sqrt square sin cos tan atan erf abs neg floor ceil trunc round logical_not selu celu isnan isinf "
        "sinh cosh asinh acosh asin acos log10 erfc").split()}
    ops |= {name: lambda name=name: getattr(F, name)(x) for name in (
        "elu leaky_relu hardtanh hardshrink softshrink relu6 hardsigmoid hardswish softsign mish glu").split()}
    ops |= {"clamp": lambda: x.clamp(0.1, 0.9), "prelu": lambda: F.prelu(x, torch.rand(4)), "where, both": lambda: torch.where(c, x, x),
            "where, float32": lambda: torch.where(c, x, y), "pow, both": lambda: torch.pow(x, x), "pow, float32": lambda: torch.pow(x, y),
            "div, trunc": lambda: torch.div(x, x, rounding_mode="trunc"), "div, floor": lambda: torch.div(x, x, rounding_mode="floor"),
            "sub, scaled": lambda: torch.sub(x, x, alpha=0.3)}
    for name in "sub mul div fmod remainder floor_divide atan2 minimum maximum fmin fmax eq ne lt le gt ge logical_and logical_or logical_xor".split():
        ops[name + ", both"] = lambda name=name: getattr(torch, name)(x, x)
        ops[name + ", float32"] = lambda name=name: getattr(torch, name)(x, y)
    return {name: op for name, op in ops.items() if name not in rule_ops(dtype)}


def outcome(f):
    """The type of what f returns, or the first line of its error."""
    try:
        return str(f().dtype).removeprefix("torch.")
    except Exception as e:
        return "error: " + str(e).splitlines()[0]


def make_rules(path):
    rules = json.load(open(path)) if os.path.exists(path) else {}
    mine = rules[VERSION] = {"torch": machine()}
    for dtype in ["bfloat16"] if RELEASE == "1.13" else ["bfloat16", "float16"]:
        low = getattr(torch, dtype)
        torch.manual_seed(30)
        rows = mine[dtype] = {}
        for ops in [rule_ops] if RELEASE == "1.13" else [rule_ops, index_rules, spectral_rules, pool_rules, product_rules, norm_rules, pointwise_rules, reduce_rules]:
            for name in ops(low):
                with torch.autocast("cpu", dtype=low):
                    rows[name] = {dtype: outcome(ops(low)[name]), "float32": outcome(ops(torch.float32)[name])}
    save_json(path, dict(sorted(rules.items())))


# --- main ------------------------------------------------------------------

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["cases", "ops", "rules"])
    p.add_argument("dtype", nargs="?", choices=["bfloat16", "float16"], default="bfloat16")
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    a = p.parse_args()
    torch.set_num_threads(1)
    folder = os.path.join(a.out, RELEASE + "-" + a.dtype)
    with torch.no_grad():
        if a.what == "cases":
            make_cases(a.dtype, folder)
        if a.what == "ops":
            make_ops(a.dtype, folder)
        if a.what == "rules":
            make_rules(os.path.join(a.out, "rules.json"))


main()
