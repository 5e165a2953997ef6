"""The same functions in JAX, by the names of functions.py. JAX adds a scalar in the tensor's own type."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

nn, lax = jax.nn, jax.lax


def times(x, y):
    return jnp.matmul(x, y.T)


def layer_norm(x):
    return nn.standardize(x, axis=-1, epsilon=1e-5)


FUNCTIONS = {
    **{n: getattr(jnp, n) for n in "abs ceil cos cosh deg2rad rad2deg exp exp2 expm1 floor log log10 log1p log2 reciprocal round sign "
       "signbit sin sinc sinh sqrt square tan tanh trunc isnan isinf isfinite isposinf nan_to_num add subtract maximum minimum fmax fmin hypot "
       "copysign remainder fmod floor_divide logaddexp logaddexp2 ldexp nextafter heaviside outer where".split() if n != "where"},
    **{n: getattr(jsp, n) for n in "erf erfc erfinv logit digamma i0 i0e i1 i1e ndtr log_ndtr ndtri entr xlogy xlog1py zeta".split()},
    **{n: getattr(nn, n) for n in "relu relu6 elu selu celu silu softplus leaky_relu sigmoid".split()},
    "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh, "atan": jnp.arctan, "atanh": jnp.arctanh,
    "lgamma": jsp.gammaln, "rsqrt": lax.rsqrt, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "atan2": jnp.arctan2,
    "zeta": lambda x, y: jsp.zeta(jnp.abs(x) + 1.1, jnp.abs(y) + 0.5),
    "gammainc": lambda x, y: jsp.gammainc(jnp.abs(x), jnp.abs(y)),
    "gammaincc": lambda x, y: jsp.gammaincc(jnp.abs(x), jnp.abs(y)),
    "polygamma": lambda x: jsp.polygamma(1, x),
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: nn.gelu(x, approximate=True),
    "gelu_quick": lambda x: x * nn.sigmoid(1.702 * x),
    "mish": nn.mish, "softsign": nn.soft_sign, "logsigmoid": nn.log_sigmoid, "hardswish": nn.hard_swish, "hardsigmoid": nn.hard_sigmoid,
    "hardtanh": nn.hard_tanh, "tanhshrink": lambda x: x - jnp.tanh(x), "elu_alpha": lambda x: nn.elu(x, 0.7), "celu_alpha": lambda x: nn.celu(x, 0.7),
    "squared_relu": lambda x: nn.relu(x) ** 2,
    "pow3": lambda x: x**3, "pow-2": lambda x: x**-2.0, "pow.5": lambda x: jnp.abs(x) ** 0.5, "pow1.7": lambda x: jnp.abs(x) ** 1.7,
    "pow1/3": lambda x: jnp.abs(x) ** (1 / 3), "2pow": lambda x: 2.0**x, "div7": lambda x: x / 7, "7div": lambda x: 7 / x, "mul.1": lambda x: x * 0.1,
    "pow": lambda x, y: jnp.abs(x) ** y, "clamp": lambda x: jnp.clip(x, -0.5, 0.7), "div_trunc": lambda x, y: jnp.trunc(x / y),
    "div_floor": jnp.floor_divide,
    "cumsum": lambda x: jnp.cumsum(x, -1), "cumsum0": lambda x: jnp.cumsum(x, 0), "cumprod": lambda x: jnp.cumprod(x * 0.1 + 1, -1),
    "cummax": lambda x: lax.cummax(x, axis=1), "cummin": lambda x: lax.cummin(x, axis=0), "logcumsumexp": lambda x: lax.cumlogsumexp(x, axis=1),
    "softmax": lambda x: nn.softmax(x, -1), "softmax0": lambda x: nn.softmax(x, 0), "softmin": lambda x: nn.softmax(-x, -1),
    "softmax_temperature": lambda x: nn.softmax(x / 0.7, -1), "log_softmax": lambda x: nn.log_softmax(x, -1), "log_softmax0": lambda x: nn.log_softmax(x, 0),
    "logsumexp": lambda x: jsp.logsumexp(x, -1), "logsumexp_all": jsp.logsumexp,
    "sum": lambda x: x.sum(-1), "sum0": lambda x: x.sum(0), "sum_all": lambda x: x.sum(), "mean": lambda x: x.mean(-1), "mean0": lambda x: x.mean(0),
    "nansum": lambda x: jnp.nansum(x, -1), "nanmean": lambda x: jnp.nanmean(x, -1),
    "var": lambda x: x.var(-1, ddof=1), "var0": lambda x: x.var(0), "std": lambda x: x.std(-1, ddof=1), "std0": lambda x: x.std(0),
    "prod": lambda x: (x * 0.1 + 1).prod(-1), "norm": lambda x: jnp.linalg.norm(x, axis=-1), "norm_all": jnp.linalg.norm,
    "norm1": lambda x: jnp.linalg.norm(x, 1, axis=-1), "norm_inf": lambda x: jnp.linalg.norm(x, jnp.inf, axis=-1), "norm3": lambda x: jnp.linalg.norm(x, 3, axis=-1),
    "amax": lambda x: x.max(-1), "amin0": lambda x: x.min(0), "argmax": lambda x: x.argmax(-1).astype(np.int32), "argmin": lambda x: x.argmin(0),
    "sort": lambda x: jnp.sort(x, -1), "argsort": lambda x: jnp.argsort(x, -1), "topk": lambda x: lax.top_k(x, min(3, x.shape[-1]))[0],
    "count": lambda x: jnp.count_nonzero(x, -1), "any": lambda x: x.any(-1), "all": lambda x: x.all(0),
    "layer_norm": layer_norm, "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + jnp.finfo(x.dtype).eps),
    "rms_by_hand": lambda x: x * lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-6).astype(x.dtype),
    "standardize": lambda x: (x - x.mean(0)) / x.std(0, ddof=1),
    "normalize": lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12),
    "glu": lambda x: nn.glu(x[:, : x.shape[1] // 2 * 2], -1), "diff": lambda x: jnp.diff(x, axis=-1), "flip": lambda x: jnp.flip(x, -1),
    "roll": lambda x: jnp.roll(x, 3, -1), "tril": jnp.tril, "trace": jnp.trace, "cov": lambda x: jnp.cov(x[:8]), "corrcoef": lambda x: jnp.corrcoef(x[:8]),
    "gradient": lambda x: jnp.gradient(x, axis=-1), "trapezoid": lambda x: jnp.trapezoid(x, axis=-1), "vander": lambda x: jnp.vander(x[0], 4),
    "attention": lambda x: nn.dot_product_attention(x[None, :, None], x[::-1][None, :, None], jnp.roll(x, 1, 0)[None, :, None])[:, :, 0],
    "attention_causal": lambda x: nn.dot_product_attention(x[None, :, None], x[::-1][None, :, None], jnp.roll(x, 1, 0)[None, :, None], is_causal=True)[:, :, 0],
    "softmax_by_hand": lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
    "add.3": lambda x, y: x + 0.3 * y, "addcmul": lambda x, y: x + 0.3 * (x * y), "addcdiv": lambda x, y: x + 0.3 * (x / y), "lerp": lambda x, y: x + 0.3 * (y - x),
    "where": lambda x, y: jnp.where(x > y, x, y), "swiglu": lambda x, y: nn.silu(x) * y, "geglu": lambda x, y: nn.gelu(x, approximate=False) * y,
    "add_relu": lambda x, y: nn.relu(x + y), "add_layer_norm": lambda x, y: layer_norm(x + y) * y[0] + y[-1],
    "modulated": lambda x, y: layer_norm(x) * (1 + y) + y[::-1], "matmul": times, "gram": lambda x, y: x.T @ y, "mv": lambda x, y: x @ y[0],
    "linear_relu": lambda x, y: nn.relu(times(x, y) + y[:, 0]), "linear_gelu": lambda x, y: nn.gelu(times(x, y) + y[:, 0], approximate=False),
    "addmm": lambda x, y: 0.3 * x[:, :1] + 0.7 * times(x, y), "row_dots": lambda x, y: (x * y).sum(-1), "einsum": lambda x, y: jnp.einsum("ij,kj->ik", x, y),
    "masked": lambda x, y: jnp.where(y > 0, -1.0, x).astype(x.dtype), "masked_softmax": lambda x, y: nn.softmax(jnp.where(y > 0.5, -jnp.inf, x), -1),
    "kron": lambda x, y: jnp.kron(x[:3, :5], y[:2, :3]), "tensordot": jnp.tensordot, "cross": lambda x, y: jnp.cross(x[:, :3], y[:, :3]),
    "mse": lambda x, y: ((x - y) ** 2).mean(), "l1": lambda x, y: jnp.abs(x - y).mean(), "mse_sum": lambda x, y: ((x - y) ** 2).sum(),
    "fma": lambda x, y, z: x * y + z, "addcmul3": lambda x, y, z: x + 0.5 * (y * z), "lerp3": lambda x, y, z: x + z * (y - x),
    "attention3": lambda x, y, z: nn.dot_product_attention(x[None, :, None], y[None, :, None], z[None, :, None])[:, :, 0],
    "attention_by_hand": lambda x, y, z: nn.softmax(x @ y.T / x.shape[-1] ** 0.5, -1) @ z,
    "layer_norm3": lambda x, y, z: layer_norm(x) * y[0] + z[0], "silu_gate": lambda x, y, z: times(nn.silu(x) * y, z),
    "adam": lambda x, y, z: x - 1e-3 * (0.9 * y + 0.1 * z) / (jnp.sqrt(0.999 * y * y + 0.001 * z * z) + 1e-8),
}
