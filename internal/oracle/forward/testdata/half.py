"""Records what PyTorch returns of small modules in half precisions, right and with a fault, for TestHalfDevices:

    python half.py half
"""

import contextlib
import copy
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from refrun import Layers, describe
from safetensors.torch import save_file
from torch import nn


class Attention(nn.Module):
    scale = None

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.after, self.weight, self.eps = nn.Linear(width, width), nn.Linear(width, width), nn.Parameter(torch.rand(width) + 0.5), 1e-6

    def forward(self, x):
        x = self.before(x)
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.after(y.to(x.dtype) * self.weight)


class Rotary(nn.Module):
    """A product turned by angles that are computed in float32 whatever the module is cast to."""

    def __init__(self, width):
        super().__init__()
        self.product, self.after, self.base = nn.Linear(width, width), nn.Linear(width, width), 10000.0

    def forward(self, x):
        y = self.product(x)
        length, width = y.shape[-2:]
        angles = torch.arange(length).float()[:, None] * self.base ** (-torch.arange(0, width, 2).float() / width)
        cos, sin = (torch.cat([t, t], -1).to(y.dtype) for t in (angles.cos(), angles.sin()))
        a, b = y.chunk(2, -1)
        return self.after(y * cos + torch.cat([-b, a], -1) * sin)


class Transposed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.up = nn.Conv2d(width, width, 3, padding=1), nn.ConvTranspose2d(width, width // 2, 3, 1, 1)

    def forward(self, x):
        return self.up(torch.relu(self.conv(x)))


class LSTMStep(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.ih, self.hh, self.swapped = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width), False

    def forward(self, x, h, c):
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, -1)
        if self.swapped:
            i, o = o, i
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Recurrent(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.layer = nn.LSTM(inputs, width, bidirectional=True, batch_first=True)
        for p in self.parameters():
            if p.dim() == 1:
                nn.init.normal_(p, std=0.3)

    def forward(self, x):
        return self.layer(x)[0]


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()

        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.Tanh())

        self.down, self.middle, self.up = block(3, width), block(width, 2 * width), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last, self.out = block(2 * width, width), nn.Conv2d(width, 3, 1)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        a = self.down(x)
        y = self.up(self.middle(F.max_pool2d(a, 2)))
        return self.out(self.last(torch.cat((y, a), 1)))


def encoder(width, norm_first):
    """A layer that PyTorch evaluates in one function of its own, with its attention in another, where nothing is trained."""
    m = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=norm_first)
    for p in m.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, std=0.3)
    return m


def decoder(seed, width):
    """Two attentions, one of them with its projection: of so many operations it is not found which results PyTorch rounds."""
    torch.manual_seed(seed)
    m = nn.TransformerDecoderLayer(width, 2, 2 * width, batch_first=True)
    for p in m.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, std=0.3)
    return m, (torch.randn(2, 7, width), torch.randn(2, 9, width))


class Masked(nn.Module):
    """An attention with its projection under a mask, of which PyTorch evaluates both in one function where nothing is trained."""

    def __init__(self, width):
        super().__init__()
        self.attention, self.ahead = nn.MultiheadAttention(width, 2, batch_first=True), 1
        for p in self.parameters():
            if p.dim() == 1:
                nn.init.normal_(p, std=0.3)

    def forward(self, x):
        n = x.shape[1]
        return self.attention(x, x, x, need_weights=False, attn_mask=torch.ones(n, n).triu(self.ahead).bool())[0]


def changed(module, name, value):
    m = copy.deepcopy(module)
    owner, _, leaf = name.rpartition(".")
    setattr(m.get_submodule(owner), leaf, value)
    return m


def run(module, inputs, half, pure, seen):
    with torch.no_grad(), Layers(module) if seen else contextlib.nullcontext() as layers:  # hooks may switch a function of its own off
        if pure:
            return module(*inputs), layers
        with torch.autocast("cpu", half):
            return module(*inputs), layers


def record(folder, name, module, inputs, half, fault, pure=False, native=False, layers=False):
    module = module.eval()
    wrong = changed(module, *fault)
    plain, given = (module, inputs), inputs
    if pure:
        module, wrong = copy.deepcopy(module).to(half), wrong.to(half)
        given = tuple(t.to(half) for t in inputs)
        plain = (module, given) if native else plain
    with torch.autocast("cpu", half, enabled=native and not pure):
        net = describe(*plain)
    net.save(Path(folder) / f"{name}.json")
    numbers = {f"input.{k}": v for k, v in net.feed(plain[1]).items()}
    for kind, m in (("right", module), ("wrong", wrong)):
        out, seen = run(m, given, half, pure, layers)
        out = out if isinstance(out, tuple) else (out,)
        numbers.update({f"{kind}.{k}": v for k, v in enumerate(out)})
        if layers:
            numbers.update({f"{kind}_layer.{net.modules[k]}": v for k, v in seen.items() if k in net.modules})
    save_file({k: v.contiguous().clone() for k, v in numbers.items()}, str(Path(folder) / f"{name}.numbers.safetensors"))


def main(folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    r, b, f = torch.randn, torch.bfloat16, torch.float16
    qkv = tuple(r(1, 2, 17, 8) for _ in range(3))
    for name, half in (("bfloat16", b), ("float16", f)):
        record(folder, f"attention-{name}-cpu", Attention(), qkv, half, ("scale", 1.0))
        record(folder, f"transposed-{name}-cpu", Transposed(8), (r(1, 8, 6, 6),), half, ("up.bias", None))
        record(folder, f"lstm-{name}-cpu", LSTMStep(5, 8), (r(4, 5), torch.zeros(4, 8), torch.zeros(4, 8)), half, ("swapped", True), layers=True)
        record(folder, f"rms-{name}-cpu", RMSNorm(24), (r(4, 24),), half, ("eps", 1e-2), native=True)
        record(folder, f"rms-{name}-none", RMSNorm(24), (r(4, 24),), half, ("eps", 1e-2), pure=True, native=True)
    for name, half in (("bfloat16", b), ("float16", f)):
        record(folder, f"rotary-{name}-none", Rotary(24), (r(2, 37, 24),), half, ("base", 9000.0), pure=True, native=True, layers=True)
    record(folder, "unet-float16-none", UNet(4), (r(1, 3, 16, 16),), f, ("last.1.eps", 1e-1), pure=True)
    fault = ("activation_relu_or_gelu", 2)
    record(folder, "encoder-bfloat16-cpu", encoder(16, True), (r(2, 9, 16),), b, fault)
    record(folder, "encoder-float16-none", encoder(16, False), (r(2, 9, 16),), f, fault, pure=True)
    record(folder, "recurrent-bfloat16-cpu", Recurrent(5, 8), (r(3, 4, 5),), b, ("layer.bias_hh_l0", nn.Parameter(torch.zeros(32))))
    record(folder, "masked-bfloat16-cpu", Masked(16), (r(2, 9, 16),), b, ("ahead", 2))
    m, given = decoder(7, 16)
    record(folder, "decoder-bfloat16-none", m, given, b, ("norm2.bias", nn.Parameter(torch.zeros(16))), pure=True, native=True)


if __name__ == "__main__":
    main(sys.argv[1])
