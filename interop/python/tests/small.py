"""A small operator in PyTorch, shared by the tests and the examples."""

import torch
from torch import nn


class Noise(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.register_buffer("noise_scale", torch.tensor(scale))

    def forward(self, x):
        return x + torch.randn_like(x) * self.noise_scale


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.InstanceNorm2d(c, affine=True), nn.GELU())

    def forward(self, x):
        return self.body(x) + x


class Operator(nn.Module):
    def __init__(self, base=8, noise=0.02):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, base, 3, padding=1, bias=False), nn.InstanceNorm2d(base, affine=True), nn.GELU())
        self.second = Residual(base)
        self.noise = Noise(noise) if noise else nn.Identity()
        self.out = nn.Conv2d(base, 3, 1)

    def forward(self, x):
        return self.out(self.noise(self.second(self.first(x))))


def operator(seed=0, **kw):
    torch.manual_seed(seed)
    return Operator(**kw).eval()


def rollout(op, x, steps, alpha=0.5, rec=None):
    with torch.no_grad():
        for _ in range(steps):
            x = alpha * x + (1 - alpha) * op(x)
    if rec is not None:
        rec.finish(x)
    return x
