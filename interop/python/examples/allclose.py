"""What torch.allclose and refrun say of right and wrong devices: the table of the README.

    python allclose.py       # needs torch and refrun
"""

import copy

import torch
from torch import nn

import refrun


class Operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.GELU()
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        return self.out(self.act(self.norm(self.conv(x))))


class Unbiased(nn.Module):
    """An instance norm that divides by n-1."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        y = (x - x.mean((2, 3), keepdim=True)) / torch.sqrt(x.var((2, 3), keepdim=True) + self.norm.eps)
        return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]


torch.manual_seed(0)
operator, x = Operator().eval(), torch.randn(4, 3, 64, 64)


def device(fault):
    m = copy.deepcopy(operator)
    if fault == "tanh GELU for erf GELU":
        m.act = nn.GELU(approximate="tanh")
    elif fault == "variance divided by n-1":
        m.norm = Unbiased(m.norm)
    elif fault == "eps 1e-3 for 1e-5":
        m.norm.eps = 1e-3
    elif fault == "weights rounded to float16":
        for p in m.parameters():
            p.copy_(p.half().float())
    return m(x)


def said(y, precision="float32", **options):
    try:
        return refrun.assert_same(operator, x, y, precision=precision, **options)
    except AssertionError as e:
        line = next(line for line in str(e).splitlines() if line.startswith("VERDICT"))
        return line.removeprefix("VERDICT").split("first at")[0].strip() + (": " + line.rpartition(": ")[2] if ": " in line else "")


with torch.no_grad():
    right = operator(x)
    rows = [(f, device(f), {}) for f in ("none", "eps 1e-3 for 1e-5", "tanh GELU for erf GELU", "variance divided by n-1", "weights rounded to float16")]
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype):
            rows.append((f"none, autocast to {str(dtype)[6:]}", operator(x), {"precision": str(dtype)[6:], "autocast": "cpu"}))
    print(f"{'fault':30} {'max diff':9} {'allclose 1e-3':14} {'allclose':9} refrun")
    for name, y, options in rows:
        y32 = y.float()
        v = said(y, **options)
        v = v.verdict if isinstance(v, refrun.Report) else v
        print(f"{name:30} {(y32 - right).abs().max():<9.1e} {str(torch.allclose(y32, right, rtol=1e-3, atol=1e-3)):14} {str(torch.allclose(y32, right)):9} {v}")
