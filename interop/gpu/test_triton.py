"""The Triton kernels of triton_block.py under Triton's interpreter, each judged as one kernel. Needs torch, triton
and the refrun binary, and no GPU.

    cd interop/gpu && python -m unittest test_triton
"""

import os
import sys
import unittest
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "src"))

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import refrun
import triton_block

EPS = 1e-5
FORMATS = (torch.float32, torch.float16)  # the interpreter's bfloat16 is broken: triton issues 8322, 11584


@triton.jit
def _one_pass(x, y, N: tl.constexpr, eps, B: tl.constexpr):
    """A group norm without weights whose variance is mean(x^2) - mean(x)^2, as liger-kernel 0.8.5 computes it."""
    at = tl.program_id(0) * N
    total, squares = 0.0, 0.0
    for s in range(0, N, B):
        v = tl.load(x + at + s + tl.arange(0, B), mask=s + tl.arange(0, B) < N, other=0.0).to(tl.float32)
        total += tl.sum(v, 0)
        squares += tl.sum(v * v, 0)
    mean = total / N
    inv = 1.0 / tl.sqrt(squares / N - mean * mean + eps)
    for s in range(0, N, B):
        v = tl.load(x + at + s + tl.arange(0, B), mask=s + tl.arange(0, B) < N, other=0.0).to(tl.float32)
        tl.store(y + at + s + tl.arange(0, B), ((v - mean) * inv).to(y.dtype.element_ty), mask=s + tl.arange(0, B) < N)


def one_pass(x, groups):
    y = torch.empty_like(x)
    _one_pass[(x.shape[0] * groups,)](x, y, x[0].numel() // groups, EPS, B=64)
    return y


def norm_gelu(x, w, b):
    return F.gelu(F.instance_norm(x, weight=w, bias=b, eps=EPS))


class Kernels(unittest.TestCase):
    def setUp(self):
        g = torch.Generator().manual_seed(3)
        self.normal = lambda *shape: torch.randn(*shape, generator=g)

    def convolution(self, dtype, fault=""):
        x, w = self.normal(1, 7, 9, 11).to(dtype), 0.2 * self.normal(5, 7, 3, 3)
        return refrun.check_kernel("conv2d", [x, w.to(dtype)], triton_block.conv(x, w, fault), padding=[1, 1])

    def norm(self, dtype, fault=""):
        """Of channels whose variance is as small as eps is large, where eps shows, and of many pixels."""
        x, w, b = (0.01 * self.normal(2, 3, 13, 17)).to(dtype), 1 + 0.3 * self.normal(3), self.normal(3)
        return refrun.check_kernel(norm_gelu, [x, w, b], triton_block.norm_gelu(x, w, b, EPS, fault))

    def test_right(self):
        for dtype in FORMATS:
            r = self.convolution(dtype)
            self.assertTrue(r.ok, r)
            r = self.norm(dtype)
            self.assertTrue(r.ok, r)
            if dtype == torch.float16:  # the kernel rounds its norm
                self.assertEqual(len(r.contract["round"]), 1, r)

    def test_faults(self):
        seen = set()
        for dtype in FORMATS:
            for fault in triton_block.FAULTS:
                if fault == "tf32" or fault == "half-accumulator" and dtype == torch.float32:
                    continue  # the interpreter has no TF32; the other is one of half operands
                kind = self.norm if fault in ("tanh-gelu", "unbiased-variance", "eps-outside") else self.convolution
                r = kind(dtype, fault)
                self.assertEqual(r.verdict, "FAIL", f"{fault}, {dtype}: {r}")
                seen.add(fault)
        self.assertEqual(seen, set(triton_block.FAULTS) - {"tf32"})

    def test_one_pass(self):
        """A one-pass variance is right near 0, and has its name far from it."""
        for shift, verdict in ((0.0, "PASS"), (300.0, "FAIL")):
            x = self.normal(2, 8, 9, 11) + shift
            r = refrun.check_kernel("group_norm", [x], one_pass(x, 4), num_groups=4, eps=EPS)
            self.assertEqual(r.verdict, verdict, r)
        self.assertEqual(r.fault, "the variance is mean(x^2) - mean(x)^2", r)


if __name__ == "__main__":
    unittest.main()
