"""Backward kernels in Triton, under its interpreter on a CPU, judged by refrun.

    python interop/zoo/triton_gradients.py [--seed 1] [--rounds 4]

Softmax, layer norm (dx by rows, dw and db from partial sums), RMS norm, swiglu and an embedding with atomic additions, in
float32 and float16, as the tutorials and Liger have them; and the same with a fault. The interpreter is wrong in bfloat16.
"""

import argparse
import os

os.environ["TRITON_INTERPRET"] = "1"
import refrun
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def softmax_rows(dx, y, dy, n, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    p = tl.load(y + row * n + at, at < n, 0.0).to(tl.float32)
    d = tl.load(dy + row * n + at, at < n, 0.0).to(tl.float32)
    s = tl.sum(p * d, 0)
    if FAULT == 1:
        s = s * 0
    tl.store(dx + row * n + at, p * (d - s), at < n)


@triton.jit
def layer_norm_rows(dx, dws, dbs, x, w, dy, mean, rstd, n, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    v, d = tl.load(x + row * n + at, mask, 0.0).to(tl.float32), tl.load(dy + row * n + at, mask, 0.0).to(tl.float32)
    m, r, g = tl.load(mean + row), tl.load(rstd + row), tl.load(w + at, mask, 0.0).to(tl.float32)
    h = tl.where(mask, (v - m) * r, 0.0)
    wd = tl.where(mask, g * d, 0.0)
    c1, c2 = tl.sum(h * wd, 0) / n, tl.sum(wd, 0) / n
    if FAULT == 1:
        c2 = c2 * 0
    tl.store(dx + row * n + at, (wd - (h * c1 + c2)) * r, mask)
    tl.store(dws + row * n + at, d * h, mask)
    tl.store(dbs + row * n + at, d, mask)


@triton.jit
def swiglu_rows(da, db, a, b, dy, n, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x, up = tl.load(a + row * n + at, at < n, 0.0).to(tl.float32), tl.load(b + row * n + at, at < n, 0.0).to(tl.float32)
    d = tl.load(dy + row * n + at, at < n, 0.0).to(tl.float32)
    s = tl.sigmoid(x)
    tl.store(db + row * n + at, d * (x * s), at < n)
    if FAULT == 1:
        up = up * 0 + 1
    tl.store(da + row * n + at, d * (x * s * (1 - s) + s) * up, at < n)


@triton.jit
def embedding_rows(dw, index, dy, n, BLOCK: tl.constexpr):
    i, at = tl.program_id(0), tl.arange(0, BLOCK)
    row = tl.load(index + i)
    tl.atomic_add(dw + row * n + at, tl.load(dy + i * n + at, at < n, 0.0).to(tl.float32), at < n)


def softmax(r, dt, fault):
    x, d = r(9, 50).to(dt), r(9, 50).to(dt)
    y, dx = torch.softmax(x, -1), torch.empty_like(x)
    softmax_rows[(9,)](dx, y, d, 50, fault, 64)
    return refrun.check_grad("softmax", [x], d, [dx], saved={"output": y}, dim=-1)


def layer_norm(r, dt, fault):
    x, w, d = r(10, 40).to(dt), r(40).to(dt), r(10, 40).to(dt)
    v = x.float()
    mean, rstd = v.mean(-1), 1 / torch.sqrt(v.var(-1, correction=0) + 1e-5)
    dx, dws, dbs = torch.empty_like(x), torch.empty(10, 40), torch.empty(10, 40)
    layer_norm_rows[(10,)](dx, dws, dbs, x, w, d, mean, rstd, 40, fault, 64)
    grads = [dx, dws.sum(0).to(dt), dbs.sum(0).to(dt)]
    return refrun.check_grad("layer_norm", [x, w, torch.zeros(40, dtype=dt)], d, grads, saved={"mean": mean, "rstd": rstd}, normalized_shape=[40], eps=1e-5)


def swiglu(r, dt, fault):
    a, b, d = r(9, 50).to(dt), r(9, 50).to(dt), r(9, 50).to(dt)
    da, db = torch.empty_like(a), torch.empty_like(b)
    swiglu_rows[(9,)](da, db, a, b, d, 50, fault, 64)
    return refrun.check_grad("swiglu", [a, b], d, [da, db])


def embedding(r, dt, fault):
    i, d = torch.multinomial(1 / torch.arange(1, 21.0), 80, True), r(80, 16).to(dt)
    dw = torch.zeros(20, 16)
    embedding_rows[(80 - 5 * fault,)](dw, i, d, 16, 16)
    return refrun.check_grad("embedding", [torch.zeros(20, 16, dtype=dt), i], d, [dw.to(dt), None])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rounds", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    verdicts = {0: [], 1: []}
    for _ in range(a.rounds):
        for kernel in (softmax, layer_norm, swiglu, embedding):
            for dt in (torch.float32, torch.float16):
                for fault in (0, 1):
                    r = kernel(torch.randn, dt, fault)
                    verdicts[fault].append(r.verdict)
                    if (r.verdict == "FAIL") != bool(fault):
                        print(kernel.__name__, dt, "wrong" if fault else "right", r.text, sep="\n")
    print(f"right: {verdicts[0].count('FAIL')} of {len(verdicts[0])} failed; wrong: {verdicts[1].count('PASS')} of {len(verdicts[1])} passed")


if __name__ == "__main__":
    main()
