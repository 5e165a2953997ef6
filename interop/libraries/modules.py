"""Judges whole small modules as PyTorch runs them, eager, compiled, in half types and under autocast, and the same with a
fault.

    python interop/libraries/modules.py [--way eager compiled half autocast] [--dtype float32 float16 bfloat16]
        [--only gru ...] [--seed 0] [--faults] [--results FILE]

eager and compiled are in float32, half has parameters and inputs in a half type, autocast is torch.autocast's of a CPU.
"""

from __future__ import annotations

import argparse

import refrun
import torch
import torch.nn.functional as F
from torch import nn

import report


class Residual(nn.Module):
    """ResNet's block."""

    def __init__(self, c=8):
        super().__init__()
        self.one, self.two = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(c), nn.BatchNorm2d(c)])

    def forward(self, x):
        return F.relu(x + self.norms[1](self.two(F.relu(self.norms[0](self.one(x))))))


class ConvNeXt(nn.Module):
    """Its block: a depthwise convolution, and products with channels last."""

    def __init__(self, c=8):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.down, self.scale = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.full((c,), 0.3))

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class Inverted(nn.Module):
    """MobileNetV3's, with squeeze and excitation."""

    def __init__(self, c=8):
        super().__init__()
        self.up, self.each = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(3 * c, 3 * c, 3, padding=1, groups=3 * c)
        self.squeeze, self.excite, self.down = nn.Conv2d(3 * c, c, 1), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(3 * c, c, 1)

    def forward(self, x):
        y = F.hardswish(self.each(F.hardswish(self.up(x))))
        s = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.down(y * s)


class UNet(nn.Module):
    """A block of a diffusion model's U-Net: norms in groups, a time embedding, attention over pixels."""

    def __init__(self, c=16):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(4, c) for _ in range(3))
        self.one, self.two, self.time = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(12, c)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x, t):
        y = self.one(F.silu(self.norms[0](x))) + self.time(F.silu(t))[:, :, None, None]
        x = x + self.two(F.silu(self.norms[1](y)))
        q, k, v = self.qkv(self.norms[2](x).flatten(2).mT).chunk(3, -1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v)).mT.reshape(x.shape)


class Llama(nn.Module):
    """A layer of a language model: RMS norms, rotary positions, grouped queries, SwiGLU."""

    def __init__(self, c=32, heads=4):
        super().__init__()
        self.norms, self.heads = nn.ModuleList(nn.RMSNorm(c, eps=1e-6) for _ in range(2)), heads
        self.q, self.kv, self.o = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.gate, self.up, self.down = nn.Linear(c, 3 * c, bias=False), nn.Linear(c, 3 * c, bias=False), nn.Linear(3 * c, c, bias=False)

    def forward(self, x):
        b, n, c = x.shape
        h = self.norms[0](x)
        q = self.q(h).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = (t.view(b, n, self.heads // 2, -1).transpose(1, 2).repeat_interleave(2, 1) for t in self.kv(h).chunk(2, -1))
        angle = torch.arange(n)[:, None] * 100.0 ** -torch.linspace(0, 1, q.shape[-1] // 2)
        cos, sin = torch.cat([angle, angle], -1).cos().to(x.dtype), torch.cat([angle, angle], -1).sin().to(x.dtype)
        turn = lambda t: t * cos + torch.cat([-t[..., t.shape[-1] // 2 :], t[..., : t.shape[-1] // 2]], -1) * sin
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class First(nn.Module):
    """The first output of a module."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, *x):
        return self.of(*x)[0]


def image(c):
    return lambda: torch.randn(2, c, 10, 12)


def sequence(c):
    return lambda: torch.randn(2, 9, c)


MODULES = {
    "residual": (Residual, [image(8)]), "convnext": (ConvNeXt, [image(8)]), "inverted": (Inverted, [image(8)]),
    "unet": (UNet, [image(16), lambda: torch.randn(2, 12)]), "llama": (Llama, [sequence(32)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, activation="gelu"), [sequence(32)]),
    "encoder first": (lambda: nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True), [sequence(32)]),
    "decoder": (lambda: nn.TransformerDecoderLayer(32, 4, 48, batch_first=True), [sequence(32), sequence(32)]),
    "attention": (lambda: First(nn.MultiheadAttention(32, 4, batch_first=True)), [sequence(32)] * 3),
    "lstm": (lambda: First(nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)), [sequence(12)]),
    "gru": (lambda: First(nn.GRU(12, 16, batch_first=True)), [sequence(12)]),
    "rnn": (lambda: First(nn.RNN(12, 16, batch_first=True)), [sequence(12)]),
    "patches": (lambda: nn.Sequential(nn.Conv2d(3, 24, 4, 4), nn.Flatten(2), nn.LayerNorm(6), nn.GELU(approximate="tanh")), [lambda: torch.randn(2, 3, 8, 12)]),
    "upsampling": (lambda: nn.Sequential(nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.InstanceNorm2d(6, affine=True), nn.LeakyReLU(0.2),
                                         nn.Upsample(scale_factor=2, mode="bilinear")), [image(8)]),
    "mixer": (lambda: nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32), nn.Softmax(-1)), [sequence(32)]),
}
WAYS = ("eager", "compiled", "half", "autocast")


def returned(module, inputs, way, dtype):
    """What PyTorch returns, and what is claimed of it."""
    with torch.no_grad():
        if way == "compiled":
            torch._dynamo.reset()
            return torch.compile(module)(*inputs), {}
        if way == "half":
            module, inputs = module.to(dtype), [x.to(dtype) for x in inputs]
            return module(*inputs), dict(precision=report.NAMES[dtype], autocast="none")
        if way == "autocast":
            with torch.autocast("cpu", dtype):
                return module(*inputs), dict(precision=report.NAMES[dtype], autocast="cpu")
        return module(*inputs), {}


def sweep(a):
    for name in a.only:
        for way in a.way:
            for dtype in map(report.TYPES.get, a.dtype):
                if (dtype == torch.float32) != (way in WAYS[:2]):
                    continue
                row = dict(name=name, library=way, dtype=report.NAMES[dtype], kind="normal")
                torch.manual_seed(a.seed)
                make, inputs = MODULES[name]
                module, inputs = make().eval(), [x() for x in inputs]
                try:
                    y, claim = returned(module, inputs, way, dtype)
                except Exception as e:
                    yield dict(row, verdict="NOT RUN", says=f"{type(e).__name__}: {e}")
                    continue
                if way == "half":
                    inputs = [x.to(dtype) for x in inputs]

                def judge(output):
                    try:
                        v = refrun.check_model(module, inputs, output, **claim)
                    except (ValueError, RuntimeError) as e:
                        return "NOT JUDGED", str(e)
                    return v.verdict, str(v)

                yield from report.judged(row, y, judge, a.faults)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--way", nargs="+", choices=WAYS, default=list(WAYS))
    p.add_argument("--dtype", nargs="+", choices=report.TYPES, default=list(report.TYPES))
    p.add_argument("--only", nargs="+", choices=MODULES, default=list(MODULES), metavar="NAME")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--faults", action="store_true")
    p.add_argument("--results")
    a = p.parse_args()
    report.run(sweep(a), a.results)
