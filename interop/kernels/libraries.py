"""What PyTorch, JAX and ONNX Runtime return on this CPU, of every operation that refrun judges, in every precision they have.

    python interop/kernels/libraries.py [--only softmax --only conv2d] [--library torch]

Each output is judged without a word about how it was made, and must pass. The table has the contract that
was found: which steps the library rounds, and in which form it computes. "-" is an operation that the library
does not have in that precision. What JAX computes as several operations, each of which stores half numbers, is
judged as that chain. Four operations keep sums of half numbers in their format: they must be refused, and pass
when they say so. So must those that compute float64 numbers in float32. Exits with 1 if a verdict is not what it must be. Needs torch; jax, onnx and onnxruntime
are used where they are installed.
"""

import argparse
import collections
import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import refrun
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
PRECISIONS = {"float64": torch.float64, "float32": torch.float32, **HALVES}
G = torch.Generator()


def normal(*shape, scale=1.0, shift=0.0):
    return torch.randn(*shape, generator=G) * scale + shift


def positive(*shape):
    return normal(*shape).abs() + 0.1


def inner(*shape):  # in -1 to 1
    return torch.rand(*shape, generator=G) * 1.8 - 0.9


def whole(n, *shape):
    return torch.randint(0, n, shape, generator=G)


def jx(name):
    """A function of JAX by its name, such as nn.softmax; None without JAX."""
    try:
        of = importlib.import_module("jax")
        for part in name.split("."):
            of = getattr(of, part) if hasattr(of, part) else importlib.import_module(of.__name__ + "." + part)
        return of
    except ImportError:
        return None


# name: (operation, inputs, attributes, torch's function, JAX's, ONNX's operator with its attributes). None: it has none.
CASES = {}


def case(op, inputs, attrs=None, torchs=None, jaxs=None, onnx=None, name=None):
    CASES[name or op] = (op, inputs, attrs or {}, torchs, jaxs, onnx)


def shaped(rows=37, cols=203, **k):
    return lambda: [normal(rows, cols, **k)]


def norm_inputs(*shape, of=None):
    n = of or shape[1]
    return lambda: [normal(*shape, shift=0.5), normal(n, scale=0.3, shift=1), normal(n)]


case("softmax", shaped(scale=3), {"dim": -1}, lambda x: F.softmax(x, -1), lambda x: jx("nn").softmax(x, -1), ("Softmax", {"axis": -1}))
case("softmax", shaped(45, 59, scale=3), {"dim": 0}, lambda x: F.softmax(x, 0), lambda x: jx("nn").softmax(x, 0), ("Softmax", {"axis": 0}), name="softmax of columns")
case("log_softmax", shaped(scale=3), {"dim": -1}, lambda x: F.log_softmax(x, -1), lambda x: jx("nn").log_softmax(x, -1), ("LogSoftmax", {"axis": -1}))
case("logsumexp", shaped(scale=3), {"dim": -1}, lambda x: torch.logsumexp(x, -1), lambda x: jx("nn").logsumexp(x, -1), ("ReduceLogSumExp", {"axes": [-1], "keepdims": 0}))
case("cross_entropy", lambda: [normal(37, 203, scale=3), whole(203, 37)], {}, lambda x, t: F.cross_entropy(x, t, reduction="none"), None, ("SoftmaxCrossEntropyLoss", {"reduction": "none"}))
case("cross_entropy", lambda: [normal(37, 203, scale=3), whole(203, 37)], {"label_smoothing": 0.1}, lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1), None, None, name="cross_entropy, smoothed")
case("layer_norm", norm_inputs(37, 203, of=203), {"normalized_shape": [203], "eps": 1e-5}, lambda x, w, b: F.layer_norm(x, [203], w, b), None, ("LayerNormalization", {"axis": -1}))
case("rms_norm", lambda: [normal(37, 203), normal(203, shift=1, scale=0.3)], {"normalized_shape": [203], "eps": 1e-5}, lambda x, w: F.rms_norm(x, [203], w, 1e-5), None, ("RMSNormalization", {"axis": -1}))
case("group_norm", norm_inputs(3, 8, 9, 11), {"num_groups": 4, "eps": 1e-5}, lambda x, w, b: F.group_norm(x, 4, w, b), None, ("GroupNormalization", {"num_groups": 4}))
case("instance_norm", norm_inputs(3, 8, 9, 11), {"eps": 1e-5}, lambda x, w, b: F.instance_norm(x, weight=w, bias=b), None, ("InstanceNormalization", {}))
case("batch_norm", lambda: [normal(3, 8, 9, 11), normal(8, shift=1, scale=0.3), normal(8), normal(8), positive(8)], {"eps": 1e-5},
     lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), None, ("BatchNormalization", {}))
case("batch_norm", norm_inputs(3, 8, 9, 11), {"eps": 1e-5, "training": True}, lambda x, w, b: F.batch_norm(x, None, None, w, b, True), None, None, name="batch_norm in training")


def attention(**k):
    return lambda q, *kv: jx("nn").dot_product_attention(*(t.transpose(0, 2, 1, 3) for t in (q, *kv)), **k).transpose(0, 2, 1, 3)


QKV = lambda: [normal(2, 2, 45, 16) for _ in range(3)]
SDPA = "scaled_dot_product_attention"
case(SDPA, QKV, {}, F.scaled_dot_product_attention, attention(), ("Attention", {}))
case(SDPA, QKV, {"is_causal": True}, lambda *a: F.scaled_dot_product_attention(*a, is_causal=True), attention(is_causal=True), ("Attention", {"is_causal": 1}), name="causal attention")
case(SDPA, lambda: QKV() + [normal(45, 45)], {}, lambda *a: F.scaled_dot_product_attention(*a), None, ("Attention", {}), name="attention with a mask")
case("matmul", lambda: [normal(45, 300), normal(300, 33)], {}, torch.matmul, lambda a, b: jx("numpy").matmul(a, b), ("MatMul", {}))
case("mm", lambda: [normal(45, 300), normal(300, 33)], {}, torch.mm, lambda a, b: jx("numpy").dot(a, b), None)
case("bmm", lambda: [normal(3, 45, 300), normal(3, 300, 9)], {}, torch.bmm, lambda a, b: jx("lax").batch_matmul(a, b), ("MatMul", {}))
case("linear", lambda: [normal(45, 300), normal(17, 300), normal(17)], {}, F.linear, None, ("Gemm", {"transB": 1}))
case("addmm", lambda: [normal(33), normal(45, 300), normal(300, 33)], {}, torch.addmm, None, None)
case("einsum", lambda: [normal(4, 5, 60), normal(60, 7)], {"equation": "abk,kc->abc"}, lambda a, b: torch.einsum("abk,kc->abc", a, b), lambda a, b: jx("numpy").einsum("abk,kc->abc", a, b), ("Einsum", {"equation": "abk,kc->abc"}))


def conv(n, transposed=False):
    space, kernel = [29, 11, 7][n - 1 : n] * n, [3] * n
    shape = [12, 6] if transposed else [6, 12]
    inputs = lambda: [normal(2, 12, *space), normal(*shape, *kernel, scale=0.2), normal(6)]
    f = getattr(F, f"conv_transpose{n}d" if transposed else f"conv{n}d")

    def jaxs(x, w, b):
        if transposed:
            return None
        y = jx("lax").conv_general_dilated(x, w, [2] * n, [(1, 1)] * n)
        return y + b.reshape(1, -1, *[1] * n)

    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"
    onnx = ("ConvTranspose" if transposed else "Conv", {"strides": [2] * n, "pads": [1] * 2 * n})
    case(name, inputs, {"stride": [2] * n, "padding": [1] * n}, lambda x, w, b: f(x, w, b, 2, 1), None if transposed else jaxs, onnx)


for n in (1, 2, 3):
    conv(n)
    conv(n, True)
case("conv2d", lambda: [normal(2, 32, 14, 14), normal(32, 32, 3, 3, scale=0.1), normal(32)], {"padding": [1, 1]}, lambda x, w, b: F.conv2d(x, w, b, padding=1), None, ("Conv", {"pads": [1] * 4}), name="conv2d 3x3")

for op, keep in (("sum", "ReduceSum"), ("mean", "ReduceMean")):
    case(op, shaped(), {"dim": -1}, lambda x, op=op: getattr(torch, op)(x, -1), lambda x, op=op: getattr(jx("numpy"), op)(x, -1), (keep, {"axes": [-1], "keepdims": 0}))
    case(op, shaped(200, 45), {"dim": 0}, lambda x, op=op: getattr(torch, op)(x, 0), lambda x, op=op: getattr(jx("numpy"), op)(x, 0), (keep, {"axes": [0], "keepdims": 0}), name=op + " of columns")
case("cumsum", shaped(), {"dim": -1}, lambda x: torch.cumsum(x, -1), lambda x: jx("numpy").cumsum(x, -1), ("CumSum", {"axis": -1}))
case("amax", shaped(), {"dim": -1}, lambda x: torch.amax(x, -1), lambda x: jx("numpy").max(x, -1), ("ReduceMax", {"axes": [-1], "keepdims": 0}))
case("amin", shaped(), {"dim": -1}, lambda x: torch.amin(x, -1), lambda x: jx("numpy").min(x, -1), ("ReduceMin", {"axes": [-1], "keepdims": 0}))
case("var", shaped(), {"dim": -1}, lambda x: torch.var(x, -1), lambda x: jx("numpy").var(x, -1, ddof=1), None)
case("std", shaped(), {"dim": -1}, lambda x: torch.std(x, -1), lambda x: jx("numpy").std(x, -1, ddof=1), None)
case("linalg_vector_norm", shaped(), {"dim": -1}, lambda x: torch.linalg.vector_norm(x, dim=-1), lambda x: jx("numpy").linalg.norm(x, axis=-1), ("ReduceL2", {"axes": [-1], "keepdims": 0}))
for n in (1, 2, 3):
    space = [[61], [14, 14], [8, 8, 8]][n - 1]
    given = lambda space=space: [normal(2, 6, *space)]
    case(f"avg_pool{n}d", given, {"kernel_size": [2] * n}, lambda x, n=n: getattr(F, f"avg_pool{n}d")(x, 2), None, ("AveragePool", {"kernel_shape": [2] * n, "strides": [2] * n}))
    case(f"max_pool{n}d", given, {"kernel_size": [2] * n}, lambda x, n=n: getattr(F, f"max_pool{n}d")(x, 2), None, ("MaxPool", {"kernel_shape": [2] * n, "strides": [2] * n}))
    case(f"adaptive_avg_pool{n}d", given, {"output_size": [3] * n}, lambda x, n=n: getattr(F, f"adaptive_avg_pool{n}d")(x, 3))
    case(f"adaptive_max_pool{n}d", given, {"output_size": [3] * n}, lambda x, n=n: getattr(F, f"adaptive_max_pool{n}d")(x, 3))
IMAGE = lambda: [normal(2, 3, 11, 13)]
case("interpolate", IMAGE, {"scale_factor": 2, "mode": "bilinear"}, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda x: jx("image").resize(x, (2, 3, 22, 26), "bilinear"), ("Resize", {"scales": [1, 1, 2, 2], "mode": "linear"}))
case("interpolate", IMAGE, {"scale_factor": 2, "mode": "bicubic"}, lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), None, ("Resize", {"scales": [1, 1, 2, 2], "mode": "cubic", "cubic_coeff_a": -0.75}), name="interpolate, bicubic")
case("scatter_add", lambda: [normal(20, 33), whole(20, 40, 33), normal(40, 33)], {"dim": 0}, lambda x, i, s: x.scatter_add(0, i, s), None, ("ScatterElements", {"axis": 0, "reduction": "add"}))
case("index_add", lambda: [normal(20, 33), whole(20, 40), normal(40, 33)], {"dim": 0}, lambda x, i, s: x.index_add(0, i, s), lambda x, i, s: x.at[i].add(s))
case("swiglu", lambda: [normal(37, 203), normal(37, 203)], {}, lambda g, u: F.silu(g) * u, lambda g, u: jx("nn").silu(g) * u)
case("geglu", lambda: [normal(37, 203), normal(37, 203)], {}, lambda g, u: F.gelu(g) * u, lambda g, u: jx("nn").gelu(g, approximate=False) * u)
case("glu", shaped(37, 204), {"dim": -1}, lambda x: F.glu(x, -1), lambda x: jx("nn").glu(x, -1))
case("rotary_embedding", lambda: [normal(2, 40, 32)] + [torch.cat([t, t], -1) for t in (inner(40, 16), inner(40, 16))], {},
     lambda x, c, s: x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s)

# Functions of one number: refrun's name, how its inputs are drawn, JAX's and ONNX's names.
for row in """abs normal numpy.abs Abs|neg normal numpy.negative Neg|square normal numpy.square -|exp normal numpy.exp Exp|exp2 normal numpy.exp2 -|expm1 normal numpy.expm1 -|log positive numpy.log Log
log2 positive numpy.log2 -|log1p positive numpy.log1p -|sqrt positive numpy.sqrt Sqrt|rsqrt positive lax.rsqrt -|reciprocal positive numpy.reciprocal Reciprocal|sin normal numpy.sin Sin|cos normal numpy.cos Cos
tan inner numpy.tan Tan|atan normal numpy.arctan Atan|erf normal lax.erf Erf|sigmoid normal nn.sigmoid Sigmoid|tanh normal numpy.tanh Tanh|softplus normal nn.softplus Softplus|elu normal nn.elu Elu|celu normal nn.celu Celu
selu normal nn.selu Selu|leaky_relu normal nn.leaky_relu LeakyRelu|hardsigmoid normal nn.hard_sigmoid HardSigmoid|hardswish normal nn.hard_swish HardSwish|softsign normal nn.soft_sign Softsign|mish normal nn.mish Mish
relu normal nn.relu Relu|relu6 normal nn.relu6 -|silu normal nn.silu Swish|gelu normal - Gelu|sign normal numpy.sign Sign|hardtanh normal nn.hard_tanh -""".replace("\n", "|").split("|"):
    op, draw, jaxs, onnx = row.split()
    f = getattr(torch, op, None) or getattr(F, op)
    extra = {"LeakyRelu": {"alpha": 0.01}, "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5}}.get(onnx, {})
    case(op, lambda draw=draw: [globals()[draw](41, 103) * 3 if draw == "normal" else globals()[draw](41, 103)], {}, f if op != "gelu" else F.gelu,
         None if jaxs == "-" else lambda x, jaxs=jaxs: jx(jaxs)(x), None if onnx == "-" else (onnx, extra))
case("gelu", shaped(scale=3), {}, None, lambda x: jx("nn").gelu(x, approximate=False), None, name="gelu of jax")
case("gelu", shaped(scale=3), {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh"), lambda x: jx("nn").gelu(x), ("Gelu", {"approximate": "tanh"}), name="gelu, tanh")
for op, second, onnx in (("add", normal, "Add"), ("sub", normal, "Sub"), ("mul", normal, "Mul"), ("div", positive, "Div"), ("maximum", normal, "Max"), ("minimum", normal, "Min")):
    names = {"sub": "subtract", "mul": "multiply", "div": "divide"}
    case(op, lambda second=second: [normal(41, 203), second(41, 203)], {}, getattr(torch, op), lambda a, b, op=names.get(op, op): getattr(jx("numpy"), op)(a, b), (onnx, {}))
case("pow", lambda: [positive(41, 203), normal(41, 203)], {}, torch.pow, lambda a, b: jx("numpy").power(a, b), ("Pow", {}))
case("where", lambda: [whole(2, 41, 203).bool(), normal(41, 203), normal(41, 203)], {}, torch.where, lambda c, a, b: jx("numpy").where(c, a, b), ("Where", {}))
# What only moves numbers has one right answer.
case("reshape", shaped(40, 20), {"shape": [20, 40]}, lambda x: x.reshape(20, 40), lambda x: x.reshape(20, 40))
case("transpose", shaped(), {"dim0": 0, "dim1": 1}, lambda x: x.transpose(0, 1).contiguous(), lambda x: x.T, ("Transpose", {"perm": [1, 0]}))
case("permute", lambda: [normal(3, 4, 5)], {"dims": [2, 0, 1]}, lambda x: x.permute(2, 0, 1).contiguous(), lambda x: x.transpose(2, 0, 1), ("Transpose", {"perm": [2, 0, 1]}))
case("flip", shaped(), {"dims": [1]}, lambda x: x.flip(1), lambda x: jx("numpy").flip(x, 1))
case("roll", shaped(), {"shifts": [3], "dims": [1]}, lambda x: x.roll(3, 1), lambda x: jx("numpy").roll(x, 3, 1))
case("pad", shaped(), {"before": [0, 1], "after": [0, 2]}, lambda x: F.pad(x, (1, 2)), lambda x: jx("numpy").pad(x, ((0, 0), (1, 2))))
case("cat", lambda: [normal(5, 7), normal(3, 7)], {"dim": 0}, lambda a, b: torch.cat([a, b]), lambda a, b: jx("numpy").concatenate([a, b]), ("Concat", {"axis": 0}))
case("gather", lambda: [normal(20, 33), whole(20, 40, 33)], {"dim": 0}, lambda x, i: x.gather(0, i), None, ("GatherElements", {"axis": 0}))
case("index_select", lambda: [normal(20, 33), whole(20, 9)], {"dim": 0}, lambda x, i: x.index_select(0, i), lambda x, i: x[i], ("Gather", {"axis": 0}))
case("embedding", lambda: [normal(20, 33), whole(20, 9)], {}, lambda w, i: F.embedding(i, w), None, ("Gather", {"axis": 0}))
case("triu", shaped(), {}, torch.triu, lambda x: jx("numpy").triu(x))
case("pixel_shuffle", lambda: [normal(2, 8, 5, 5)], {"upscale_factor": 2}, lambda x: F.pixel_shuffle(x, 2), None, ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}))


def store(v, dtype):
    """A constant as JAX has it."""
    return torch.tensor(v).to(dtype).item()


def chains(dtype):
    """What JAX computes as several operations, each of which may store half numbers, as functions of torch: they are
    judged as chains. Constants are numbers of the format."""
    c = lambda v: store(v, dtype)
    bf16 = dtype == torch.bfloat16
    over = lambda x, v: x / c(v) if bf16 else x * c(1 / v)  # XLA divides float16 by products with reciprocals

    def softmax(x, axis):
        shifted = x - x.amax(axis, keepdim=True)
        total = torch.exp(shifted).sum(axis, keepdim=True)  # of bfloat16 it sums what it has not stored
        return torch.exp(shifted) / total if bf16 else (lambda e: e * (1 / e.sum(axis, keepdim=True)))(torch.exp(shifted))

    silu = lambda x: x * (1 / (1 + torch.exp(-x)))
    expm1 = lambda x: torch.where(x.abs() < 0.5, torch.tanh(x * 0.5) * (torch.exp(x) + 1), torch.exp(x) - 1)
    softplus = lambda x: torch.maximum(x, torch.zeros_like(x)) + torch.log1p(torch.exp(-x.abs()))
    sixth = lambda x: over(torch.clamp(x + 3, 0, 6), 6)
    return {
        "softmax": lambda x: softmax(x, -1),
        "softmax of columns": lambda x: softmax(x, 0),
        "std": lambda x: torch.sqrt(torch.var(x, -1)),
        "linalg_vector_norm": lambda x: torch.sqrt((x * x).sum(-1)),
        "swiglu": lambda g, u: silu(g) * u,
        "geglu": lambda g, u: 0.5 * g * (1 - torch.erf(-g * c(2**-0.5))) * u,
        "gelu of jax": lambda x: 0.5 * x * (1 - torch.erf(-x * c(2**-0.5))),
        "gelu, tanh": lambda x: x * (0.5 * (1 + torch.tanh(c((2 / torch.pi) ** 0.5) * (x + c(0.044715) * (x * x * x))))),
        "glu": lambda x: (lambda a, b: a * (1 / (1 + torch.exp(-b))))(*x.chunk(2, -1)),
        "silu": silu,
        "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
        "exp2": lambda x: torch.exp(x * c(0.6931471805599453)),
        "log2": lambda x: over(torch.log(x), 0.6931471805599453),
        "expm1": expm1,
        "softplus": softplus,
        "elu": lambda x: torch.where(x > 0, x, expm1(torch.clamp(x, max=0))),
        "celu": lambda x: torch.where(x > 0, x, expm1(torch.clamp(x, max=0))),
        "selu": lambda x: c(1.0507009873554805) * torch.where(x > 0, x, c(1.6732632423543772) * expm1(torch.clamp(x, max=0))),
        "leaky_relu": lambda x: torch.where(x >= 0, x, c(0.01) * x),
        "hardsigmoid": sixth,
        "hardswish": lambda x: x * sixth(x),
        "mish": lambda x: x * torch.tanh(softplus(x)),
        **{f"conv{n}d": lambda x, w, b, n=n: getattr(F, f"conv{n}d")(x, w, None, 2, 1) + b.reshape(1, -1, *[1] * n) for n in (1, 2, 3)},
    }


def by_torch(torchs, jaxs, onnx, ins):
    return torchs and torchs(*ins)


def by_jax(torchs, jaxs, onnx, ins):
    if not jaxs or jx("nn") is None:
        return None
    import jax
    import ml_dtypes

    def of(t):
        if t.dtype == torch.bfloat16:
            return jax.numpy.asarray(t.float().numpy().astype(ml_dtypes.bfloat16))
        return jax.numpy.asarray(t.numpy())

    with jax.enable_x64(any(t.dtype == torch.float64 for t in ins)):
        y = jax.jit(jaxs)(*map(of, ins))
    if y is None:
        return None
    if y.dtype == jax.numpy.bfloat16:
        return torch.from_numpy(np.array(y.astype(jax.numpy.float32))).bfloat16()
    return torch.from_numpy(np.array(y))


# Inputs of ONNX's operators that come in another order, or are numbers of an attribute.
ORDERED = {"Where": (0, 1, 2)}


def by_onnx(torchs, jaxs, onnx, ins):
    if not onnx:
        return None
    try:
        import onnx as ox
        import onnxruntime as ort
    except ImportError:
        return None
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper

    kind, attrs = onnx[0], dict(onnx[1])
    types = {torch.float64: T.DOUBLE, torch.float32: T.FLOAT, torch.float16: T.FLOAT16, torch.bfloat16: T.BFLOAT16, torch.int64: T.INT64, torch.bool: T.BOOL}
    given = [f"x{k}" for k in range(len(ins))]
    constants, names = [], list(given)
    if kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceL2"):
        constants.append(numpy_helper.from_array(np.array(attrs.pop("axes"), np.int64), "axes"))
        names.append("axes")
    if kind == "CumSum":
        constants.append(numpy_helper.from_array(np.array(attrs.pop("axis"), np.int64), "axis"))
        names.append("axis")
    if kind == "Resize":
        constants.append(numpy_helper.from_array(np.array(attrs.pop("scales"), np.float32), "scales"))
        names = [names[0], "", "scales"]
    node = helper.make_node(kind, names, ["y"], **attrs)
    first = ins[1] if kind == "Where" else ins[0]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, types[t.dtype], list(t.shape)) for n, t in zip(given, ins)],
                              [helper.make_tensor_value_info("y", types[first.dtype], None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24 if kind == "Swish" else 23)], ir_version=11)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    s = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    if first.dtype == torch.bfloat16:
        raise NotImplementedError("numpy has no bfloat16 to hand over")
    return torch.from_numpy(s.run(None, {n: t.numpy() for n, t in zip(given, ins)})[0])


# What keeps the sums of half numbers in their format: refrun refuses it, unless that is claimed.
NARROW = {("adaptive_avg_pool3d", "torch"), ("interpolate", "jax")}

# What computes float64 numbers in float32, in part or with constants of it, or loses digits: refrun refuses it.
COARSE = {("group_norm", "onnxruntime"), ("gelu, tanh", "onnxruntime"), ("sin", "onnxruntime"), ("cos", "onnxruntime"), (SDPA, "jax"), ("causal attention", "jax")}

LIBRARIES = {"torch": by_torch, "jax": by_jax, "onnxruntime": by_onnx}


# What the tests of internal/oracle/judge have: outputs that only one form of an operation, or one rounding, explains.
RECORDED = {("softmax of columns", "torch", "bfloat16"), ("logsumexp", "torch", "bfloat16"), ("cross_entropy", "torch", "float16"), ("instance_norm", "torch", "float16"),
            ("batch_norm in training", "torch", "bfloat16"), ("scaled_dot_product_attention", "torch", "float16"), ("attention with a mask", "onnxruntime", "float16"),
            ("conv_transpose2d", "torch", "float16"), ("softsign", "torch", "bfloat16"), ("sigmoid", "onnxruntime", "float32"), ("silu", "onnxruntime", "float32"),
            ("elu", "onnxruntime", "float32"), ("pow", "torch", "float32"), ("log_softmax", "jax", "bfloat16")}


def record(folder, name, op, attrs, ins, out, r, **more):
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    index = folder / "index.json"
    rows = json.loads(index.read_text()) if index.exists() else {}
    file = name.replace(" ", "_") + ".safetensors"
    names = refrun.kernel._names(op, len(ins))
    save_file({**{n: t.contiguous() for n, t in zip(names, ins)}, "output": out.contiguous(), **more}, folder / file)
    rows[name] = {"file": file, "op": op, "attrs": attrs, "contract": r.data["contract"]}
    index.write_text(json.dumps(rows, indent=1) + "\n")


def doubles(folder):
    """Small outputs of PyTorch in float64, with what it makes in float32 of the same numbers."""
    torch.set_default_dtype(torch.float64)
    G.manual_seed(5)
    cases = {
        "matmul": ([normal(9, 60), normal(60, 7)], {}, torch.matmul),
        "softmax": ([normal(7, 45, scale=3)], {"dim": -1}, lambda x: F.softmax(x, -1)),
        "log_softmax": ([normal(7, 45, scale=3)], {"dim": -1}, lambda x: F.log_softmax(x, -1)),
        "layer_norm": ([normal(7, 45, shift=0.5), normal(45), normal(45)], {"normalized_shape": [45], "eps": 1e-5}, lambda x, w, b: F.layer_norm(x, [45], w, b)),
        "rms_norm": ([normal(7, 45)], {"normalized_shape": [45]}, lambda x: F.rms_norm(x, [45])),
        "group_norm": ([normal(2, 4, 5, 6), normal(4), normal(4)], {"num_groups": 2, "eps": 1e-5}, lambda x, w, b: F.group_norm(x, 2, w, b)),
        "gelu": ([normal(300, scale=2)], {}, F.gelu),
        "exp": ([normal(300, scale=3)], {}, torch.exp),
        "tanh": ([normal(300)], {}, torch.tanh),
        "asin": ([inner(2000) * 1e-8], {}, torch.asin),
        "pow": ([positive(200), normal(200)], {}, torch.pow),
        "conv2d": ([normal(1, 3, 9, 9), normal(4, 3, 3, 3, scale=0.2), normal(4)], {}, F.conv2d),
        "cumsum": ([normal(5, 60)], {"dim": -1}, lambda x: torch.cumsum(x, -1)),
        SDPA: ([normal(1, 2, 11, 8) for _ in range(3)], {}, F.scaled_dot_product_attention),
        "std": ([normal(9, 40)], {"dim": -1}, lambda x: torch.std(x, -1)),
        "interpolate": ([normal(1, 2, 5, 6)], {"scale_factor": 2, "mode": "bilinear"}, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    }
    for op, (ins, attrs, f) in cases.items():
        r = refrun.check_kernel(op, ins, f(*ins), **attrs)
        record(Path(folder), op, op, attrs, ins, f(*ins), r, single=f(*(t.float() for t in ins)).double())


def contract(c):
    """A contract in a few words."""
    words = ["sums in " + c["accumulate"]] if c.get("accumulate") else []
    words += ["rounds " + ", ".join(c["round"])] if c.get("round") else []
    words += [w for k, w in (("affine", "x*scale + shift"), ("one_pass", "one-pass"), ("coarse_exp", "coarse exp"), ("online", "divides after"), ("symmetric", "1/2 + tanh(x/2)/2"),
                              ("bias_after", "bias after"), ("taps", "tap by tap")) if c.get(k)]
    if c.get("block_keys"):
        words.append(f"{c['block_keys']} keys")
    return "; ".join(words) or ("float64 steps" if c.get("double") else "float32 steps")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", action="append", help="the name of a case; may be repeated")
    p.add_argument("--library", choices=LIBRARIES)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--record", help="a folder for the outputs that the tests of internal/oracle/judge have")
    p.add_argument("--record-double", help="a folder for those of float64")
    p.add_argument("--text", action="store_true", help="print the report of what is refused")
    a = p.parse_args()
    torch.set_num_threads(1)
    if a.record_double:
        return doubles(a.record_double)
    count = collections.Counter()
    libraries = [a.library] if a.library else list(LIBRARIES)
    print("| operation | library | " + " | ".join(PRECISIONS) + " |\n|---|---|" + "---|" * len(PRECISIONS))
    for name, (op, inputs, attrs, *made) in CASES.items():
        if a.only and name not in a.only:
            continue
        for library in libraries:
            row = []
            for precision, dtype in PRECISIONS.items():
                G.manual_seed(a.seed)
                torch.set_default_dtype(torch.float64 if dtype == torch.float64 else torch.float32)
                ins = [t.to(dtype) if t.is_floating_point() else t for t in inputs()]
                try:
                    out = LIBRARIES[library](*made, ins)
                except Exception as e:  # a precision that the library does not have
                    print(f"{name}, {library}, {precision}: {type(e).__name__}: {str(e).splitlines()[0][:150]}", file=sys.stderr)
                    out = None
                if out is None:
                    row.append("-")
                    continue
                judged, options = op, attrs
                if library == "jax" and precision in HALVES and name in chains(dtype):
                    judged, options = chains(dtype)[name], {}
                if library == "onnxruntime" and "eps" in options:  # an attribute of ONNX is a float32 number
                    options = {**options, "eps": float(np.float32(options["eps"]))}
                try:
                    r = refrun.check_kernel(judged, ins, out, **options)
                except ValueError as e:
                    row.append(f"**not judged** {e}")
                    count["not judged"] += 1
                    continue
                if precision in HALVES and (name, library) in NARROW:
                    if r.verdict != "FAIL":
                        count["sums in half not refused"] += 1
                    r = refrun.check_kernel(judged, ins, out, accumulate=precision, **options)
                if precision == "float64" and (name, library) in COARSE:
                    count["float64 not refused" if r.verdict != "FAIL" else "PASS"] += 1
                    row.append("refused: " + (r.diagnosis or r.reason))
                    continue
                count[r.verdict] += 1
                if a.record and (name, library, precision) in RECORDED:
                    record(Path(a.record), f"{library} {name} {precision}", op, attrs, ins, out, r)
                row.append(contract(r.data["contract"]) if r.ok else f"**{r.verdict}** {r.data.get('fault') or r.data.get('reason')}")
                if a.text and not r.ok:
                    print(r, file=sys.stderr)
            if set(row) != {"-"}:
                print(f"| {name} | {library} | " + " | ".join(row) + " |", flush=True)
    print(f"\n{sum(count.values())} outputs of {len(CASES)} cases: " + ", ".join(f"{n} {v}" for v, n in count.items()))
    return 1 if set(count) != {"PASS"} else 0


if __name__ == "__main__":
    sys.exit(main())
