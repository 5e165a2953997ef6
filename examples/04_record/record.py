"""The shortest way from a PyTorch rollout to a verdict: record the loop, then check it.

    python record.py         # needs torch and refrun
"""

import tempfile

import torch
from torch import nn

import refrun


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) * 0.02


torch.manual_seed(0)
operator = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.GELU(), Noise(), nn.Conv2d(16, 3, 1)).eval()
x = torch.randn(2, 3, 48, 48)

with tempfile.TemporaryDirectory() as folder:
    with refrun.record(folder, operator, policy="convex", alpha=0.5, layers=True) as rec, torch.no_grad():
        for _ in range(10):
            x = 0.5 * x + 0.5 * operator(x)
        rec.finish(x)
    print(refrun.check(folder))
