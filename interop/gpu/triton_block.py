"""A convolution, an instance norm and a GELU by hand-written Triton kernels,
with faults that can be switched on.

The kernels are plain on purpose: an implicit matrix product for the 3x3 (or
1x1) convolution with float32 accumulation, and one program a plane for
statistics, norm and GELU. They run on the CPU too, with TRITON_INTERPRET=1.
"""

import torch
import triton
import triton.language as tl

FAULTS = {
    "flipped-kernel": "taps in the reverse order: a true convolution",
    "replicated-border": "padding repeats the edge where the operator pads with zeros",
    "half-accumulator": "partial sums rounded to half after every tap of every block of channels",
    "tanh-gelu": "the tanh form of GELU for the erf form",
    "unbiased-variance": "variance with N-1",
    "eps-outside": "1/(sqrt(v)+eps) for 1/sqrt(v+eps)",
    "dropped-tail": "the last block of pixels is not written",
    "tf32": "TF32 operands in float32",
}


@triton.jit
def _conv(x, w, y, C: tl.constexpr, O, H, W, K: tl.constexpr, BC: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr,
          FLIP: tl.constexpr, EDGE: tl.constexpr, HALF_ACC: tl.constexpr, TAIL: tl.constexpr, PRECISION: tl.constexpr):
    n, block, ob = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    p = block * BP + tl.arange(0, BP)
    o = ob * BO + tl.arange(0, BO)
    h, v = p // W, p % W
    acc = tl.zeros((BO, BP), tl.float32)
    for c0 in range(0, C, BC):
        c = c0 + tl.arange(0, BC)
        for t in range(K * K):
            i, j = t // K - K // 2, t % K - K // 2
            hh, vv = h + i, v + j
            inside = (hh >= 0) & (hh < H) & (vv >= 0) & (vv < W)
            if EDGE:
                hh = tl.minimum(tl.maximum(hh, 0), H - 1)
                vv = tl.minimum(tl.maximum(vv, 0), W - 1)
                inside = hh >= 0
            at = K * K - 1 - t if FLIP else t
            a = tl.load(w + (o[:, None] * C + c[None, :]) * K * K + at, mask=(o[:, None] < O) & (c[None, :] < C), other=0.0)
            b = tl.load(x + (n * C + c[:, None]) * H * W + hh[None, :] * W + vv[None, :],
                        mask=(c[:, None] < C) & inside[None, :] & (p[None, :] < H * W), other=0.0)
            acc += tl.dot(a, b, input_precision=PRECISION)
            if HALF_ACC:
                acc = acc.to(tl.float16).to(tl.float32)
    keep = p < H * W
    if TAIL:
        keep = p < (H * W - 1) // BP * BP
    tl.store(y + (n * O + o[:, None]) * H * W + p[None, :], acc.to(y.dtype.element_ty), mask=(o[:, None] < O) & keep[None, :])


@triton.jit
def _norm_gelu(x, gamma, beta, y, C, N: tl.constexpr, eps, B: tl.constexpr, TANH: tl.constexpr, UNBIASED: tl.constexpr, OUTSIDE: tl.constexpr):
    plane = tl.program_id(0)
    c = plane % C
    base = plane * N
    lanes = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for s in range(0, N, B):
        total += tl.load(x + base + s + lanes, mask=s + lanes < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / N
    squares = tl.zeros((B,), tl.float32)
    for s in range(0, N, B):
        d = tl.load(x + base + s + lanes, mask=s + lanes < N, other=0.0).to(tl.float32) - mean
        squares += tl.where(s + lanes < N, d * d, 0.0)
    var = tl.sum(squares, 0) / (N - 1 if UNBIASED else N)
    inv = 1.0 / (tl.sqrt(var) + eps) if OUTSIDE else 1.0 / tl.sqrt(var + eps)
    g, b = tl.load(gamma + c).to(tl.float32), tl.load(beta + c).to(tl.float32)
    for s in range(0, N, B):
        v = tl.load(x + base + s + lanes, mask=s + lanes < N, other=0.0).to(tl.float32)
        v = ((v - mean) * inv * g + b).to(x.dtype.element_ty).to(tl.float32)
        if TANH:
            u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
            r = v / (1.0 + tl.exp(-2.0 * u))
        else:
            r = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
        tl.store(y + base + s + lanes, r.to(y.dtype.element_ty), mask=s + lanes < N)


def conv(x, w, fault=""):
    """conv2d of x [N,C,H,W] with w [O,C,K,K], "same" zero padding, no bias, in x's type."""
    n, c, h, wd = x.shape
    o, k = w.shape[0], w.shape[2]
    y = torch.zeros((n, o, h, wd), dtype=x.dtype, device=x.device)
    bp, bo, bc = 32, 16, 16
    _conv[(n, triton.cdiv(h * wd, bp), triton.cdiv(o, bo))](
        x.contiguous(), w.to(x.dtype).contiguous(), y, c, o, h, wd, K=k, BC=bc, BO=bo, BP=bp, FLIP=fault == "flipped-kernel", EDGE=fault == "replicated-border",
        HALF_ACC=fault == "half-accumulator", TAIL=fault == "dropped-tail", PRECISION="tf32" if fault == "tf32" else "ieee")
    return y


def norm_gelu(x, gamma, beta, eps, fault=""):
    """gelu(instance_norm(x)) in x's type, the norm rounded to it too."""
    n, c, h, w = x.shape
    y = torch.empty_like(x)
    _norm_gelu[(n * c,)](x.contiguous(), gamma, beta, y, c, h * w, eps, B=256, TANH=fault == "tanh-gelu", UNBIASED=fault == "unbiased-variance", OUTSIDE=fault == "eps-outside")
    return y


class TritonOperator(torch.nn.Module):
    """The operator of devices.py by these kernels; its noise and last layer stay PyTorch's."""

    def __init__(self, op, dtype=torch.float32, fault=""):
        super().__init__()
        self.op, self.dtype, self.fault = op, dtype, fault

    def block(self, x, seq, fault=""):
        y = conv(x.to(self.dtype), seq[0].weight, fault)
        return norm_gelu(y, seq[1].weight, seq[1].bias, seq[1].eps, fault)

    def forward(self, x):
        x = self.block(x, self.op.first, self.fault)
        m = self.op.middle
        x = self.block(self.block(x, m.a, self.fault), m.b) + conv(x, m.projection.weight)
        x = self.op.noise(x)
        w = self.op.out
        y = torch.nn.functional.conv2d(x, w.weight.to(self.dtype))
        return y + w.bias.to(self.dtype)[None, :, None, None]
