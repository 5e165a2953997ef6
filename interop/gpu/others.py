"""Records what kernels that are not PyTorch's return on this machine's GPU: JAX's, and CUDA C that is written here, right
and wrong, compiled with and without --use_fast_math. As kernels.py, whose index and files these have.

    python others.py --out DIR [--no-judge]

Needs jax with CUDA, and cupy. What is not installed is told.
"""

import argparse
import concurrent.futures
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path[:0] = [str(Path(__file__).resolve().parent)]

import numpy as np
import torch
import torch.nn.functional as F

import kernels
from kernels import n

CUDA = r"""
#define E 2.718281828459045f
extern "C" {
__global__ void matmul(const float* a, const float* b, float* y, int m, int k, int n) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    __shared__ float s[16][16], t[16][16];
    float sum = 0;
    for (int p = 0; p < k; p += 16) {
        s[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.x < k ? a[i * k + p + threadIdx.x] : 0;
        t[threadIdx.y][threadIdx.x] = j < n && p + threadIdx.y < k ? b[(p + threadIdx.y) * n + j] : 0;
        __syncthreads();
        for (int q = 0; q < 16; q++) sum += s[threadIdx.y][q] * t[q][threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n) y[i * n + j] = sum;
}
__global__ void matmul_tail(const float* a, const float* b, float* y, int m, int k, int n) { // the last part of K is not added
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int p = 0; p + 16 <= k; p += 16) for (int q = 0; q < 16; q++) if (i < m && j < n) sum += a[i * k + p + q] * b[(p + q) * n + j];
    if (i < m && j < n) y[i * n + j] = sum;
}
__global__ void matmul_race(const float* a, const float* b, float* y, int m, int k, int n) { // no barrier before the tile is overwritten
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    __shared__ float s[16][16], t[16][16];
    float sum = 0;
    for (int p = 0; p < k; p += 16) {
        s[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.x < k ? a[i * k + p + threadIdx.x] : 0;
        t[threadIdx.y][threadIdx.x] = j < n && p + threadIdx.y < k ? b[(p + threadIdx.y) * n + j] : 0;
        for (int q = 0; q < 16; q++) sum += s[threadIdx.y][q] * t[q][threadIdx.x];
    }
    if (i < m && j < n) y[i * n + j] = sum;
}
__device__ float row_sum(float v) {
    __shared__ float s[32];
    for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;
    if (threadIdx.x < 32) for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) s[0] = v;
    __syncthreads();
    v = s[0];
    __syncthreads();
    return v;
}
__device__ float row_max(float v) {
    __shared__ float s[256];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int i = 0; i < blockDim.x; i++) v = fmaxf(v, s[i]);
    __syncthreads();
    return v;
}
__global__ void softmax(const float* x, float* y, int n) { // 256 threads a row
    float m = __int_as_float(0xff800000), s = 0; // NVRTC has no INFINITY
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, x[blockIdx.x * n + i]);
    m = row_max(m);
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(x[blockIdx.x * n + i] - m);
    s = row_sum(s);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(x[blockIdx.x * n + i] - m) / s;
}
__global__ void layer_norm(const float* x, const float* w, const float* b, float* y, int n) {
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
    float mean = row_sum(s) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) q += (x[blockIdx.x * n + i] - mean) * (x[blockIdx.x * n + i] - mean);
    float r = rsqrtf(row_sum(q) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * r * w[i] + b[i];
}
__global__ void layer_norm_one_pass(const float* x, const float* w, const float* b, float* y, int n) {
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) { float v = x[blockIdx.x * n + i]; s += v; q += v * v; }
    float mean = row_sum(s) / n, r = rsqrtf(row_sum(q) / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * r * w[i] + b[i];
}
#define MAP(name, value) __global__ void name(const float* p, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float x = p[i]; y[i] = value; } }
MAP(gelu, .5f * x * (1 + erff(x * .70710678f)))
MAP(gelu_tanh, .5f * x * (1 + tanhf(.79788456f * (x + .044715f * x * x * x))))
MAP(silu, x / (1 + expf(-x)))
MAP(silu_fast, __fdividef(x, 1 + __expf(-x)))
MAP(expo, expf(x))
MAP(expo_fast, __expf(x))
MAP(sine, sinf(x))
MAP(sine_fast, __sinf(x))
MAP(loga, logf(x))
MAP(loga_fast, __logf(x))
MAP(root, rsqrtf(x))
MAP(quick_gelu, x / (1 + expf(-1.702f * x)))
__device__ float tanh_approx(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
MAP(tanh_hardware, tanh_approx(x))
MAP(tanh_full, tanhf(x))
}
"""


def launch(module, name):
    """A kernel of CUDA as a function of numpy arrays."""
    import cupy

    f = module.get_function(name)

    def run(*inputs):
        a = [cupy.asarray(x) for x in inputs]
        if name.startswith("matmul"):
            (m, k), cols = a[0].shape, a[1].shape[1]
            y = cupy.empty((m, cols), np.float32)
            f((-(-cols // 16), -(-m // 16)), (16, 16), (*a, y, np.int32(m), np.int32(k), np.int32(cols)))
        elif name.startswith(("softmax", "layer_norm")):
            y = cupy.empty_like(a[0])
            f((a[0].shape[0],), (256,), (*a, y, np.int32(a[0].shape[1])))
        else:
            y = cupy.empty_like(a[0])
            f((-(-y.size // 128),), (128,), (*a, y, np.int32(y.size)))
        return cupy.asnumpy(y)

    return run


def cuda():
    """name: what it computes, as a torch function, its inputs, and for plain and fast mathematics whether it is right."""
    a, b, x, w, s = n(70, 90), n(90, 45), n(40, 300, scale=2), n(300, shift=1), n(300)
    far = n(40, 300, shift=300)
    u = kernels.u(40, 200)
    return {
        "matmul": (torch.matmul, (a, b), True, True), "matmul_tail": (torch.matmul, (a, b), False, False), "matmul_race": (torch.matmul, (a, b), False, False),
        "softmax": (lambda x: F.softmax(x, -1), (x,), True, None), "layer_norm": (kernels.layer, (x, w, s), True, True), "layer_norm_one_pass": (kernels.layer, (far, w, s), False, False),
        "gelu": (F.gelu, (x,), True, True), "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (x,), True, None), "silu": (F.silu, (x,), True, None), "silu_fast": (F.silu, (x,), None, None),
        "expo": (torch.exp, (x,), True, None), "expo_fast": (torch.exp, (x,), None, None), "sine": (torch.sin, (x,), True, None), "sine_fast": (torch.sin, (x,), False, None),
        "loga": (torch.log, (u,), True, None), "loga_fast": (torch.log, (u,), None, None), "root": (torch.rsqrt, (u,), True, True), "quick_gelu": (F.gelu, (x,), False, False),
        "tanh_hardware": (torch.tanh, (x,), False, False), "tanh_full": (torch.tanh, (x,), True, None),
    }


def jaxs():
    """name: JAX's function, PyTorch's, inputs, precisions and whether it is right."""
    import jax
    import jax.numpy as jnp

    def normed(x, w, b):
        m = x.mean(-1, keepdims=True)
        return (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

    conv = lambda precision: lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"), precision=precision)
    a, b, x, w, s, i, k = n(48, 96), n(96, 40), n(40, 200, scale=2), n(200, shift=1), n(200), n(2, 16, 14, 14), n(12, 16, 3, 3, scale=.1)
    both = ("float32", *half)
    torch_conv = lambda x, w: F.conv2d(x, w, padding=1)
    return {
        "matmul": (jnp.matmul, torch.matmul, (a, b), half), "matmul_default": (jnp.matmul, torch.matmul, (a, b), ("tf32",)), "matmul_highest": (lambda a, b: jnp.matmul(a, b, precision="highest"), torch.matmul, (a, b), ("float32",)),
        "conv": (conv(None), torch_conv, (i, k), ("tf32", *half)), "conv_highest": (conv("highest"), torch_conv, (i, k), ("float32",)),
        "softmax": (lambda x: jax.nn.softmax(x, -1), lambda x: F.softmax(x, -1), (x,), both), "layer_norm": (normed, kernels.layer, (x, w, s), both), "gelu": (lambda x: jax.nn.gelu(x, approximate=False), F.gelu, (x,), both),
        "gelu_tanh": (jax.nn.gelu, lambda x: F.gelu(x, approximate="tanh"), (x,), both), "silu": (jax.nn.silu, F.silu, (x,), both), "logsumexp": (lambda x: jax.nn.logsumexp(x, -1), lambda x: torch.logsumexp(x, -1), (x,), both),
        "sum": (lambda x: x.sum(-1), lambda x: x.sum(-1), (x,), both), "mean": (lambda x: x.mean(-1), lambda x: x.mean(-1), (x,), both), "cumsum": (lambda x: jnp.cumsum(x, -1), lambda x: x.cumsum(-1), (x,), both),
        "tanh": (jnp.tanh, torch.tanh, (x,), both), "exp": (jnp.exp, torch.exp, (x,), both), "sin": (jnp.sin, torch.sin, (x,), both), "log": (lambda x: jnp.log(jnp.abs(x)), lambda x: torch.log(x.abs()), (x,), both),
    }


LOOSE = ("softmax", "layer_norm", "gelu", "gelu_tanh", "silu", "cumsum")  # in half types these are several operations, each rounded, in JAX
half = ("float16", "bfloat16")


def as_jax(x):
    import jax.numpy as jnp

    return jnp.asarray(x.float().numpy()).astype({torch.float32: jnp.float32, torch.float16: jnp.float16, torch.bfloat16: jnp.bfloat16}[x.dtype])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--no-judge", action="store_true")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    entries, sources = [], {}

    def keep(name, f, inputs, y, **more):
        graph, why = kernels.traced(f, inputs)
        entries.append(kernels.write(out, name, graph, y, **more, **({"error": why} if why else {})))

    g = torch.Generator().manual_seed(3)
    try:
        import cupy

        sources["cupy"] = cupy.__version__
        for options in ((), ("--use_fast_math",)):
            module = cupy.RawModule(code=CUDA, options=options)
            for name, (f, makers, *right) in cuda().items():
                inputs = [m(g) for m in makers]
                keep(f"cuda_{name}{'_fast_math' * bool(options)}", f, inputs, launch(module, name)(*[x.numpy() for x in inputs]), precision="float32", must=right[bool(options)])
    except Exception as e:
        entries.append({"name": "cuda", "error": f"{type(e).__name__}: {e}"[:500]})
    try:
        import jax

        sources["jax"] = jax.__version__
        for name, (f, torchs, makers, precisions) in jaxs().items():
            for precision in precisions:
                inputs = [m(g).to(kernels.FORMATS[precision]) for m in makers]
                keep(f"jax_{name}_{precision}", torchs, inputs, np.asarray(jax.jit(f)(*map(as_jax, inputs))), precision=precision, must=None if name in LOOSE and precision in half else True)
    except Exception as e:
        entries.append({"name": "jax", "error": f"{type(e).__name__}: {e}"[:500]})
    if not a.no_judge:
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            entries[:] = pool.map(lambda e: e if "error" in e else kernels.judged(out, e), entries)
    json.dump({"of": sources, "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU", "kernels": entries}, open(out / "others.json", "w"), indent=1)
    for e in entries:
        if "error" in e or not e.get("as it must be", True) or e.get("must") is None:
            print({k: v for k, v in e.items() if v is not None})
    bad = sum(not e.get("as it must be", True) for e in entries)
    print(f"{len(entries)} kernels, {bad} not as they must be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
