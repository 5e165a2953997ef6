"""Modules that are no lists of layers, as operators of rollouts."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import refrun
from refrun import program


class Mixed(nn.Module):
    """Pooling, a spectrum of complex weights, a constant of the number of samples, casts by name."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.w, self.pool = nn.Parameter(torch.randn(8, 8, 4, 4, 2) / 4), nn.MaxPool2d(2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        n, c = h.shape[:2]
        t = F.interpolate(self.pool(h), scale_factor=2)
        f = torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(h.float())[:, :, :4, :4], torch.view_as_complex(self.w))
        f = torch.cat([f, torch.zeros(n, c, h.shape[2] - 4, 4, dtype=f.dtype)], 2)
        return self.out(torch.cat([t, torch.fft.irfft2(f, s=h.shape[-2:]).to(h.dtype)], 1))


class Other(Mixed):
    """Average pooling in place of the largest."""

    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(2)


class Attention(nn.Module):
    """Each pixel attends to those before it, where its numbers lie in memory channel by channel."""

    def __init__(self, heads):
        super().__init__()
        self.heads, self.fault = heads, None
        self.a, self.qkv, self.place = nn.Conv2d(3, 16, 2, stride=2), nn.Linear(16, 48), nn.Parameter(torch.randn(36, 16) / 4)
        self.out, self.up = nn.Linear(16, 16), nn.ConvTranspose2d(16, 3, 2, stride=2)

    def forward(self, x):
        h = self.a(x)
        n = h.shape[0]
        q, k, v = self.qkv(h.flatten(2).transpose(1, 2)).reshape(n, 36, 3, self.heads, 16 // self.heads).permute(2, 0, 3, 1, 4)
        seen = torch.ones(36, 36, dtype=torch.bool).tril(1 if self.fault == "mask" else 0)
        scale = 1 if self.fault == "scale" else (self.heads / 16) ** 0.5
        p = torch.softmax((q @ k.transpose(2, 3) * scale).masked_fill(~seen, -torch.inf), -1)
        t = self.out((p.to(v.dtype) @ v).transpose(1, 2).reshape(n, 36, 16) + self.place)
        return self.up(t.transpose(1, 2).reshape(n, 16, 6, 6))


def mixed(kind=Mixed):
    torch.manual_seed(1)
    return kind().eval()


class Program(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

    def record(self, precision, wrong):
        m, other = mixed(), mixed(Other)
        with torch.no_grad(), refrun.record(self.dir / "case", m, precision=precision, autocast=None if precision == "float32" else "cpu") as rec:
            x = torch.randn(2, 3, 16, 16)
            for step in range(3):
                self.assertEqual(len(m._forward_pre_hooks), 1)
                m.pool = other.pool if step == 2 and wrong else m.pool
                with torch.autocast("cpu", getattr(torch, precision), enabled=precision != "float32"):
                    x = 0.5 * x + 0.5 * m(x)
            rec.finish(x)
        return refrun.check(self.dir / "case")

    def test_recorded(self):
        """A right device passes under autocast, and what differs at a step is seen there."""
        r = self.record("bfloat16", False)
        self.assertTrue(r.ok, str(r))
        operator = json.loads((self.dir / "case" / "case.json").read_text())["operator"]
        self.assertEqual((operator["grid_size"], operator["input_channels"]), (16, 3))
        r = self.record("float32", True)
        self.assertEqual((r.verdict[:4], r.first_step), ("FAIL", 3), str(r))

    def test_one_call(self):
        m, x = mixed(), torch.randn(6, 3, 16, 16)
        with torch.no_grad():
            y = m(x)
        self.assertTrue(refrun.assert_same(m, x, y).ok)

    def test_attention(self):
        """Attention of strided tokens, with -Inf as a mask, of few heads, under autocast and in a half module: right
        devices pass, and a mask by one and a scale that is missing fail."""
        for heads, dtype, pure, wrong in ((1, torch.bfloat16, False, "mask"), (2, torch.float16, True, "scale")):
            for fault in (None, wrong):
                torch.manual_seed(heads)
                m = Attention(heads).eval().to(dtype if pure else torch.float32)
                with self.subTest(heads=heads, dtype=dtype, pure=pure, fault=fault):
                    with torch.no_grad(), refrun.record(self.dir / "case", m, precision=str(dtype)[6:], autocast=None if pure else "cpu") as rec:
                        x = torch.randn(4, 3, 12, 12, dtype=dtype if pure else torch.float32)
                        for step in range(3):
                            m.fault = fault if step == 1 else None
                            with torch.autocast("cpu", dtype, enabled=not pure):
                                x = 0.5 * x + 0.5 * m(x)
                        rec.finish(x)
                    r = refrun.check(self.dir / "case")
                    self.assertEqual((r.ok, r.first_step), (fault is None, 2 if fault else -1), str(r))

    def test_refused(self):
        class Two(nn.Module):
            def forward(self, x, y=None):
                return x, x

        class Batch(nn.Module):
            def forward(self, x):
                return x - x.mean(0, keepdim=True) * x.shape[0]

        for module, shape, text in ((mixed(), (1, 3, 8, 12), "want square images"), (Two(), (1, 3, 8, 8), "1 inputs and 2 outputs"),
                                    (Batch(), (1, 3, 8, 8), "depends on the number of realizations")):
            with self.assertRaisesRegex(refrun.CaseError, text):
                program.describe(module, torch.zeros(shape))


if __name__ == "__main__":
    unittest.main()
