"""Activations, in float64 rounded once, and as real float32 kernels form them."""

import math

import numpy as np

from formats import f32


def _fit():
    """erfc(a) e^(a^2) as a Chebyshev series in z = (a-3.75)/(a+3.75), a >= 0."""
    n = 40
    z = np.cos(np.pi * (np.arange(n) + .5) / n)
    a = 3.75 * (1 + z) / (1 - z)
    # beyond 26 erfc underflows: its asymptotic series
    v = [math.erfc(t) * math.exp(t * t) if t < 25 else
         (1 - .5 / t ** 2 * (1 - 1.5 / t ** 2 * (1 - 2.5 / t ** 2 * (1 - 3.5 / t ** 2)))) / (t * math.sqrt(math.pi)) for t in a]
    return np.polynomial.chebyshev.chebfit(z, np.array(v) * (1 + a), n - 1)


_SERIES = _fit()


def erfc(x):
    """Relative error below 1e-13 for x >= 0 (checked against math.erfc by the tests)."""
    x = np.asarray(x, np.float64)
    a = np.minimum(np.abs(x), 1e3)
    v = np.polynomial.chebyshev.chebval((a - 3.75) / (a + 3.75), _SERIES) / (1 + a) * np.exp(-a * a)
    return np.where(x < 0, 2 - v, v)


def erf(x):
    x = np.asarray(x, np.float64)
    a, s = np.abs(x), np.zeros_like(x)
    for n in range(12, -1, -1):        # series near 0, where 1 - erfc cancels
        s = s * -(a * a) + 1 / (math.factorial(n) * (2 * n + 1))
    return np.copysign(np.where(a < .5, 2 / math.sqrt(math.pi) * a * s, 1 - erfc(a)), x)


def gelu(x):
    return .5 * x * erfc(-x / math.sqrt(2))


def gelu_tanh(x):
    return .5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + .044715 * x ** 3)))


def silu(x):
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


EXACT = {"gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "none": lambda x: x}


def exact(name, x):
    """The function in float64 rounded to float32."""
    return f32(EXACT[name](x.astype(np.float64)))


POLYNOMIAL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)  # Abramowitz and Stegun 7.1.26


def polynomial_erf(v, coefficients=POLYNOMIAL, p=.3275911):
    """erf as oneDNN's and PyTorch's vector kernels have it: error 1.5e-7."""
    one = np.float32(1)
    a = np.abs(v)
    t = one / (np.float32(p) * a + one)
    s = np.float32(coefficients[0])
    for c in coefficients[1:]:
        s = s * t + np.float32(c)
    e = f32(np.exp(-(v.astype(np.float64) ** 2)))
    return np.copysign(one - e * t * s, v)


def kernel(name, x):
    """The function by float32 operations, as a vectorised kernel forms it."""
    one, two = np.float32(1), np.float32(.5)
    if name == "gelu":
        e = polynomial_erf(x * np.float32(math.sqrt(.5)))
        h = x * two
        return e * h + h
    if name == "gelu_tanh":
        b = np.float32(math.sqrt(2 / math.pi))
        return two * x * (one + f32(np.tanh((b * (x + np.float32(.044715) * (x * x * x))).astype(np.float64))))
    if name == "silu":
        with np.errstate(over="ignore"):
            return x / (one + f32(np.exp(-x.astype(np.float64))))
    return exact(name, x)


def silu_fast(x):
    """SiLU by CUDA's intrinsics: __expf(v) is ex2.approx of v log2 e, and __fdividef multiplies by a reciprocal.

    Both are 2 ulp off, by a hash; a divisor above 2^126 gives 0.
    """
    wrong = lambda y, salt: np.where(np.isfinite(y) & (y > 1e-30), (y.view(np.int32) + (((y.view(np.uint32) + np.uint32(salt)) * np.uint32(2654435761)) >> np.uint32(16)).astype(np.int32) % 5 - 2).view(np.float32), y)
    with np.errstate(over="ignore", invalid="ignore"):
        t = -x * np.float32(math.log2(math.e))
        d = np.float32(1) + wrong(f32(np.exp2(t.astype(np.float64))), 1)
        return np.where(d > 2.0 ** 126, np.float32(-0.0), x * wrong(f32(1 / d.astype(np.float64)), 2))


def erff(name, x):
    """As CUDA's kernels: x (1 + erf) / 2 with a float32 erf."""
    if name == "gelu":
        return x * np.float32(.5) * (np.float32(1) + f32(erf((x * np.float32(math.sqrt(.5))).astype(np.float64))))
    return kernel(name, x)


def off(name, x, ulps):
    """The exact function, up to so many float32 ulps off, by a hash of x."""
    y = exact(name, x)
    h = (x.view(np.uint32) * np.uint32(2654435761)) >> np.uint32(16)
    k = (h % np.uint32(2 * ulps + 1)).astype(np.int32) - ulps
    ok = np.isfinite(y) & (np.abs(y) > 1e-30) & (name != "relu")
    return np.where(ok, (y.view(np.int32) + k).view(np.float32), y)
