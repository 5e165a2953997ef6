"""A correct operator, and fifteen ways to get it wrong, each recorded and judged.

The operator is the claim (`like=`); the device is a copy of it with one fault. The
layers of the faulty step are recorded, so that the report can name the layer.

    python faults.py [--out DIR] [--only NAME ...] [--bfloat16]

Prints a row a fault; exits with 1 if the correct operator does not pass, or a
fault does, or is taken for another kind or put down to another layer.
"""

import argparse
import copy
import sys
from pathlib import Path

import torch
from torch import nn

import refrun


class Noise(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x + torch.randn_like(x) * self.scale


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(2, c), nn.GELU())

    def forward(self, x):
        return self.body(x) + x


class Operator(nn.Module):
    def __init__(self, c=8, noise=0.02):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, c, 3, padding=1, padding_mode="circular", bias=False), nn.InstanceNorm2d(c, affine=True), nn.GELU())
        self.second = Residual(c)
        self.noise = Noise(noise)
        self.out = nn.Conv2d(c, 3, 1)

    def forward(self, x):
        return self.out(self.noise(self.second(self.first(x))))


class UnbiasedNorm(nn.InstanceNorm2d):
    """Variance with N-1, as torch.var has it by default."""

    def forward(self, x):
        wide = x.float()
        mean, var = wide.mean((2, 3), keepdim=True), wide.var((2, 3), keepdim=True)
        y = (wide - mean) / torch.sqrt(var + self.eps)
        return (y * self.weight[:, None, None] + self.bias[:, None, None]).to(x.dtype)


class ActFirst(nn.Sequential):
    """Convolution, activation, norm."""

    def forward(self, x):
        conv, norm, act = self
        return norm(act(conv(x)))


class Bfloat16Input(nn.Conv2d):
    """A convolution that reads its input in bfloat16 and is float32 otherwise."""

    def forward(self, x):
        return super().forward(x.bfloat16().to(x.dtype))


class HalfSums(nn.Conv2d):
    """A convolution in two halves of the channels, whose sums are rounded to bfloat16."""

    def forward(self, x):
        c = self.in_channels // 2
        first = nn.functional.conv2d(x[:, :c], self.weight[:, :c], self.bias, padding=1)
        second = nn.functional.conv2d(x[:, c:], self.weight[:, c:], padding=1)
        return (first.bfloat16() + second.bfloat16()).to(first.dtype)


class Alone(Residual):
    """The body without what it is added to."""

    def forward(self, x):
        return self.body(x)


class StaleTile(nn.Conv2d):
    """In one step, an 8x8 tile keeps what the step before left in the buffer."""

    step, calls, before = 3, 0, None

    def forward(self, x):
        y = super().forward(x)
        self.calls += 1
        if self.calls == self.step:
            y[..., 8:16, 16:24] = self.before[..., 8:16, 16:24]
        self.before = y.clone()
        return y


def turned(op):
    op.second.body[0].weight.data = op.second.body[0].weight.data.flip(2, 3)


def zeros(op):
    op.first[0].padding_mode = "zeros"


def circular(op):
    conv = op.second.body[0]
    conv.padding_mode = "circular"
    conv._reversed_padding_repeated_twice = [1, 1, 1, 1]


def no_bias(op):
    op.out.bias = None


def shifted(op):
    w = op.first[0].weight.data
    w[3] = w[3].roll(1, -1)


def eps(op):
    op.second.body[1].eps = 1e-3


def double_noise(op):
    op.noise.scale *= 2


def becomes(path, kind):
    """The fault of a submodule that computes something else with the same parameters."""

    def inject(op):
        op.get_submodule(path).__class__ = kind

    return inject


def tanh_gelu(op):
    op.first[2].approximate = "tanh"


def no_norm(op):
    op.first[1] = nn.Identity()


# name: (what is done to the copy, the layer where it shows, the verdict)
FAULTS = {
    "tanh GELU for erf GELU": (tanh_gelu, "first.2", "FAIL-PRECISION"),
    "zero padding for circular": (zeros, "first.0", "FAIL-LOGIC"),
    "circular padding for zero": (circular, "second.body.0", "FAIL-LOGIC"),
    "unbiased variance": (becomes("first.1", UnbiasedNorm), "first.1", "FAIL-PRECISION"),
    "eps 1e-3 for 1e-5": (eps, "second.body.1", "FAIL-PRECISION"),
    "kernel turned by 180 degrees": (turned, "second.body.0", "FAIL-LOGIC"),
    "bias dropped": (no_bias, "out", "FAIL-LOGIC"),
    "one output channel's weights shifted": (shifted, "first.0", "FAIL-LOGIC"),
    "norm skipped": (no_norm, "first.1", "FAIL-LOGIC"),
    "activation before norm": (becomes("first", ActFirst), "first.1", "FAIL-LOGIC"),
    "one convolution's input in bfloat16": (becomes("second.body.0", Bfloat16Input), "second.body.0", "FAIL-PRECISION"),
    "partial sums in bfloat16": (becomes("second.body.0", HalfSums), "second.body.0", "FAIL-PRECISION"),
    "noise scale doubled": (double_noise, "noise", "FAIL-RNG"),
    "residual left out": (becomes("second", Alone), "second", "FAIL-LOGIC"),
    "stale tile at step 3": (becomes("second.body.0", StaleTile), "second.body.0", "FAIL-LOGIC"),
}


ALLOWED = {"one convolution's input in bfloat16"}  # by a bfloat16 claim: it is no fault there


def judge(path, inject=None, bfloat16=False, compiled=False):
    """Rolls out the operator, or its copy with a fault, and returns the report."""
    record(path, inject, bfloat16, compiled)
    return refrun.check(path)


def record(path, inject=None, bfloat16=False, compiled=False, steps=4, layers=(1, 3), kind="cpu"):
    """Rolls out the operator, or its copy with a fault, on a kind of device (cpu or cuda)."""
    torch.manual_seed(0)
    op = Operator().eval().to(kind)
    device = copy.deepcopy(op)
    if inject:
        inject(device)
    if compiled:
        device = torch.compile(device)
    x = torch.randn(2, 3, 32, 32).to(kind)
    with refrun.record(path, device, like=op, alpha=0.5, precision="bfloat16" if bfloat16 else "float32", layers=layers) as rec, torch.no_grad():
        with torch.autocast(kind, torch.bfloat16, enabled=bfloat16):
            for _ in range(steps):
                x = 0.5 * x + 0.5 * device(x)
        rec.finish(x)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default="faults")
    ap.add_argument("--only", nargs="*", help="parts of names")
    ap.add_argument("--bfloat16", action="store_true", help="under autocast to bfloat16")
    a = ap.parse_args()
    wrong = 0
    print(f"{'fault':38} {'verdict':16} {'step':>4}  {'layer':14} {'where':26} diagnosis")
    for name, (inject, layer, verdict) in {"none": (None, "", "PASS"), **FAULTS}.items():
        if a.only and not any(o in name for o in a.only):
            continue
        if a.bfloat16 and name in ALLOWED:
            layer, verdict = "", "PASS"
        r = judge(Path(a.out) / name.replace(" ", "-").replace("'", ""), inject, a.bfloat16)
        right = r.verdict.startswith(verdict) and r.first_layer == layer
        wrong += not right
        step = r.first_step if r.first_step > 0 else ""
        print(f"{name:38} {r.verdict:16} {step:>4}  {r.first_layer:14} {r.slice:26.26} {r.diagnosis or '-'}" + ("" if right else f"   <-- want {verdict} {layer}"), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
