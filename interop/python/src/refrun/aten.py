"""ATen's operations as refrun's: one rule for each overload that torch.export leaves in a graph.

A rule is called with the converter c, and with the arguments of the call by their names in ATen's
schema. In place of tensors it gets what the converter knows them as; it hands them back to
c.emit(op, inputs, attributes), which adds a node and returns its output.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

Rule = Callable[[Any, Dict[str, Any]], Any]
RULES: Dict[str, Rule] = {}


class NoRule(Exception):
    """A call that refrun has no operation for. The text says what would do instead."""


def rule(*overloads: str) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        for o in overloads:
            RULES[f"aten.{o}"] = f
        return f

    return add


def inputs(a: Dict[str, Any], names: str) -> List[Any]:
    """The tensors of those names; the last ones may be None."""
    of = [a.get(n) for n in names.split()]
    while of and of[-1] is None:
        of.pop()
    for n, v in zip(names.split(), of):
        if v is None:
            raise NoRule(f"without {n} but with what follows it: want both")
    return of


def same(op: str, tensors: str, attributes: str = "", *overloads: str) -> None:
    """An operation whose arguments refrun has by the same names. `ours=theirs` where it has not."""
    pairs = [(x.split("=")[0], x.split("=")[-1]) for x in attributes.split()]

    def f(c: Any, a: Dict[str, Any]) -> Any:
        return c.emit(op, inputs(a, tensors), {ours: a[theirs] for ours, theirs in pairs if a.get(theirs) is not None})

    rule(*(overloads or (f"{op}.default",)))(f)


# Products.
for n in (1, 2, 3):
    conv = "stride padding dilation groups"
    same(f"conv{n}d", "input weight bias", conv, f"conv{n}d.default", f"conv{n}d.padding")
    same(f"conv_transpose{n}d", "input weight bias", conv + " output_padding", f"conv_transpose{n}d.default" if n == 1 else f"conv_transpose{n}d.input")
same("linear", "input weight bias")
same("matmul", "self other")
same("mm", "self mat2")
same("bmm", "self mat2")
same("matmul", "self mat2", "", "_int_mm.default")
same("matmul", "self vec", "", "mv.default")
same("matmul", "self tensor", "", "dot.default")
same("addmm", "self mat1 mat2", "beta alpha")
same("baddbmm", "self batch1 batch2", "beta alpha")


@rule("_scaled_mm.default")
def scaled_mm(c: Any, a: Dict[str, Any]) -> Any:
    """A product of numbers of 8 bits, each times its scale. Kernels scale the operands, as PyTorch on a CPU does, or what the
    sums are, which has fewer errors."""
    of = []
    for x, scale, n in ((a["self"], a["scale_a"], [c.shape(a["self"])[0], 1]), (a["mat2"], a["scale_b"], [1, c.shape(a["mat2"])[1]])):
        if c.shape(scale) not in ([], [1], [1, 1], n) or a["scale_result"] is not None:
            raise NoRule("scales of blocks, or of the result: want those of tensors, or of rows and columns")
        of.append(c.emit("mul", [x, scale], {}, part=f"scaled{len(of)}", types=[(c.shape(x), torch.float32)]))
    types = [(c.result_shape(), torch.float32)]
    y = c.emit("mm", of, {}, part="product", types=types)
    if a["bias"] is not None:
        y = c.emit("add", [y, c.cast(a["bias"], torch.float32)], {}, part="sum", types=types)
    return y if c.result().dtype == torch.float32 else c.emit("cast", [y], {"dtype": str(c.result().dtype).removeprefix("torch.")})


@rule("einsum.default")
def einsum(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("einsum", list(a["tensors"]), {"equation": a["equation"]})


@rule("scaled_dot_product_attention.default")
def attention(c: Any, a: Dict[str, Any]) -> Any:
    if a["dropout_p"]:
        raise NoRule("dropout_p is not 0: want evaluation mode")
    return c.emit("scaled_dot_product_attention", inputs(a, "query key value attn_mask"), {k: a[k] for k in ("is_causal", "scale", "enable_gqa") if a[k]})


# Norms.
same("group_norm", "input weight bias", "num_groups eps")
same("layer_norm", "input weight bias", "normalized_shape eps")
same("rms_norm", "input weight", "normalized_shape eps")


@rule("batch_norm.default", "_native_batch_norm_legit_no_training.default")
def batch_norm(c: Any, a: Dict[str, Any]) -> Any:
    if a.get("training"):
        return c.emit("batch_norm", inputs(a, "input weight bias"), {"eps": a["eps"], "training": True})
    parameters = [p for p in (a["weight"], a["bias"]) if p is not None]
    if len(parameters) == 1:
        raise NoRule("a weight without a bias, or a bias without a weight: want both or neither")
    y = c.emit("batch_norm", [a["input"], *parameters, a["running_mean"], a["running_var"]], {"eps": a["eps"]})
    return y if "training" in a else (y, None, None)


@rule("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit.default", "_native_batch_norm_legit_functional.default", "native_batch_norm.default")
def batch_norm_of_all(c: Any, a: Dict[str, Any]) -> Any:
    """In training: the mean and variance are those of the batch. What is kept of them is no output."""
    if not a["training"]:
        return batch_norm(c, {**a, "training": False}), None, None
    y = c.emit("batch_norm", inputs(a, "input weight bias"), {"eps": a["eps"], "training": True})
    return y, None, None


@rule("instance_norm.default")
def instance_norm(c: Any, a: Dict[str, Any]) -> Any:
    if not a["use_input_stats"]:
        raise NoRule("with running statistics: want track_running_stats=False")
    return c.emit("instance_norm", inputs(a, "input weight bias"), {"eps": a["eps"]})


# Functions of one number.
for name in "acos acosh asin asinh atan ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 mish neg reciprocal relu6 round rsqrt sigmoid sign sin sinh sqrt square tan trunc hardsigmoid hardswish silu tanh relu selu isnan isinf logical_not".split():
    same(name, "self")
same("sign", "self", "", "sgn.default")
same("trunc", "self", "", "fix.default")
same("sigmoid", "self", "", "special_expit.default")
same("erfc", "self", "", "special_erfc.default")
same("gelu", "self", "approximate")
same("leaky_relu", "self", "negative_slope")
same("celu", "self", "alpha")
same("softplus", "self", "beta threshold")
same("hardtanh", "self", "min_val max_val")
same("hardshrink", "self", "lambd")
same("softshrink", "self", "lambd")
same("prelu", "self weight")
same("glu", "self", "dim")


@rule("prelu.default")
def prelu(c: Any, a: Dict[str, Any]) -> Any:
    x, w = a["self"], a["weight"]
    rank, n = len(c.shape(x)), c.shape(w)
    if n and n[0] != 1 and rank > 2:
        w = c.emit("reshape", [w], {"shape": list(n) + [1] * (rank - 2)})
    return c.emit("prelu", [x, w], {})


@rule("elu.default")
def elu(c: Any, a: Dict[str, Any]) -> Any:
    if a["input_scale"] != 1:
        raise NoRule("input_scale is not 1: want alpha and scale only")
    return c.emit("elu", [a["self"]], {"alpha": a["alpha"], "scale": a["scale"]})


@rule("log_sigmoid.default")
def log_sigmoid(c: Any, a: Dict[str, Any]) -> Any:
    """ln(1/(1+e^-x)) is -softplus(-x): the two signs round nothing."""
    x = c.emit("neg", [a["self"]], {}, part="minus")
    return c.emit("neg", [c.emit("softplus", [x], {"threshold": 1e30}, part="softplus")], {})


@rule("softmax.int", "_softmax.default")
def softmax(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("softmax", [c.cast(a["self"], a.get("dtype"))], {"dim": a["dim"]})


@rule("log_softmax.int", "_log_softmax.default")
def log_softmax(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("log_softmax", [c.cast(a["self"], a.get("dtype"))], {"dim": a["dim"]})


@rule("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default", "clamp_min.Tensor", "clamp_max.Tensor", "clip.default")
def clamp(c: Any, a: Dict[str, Any]) -> Any:
    x, low, high = a["self"], a.get("min"), a.get("max")
    if any(c.tensor(v) for v in (low, high)):
        if low is not None:
            x = c.emit("maximum", [x, low], {}, part="min" if high is not None else None)
        return c.emit("minimum", [x, high], {}) if high is not None else x
    return c.emit("clamp", [x], {k: v for k, v in (("min", low), ("max", high)) if v is not None and math.isfinite(v)})


# Operations on two numbers. One of them may be a number of the program.
def binary(op: str, first: str = "self", second: str = "other", *overloads: str) -> None:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        attributes: Dict[str, Any] = {}
        tensors = []
        for place, v in (("self", a[first]), ("other", a[second])):
            if c.tensor(v):
                tensors.append(v)
            elif math.isfinite(c.number(v)):
                attributes[place] = c.number(v)
            else:  # which a file of a graph has no word for
                tensors.append(torch.tensor(v, dtype=next(c.dtype(t) for t in (a[first], a[second]) if c.tensor(t))))
        if a.get("alpha", 1) != 1:
            attributes["alpha"] = a["alpha"]
        if a.get("rounding_mode"):
            attributes["rounding_mode"] = a["rounding_mode"]
        return c.emit(op, _promoted(c, tensors), attributes)

    rule(*overloads)(f)


def _promoted(c: Any, tensors: Sequence[Any]) -> List[Any]:
    """Whole numbers beside others become numbers of the type of those, which PyTorch rounds and a compiler may not."""
    types = [c.dtype(t) for t in tensors]
    if not any(t.is_floating_point for t in types):
        return list(tensors)
    dtype = torch.result_type(*(torch.empty(c.shape(t), dtype=c.dtype(t), device="meta") for t in tensors)) if len(tensors) == 2 else types[0]
    whole = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    return [c.cast(t, dtype) if isinstance(t, str) and c.dtype(t) in whole else t for t in tensors]


for name in "add sub mul div maximum minimum fmax fmin fmod remainder floor_divide atan2 eq ne lt le gt ge logical_and logical_or logical_xor pow".split():
    tensors = ("Tensor_Tensor",) if name == "pow" else ("default",) if name in ("maximum", "minimum", "fmax", "fmin", "floor_divide", "atan2", "logical_and", "logical_or", "logical_xor") else ("Tensor", "Scalar")
    binary(name, "self", "exponent" if name == "pow" else "other", *(f"{name}.{t}" for t in tensors))
binary("div", "self", "other", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor", "divide.Tensor")
binary("floor_divide", "self", "other", "floor_divide.Scalar")
binary("maximum", "self", "other", "max.other")
binary("minimum", "self", "other", "min.other")
binary("mul", "self", "other", "multiply.Tensor", "multiply.Scalar")
binary("sub", "other", "self", "rsub.Scalar", "rsub.Tensor")
binary("pow", "self", "exponent", "pow.Tensor_Scalar", "pow.Scalar")
# Bits of whole numbers, in two's complement: those below k are the remainder by 2^k, and those of a mask are a sum of differences
# of such remainders. All of it is exact, so that right kernels agree.


def _whole(c: Any, op: str, x: Any, part: str, other: Any = None) -> Any:
    given = c.tensor(other)
    return c.emit(op, [x, other] if given else [x], {} if given or other is None else {"other": other}, part=part, types=[(c.shape(x), torch.int64)])


def _wide(c: Any, x: Any) -> Any:
    return x if c.dtype(x) == torch.int64 else c.emit("cast", [x], {"dtype": "int64"}, part="wide", types=[(c.shape(x), torch.int64)])


def _stored(c: Any, x: Any) -> Any:
    dtype = c.dtype_of_result()
    return x if dtype == torch.int64 else c.emit("cast", [x], {"dtype": str(dtype).removeprefix("torch.")})


def _masked(c: Any, x: Any, mask: int) -> Any:
    """x & mask, of a mask that is not negative, run by run of its bits."""
    total, low = None, 0
    while mask >> low:
        high = low
        while mask >> high & 1:
            high += 1
        if high > low:
            run = _whole(c, "remainder", x, f"below{high}", 1 << high)
            run = _whole(c, "sub", run, f"from{low}", _whole(c, "remainder", x, f"below{low}", 1 << low)) if low else run
            total = run if total is None else _whole(c, "add", total, f"masked{high}", run)
        low = max(high, low + 1)
    return _whole(c, "mul", x, "masked", 0) if total is None else total


def _number(c: Any, v: Any) -> int:
    """The whole number that a call says; float64 has all up to 2^53."""
    v = v.item() if isinstance(v, torch.Tensor) and v.numel() == 1 else v
    if isinstance(v, bool) or not isinstance(v, int) or abs(v) >= 1 << 53:
        raise NoRule("bits of two tensors: want a whole number as the mask, or how far to shift")
    return v


def _truths(c: Any, *of: Any) -> bool:
    return all(c.dtype(v) == torch.bool if c.tensor(v) else isinstance(v, bool) for v in of)


def _bitwise(op: str) -> None:
    name = f"__{op}__"

    @rule(*(f"{n}.{o}" for n in (f"bitwise_{op}", name) for o in ("Tensor", "Scalar")))
    def f(c: Any, a: Dict[str, Any]) -> Any:
        x, mask = a["self"], a["other"]
        if _truths(c, x, mask):
            return c.emit(f"logical_{op}", [x, c.as_tensor(mask, torch.bool)], {})
        if isinstance(x, torch.Tensor) and x.numel() == 1:
            x, mask = mask, x
        mask = _number(c, mask)
        if not c.dtype(x).is_signed:
            mask %= 1 << torch.iinfo(c.dtype(x)).bits
        x = _wide(c, x)
        y = _masked(c, x, mask if mask >= 0 else ~mask)
        y = y if mask >= 0 else _whole(c, "sub", x, "kept", y)  # x & m = x - (x & ~m)
        if op != "and":  # x | m = x + m - (x & m), x ^ m = x + m - 2 (x & m)
            both = y if op == "or" else _whole(c, "mul", y, "twice", 2)
            y = _whole(c, "sub", _whole(c, "add", x, "sum", mask), "apart", both)
        return _stored(c, y)


for name in ("and", "or", "xor"):
    _bitwise(name)


@rule("bitwise_not.default")
def bitwise_not(c: Any, a: Dict[str, Any]) -> Any:
    x = a["self"]
    if _truths(c, x):
        return c.emit("logical_not", [x], {})
    most = -1 if c.dtype(x).is_signed else torch.iinfo(c.dtype(x)).max
    return _stored(c, _whole(c, "add", _whole(c, "neg", _wide(c, x), "negative"), "others", most))


@rule(*(f"{n}.{o}" for n in ("bitwise_left_shift", "bitwise_right_shift") for o in ("Tensor", "Tensor_Scalar")),
      *(f"{n}.{o}" for n in ("__lshift__", "__rshift__") for o in ("Tensor", "Scalar")))
def shift(c: Any, a: Dict[str, Any]) -> Any:
    """To the left a product with a power of 2, of the bits that stay; to the right a quotient, rounded down."""
    x, by = a["self"], _number(c, a["other"])
    dtype = c.dtype(x)
    bits = torch.iinfo(dtype).bits
    if not 0 <= by < bits:
        raise NoRule(f"a shift by {by}: want less than {bits}")
    x = _wide(c, x)
    if "right" in c.target or "rshift" in c.target:
        return _stored(c, _whole(c, "floor_divide", x, "shifted", 1 << by))
    if bits < 64:
        half = 1 << bits - by - 1 if dtype.is_signed else 0
        x = _whole(c, "remainder", _whole(c, "add", x, "upwards", half), "stays", 1 << bits - by)
        x = _whole(c, "sub", x, "signed", half)
    return _stored(c, _whole(c, "mul", x, "shifted", 1 << by))


@rule("addcmul.default", "addcdiv.default")
def addcmul(c: Any, a: Dict[str, Any]) -> Any:
    op = "mul" if "addcmul" in c.target else "div"
    t = c.emit(op, [a["tensor1"], a["tensor2"]], {}, part=op)
    return c.emit("add", [a["self"], t], {"alpha": a["value"]} if a["value"] != 1 else {})


@rule("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other", "special_xlogy.default")
def xlogy(c: Any, a: Dict[str, Any]) -> Any:
    """x ln y, but 0 for x = 0 and a y that is a number."""
    x, y = (c.as_tensor(a[k], c.dtype_of_result()) for k in ("self", "other"))
    out = c.result_shape()
    product = c.emit("mul", [x, c.emit("log", [y], {}, part="log")], {}, part="product")
    zero = c.emit("eq", [x], {"other": 0.0}, part="zero", types=[(c.shape(x), torch.bool)])
    nan = c.emit("isnan", [y], {}, part="nan", types=[(c.shape(y), torch.bool)])
    some = c.emit("logical_not", [nan], {}, part="number", types=[(c.shape(y), torch.bool)])
    none = c.emit("logical_and", [zero, some], {}, part="nothing", types=[(out, torch.bool)])
    return c.emit("where", [none, torch.zeros((), dtype=c.dtype(product)), product], {})


@rule("cumprod.default")
def cumprod(c: Any, a: Dict[str, Any]) -> Any:
    """The products up to each place, of the numbers before it, and of ones in place of those after it."""
    x = c.cast(a["self"], a.get("dtype"))
    shape, dtype = c.shape(x), c.dtype(x)
    if not shape:
        return x
    axis = a["dim"] % len(shape)
    n, rest = shape[axis], [1] * (len(shape) - axis - 1)
    apart = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
    x = c.emit("reshape", [x], {"shape": apart, "allowzero": True}, part="apart")
    up = torch.ones(n, n).triu().bool().reshape([n, n, *rest])  # [of a number, up to a place]
    each = [*shape[: axis + 1], n, *shape[axis + 1 :]]
    x = c.emit("where", [up, x, torch.ones((), dtype=dtype)], {}, part="factors", types=[(each, dtype)])
    return c.emit("prod", [x], {"dim": axis})


@rule("lerp.Scalar", "lerp.Tensor")
def lerp(c: Any, a: Dict[str, Any]) -> Any:
    d = c.emit("sub", [a["end"], a["self"]], {}, part="difference")
    w = a["weight"]
    p = c.emit("mul", [d, w] if c.tensor(w) else [d], {} if c.tensor(w) else {"other": w}, part="product")
    return c.emit("add", [a["self"], p], {})


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("where", [a["condition"], c.as_tensor(a["self"]), c.as_tensor(a["other"])], {})


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("where", [a["mask"], c.as_tensor(a["value"], c.dtype(a["self"])), a["self"]], {})


# Pools, and what changes sizes.
for n in (1, 2, 3):
    same(f"max_pool{n}d", "self", "kernel_size stride padding dilation ceil_mode")
    same(f"avg_pool{n}d", "self", "kernel_size stride padding ceil_mode count_include_pad divisor_override")
    same(f"adaptive_avg_pool{n}d", "self", "output_size")

    def max_pool(c: Any, a: Dict[str, Any], op: str = f"max_pool{n}d") -> Any:
        keys = "kernel_size stride padding dilation ceil_mode".split()
        return c.emit(op, [a["self"]], {**{k: a[k] for k in keys if k in a}, "return_indices": True}, outputs=2)

    def adaptive_max_pool(c: Any, a: Dict[str, Any], op: str = f"adaptive_max_pool{n}d") -> Any:
        return c.emit(op, [a["self"]], {"output_size": a["output_size"], "return_indices": True}, outputs=2)

    rule(f"max_pool{n}d_with_indices.default")(max_pool)
    rule(f"adaptive_max_pool{n}d.default")(adaptive_max_pool)


def upsample(overload: str, mode: str, antialias: bool = False) -> None:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        attributes: Dict[str, Any] = {"mode": mode}
        if antialias:
            attributes["antialias"] = True
        if a.get("align_corners"):
            attributes["align_corners"] = True
        scales = a.get("scale_factors")
        if scales is None:
            scales = [a[k] for k in ("scales", "scales_d", "scales_h", "scales_w") if a.get(k) is not None] or None
        if scales is not None:
            attributes["scale_factor"] = list(scales)
        else:
            attributes["size"] = list(a["output_size"])
        return c.emit("interpolate", [a["input"] if "input" in a else a["self"]], attributes)

    rule(f"{overload}.vec", f"{overload}.default")(f)


for n, linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    upsample(f"upsample_nearest{n}d", "nearest")
    upsample(f"_upsample_nearest_exact{n}d", "nearest-exact")
    upsample(f"upsample_{linear}{n}d", linear)
upsample("upsample_bicubic2d", "bicubic")
upsample("_upsample_bilinear2d_aa", "bilinear", antialias=True)
upsample("_upsample_bicubic2d_aa", "bicubic", antialias=True)


@rule("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(c: Any, a: Dict[str, Any]) -> Any:
    attributes = {
        "mode": ("bilinear", "nearest", "bicubic")[a["interpolation_mode"]],
        "padding_mode": ("zeros", "border", "reflection")[a["padding_mode"]],
        "align_corners": bool(a["align_corners"]),
    }
    return c.emit("grid_sampler", [a["input"], a["grid"]], attributes)


@rule("affine_grid_generator.default")
def affine_grid(c: Any, a: Dict[str, Any]) -> Any:
    """The product of each sample's matrix with all places of an image, which are constants."""
    theta, (n, _, *sizes), corners = a["theta"], a["size"], a["align_corners"]
    dtype, axes = c.dtype(theta), len(sizes)
    base = torch.ones(*sizes, axes + 1, dtype=dtype)
    for k, size in enumerate(sizes):
        line = torch.linspace(-1, 1, size, dtype=dtype) if size > 1 else torch.zeros(1, dtype=dtype)
        line = line if corners else line * (size - 1) / size
        base[..., axes - 1 - k] = line.reshape([-1 if j == k else 1 for j in range(axes)])
    places = base.reshape(1, -1, axes + 1).repeat(n, 1, 1)
    turned = c.emit("transpose", [theta], {"dim0": 1, "dim1": 2}, part="turned", types=[([n, axes + 1, axes], dtype)])
    grid = c.emit("bmm", [places, turned], {}, part="places", types=[([n, places.shape[1], axes], dtype)])
    return c.emit("reshape", [grid], {"shape": [n, *sizes, axes], "allowzero": True})


same("pixel_shuffle", "self", "upscale_factor")
same("pixel_unshuffle", "self", "downscale_factor")


# Sums and statistics.
def over(op: str, *overloads: str) -> None:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        x = c.cast(a["self"], a.get("dtype"))
        dim = a.get("dim")
        attributes = {} if dim is None or dim == [] else {"dim": dim}
        if a.get("keepdim"):
            attributes["keepdim"] = True
        if op in ("var", "std"):
            correction = a.get("correction", 1 if a.get("unbiased", True) else 0)
            attributes["correction"] = 1 if correction is None else int(correction)
        return c.emit(op, [x], attributes)

    rule(*overloads)(f)


over("sum", "sum.default", "sum.dim_IntList")
over("mean", "mean.default", "mean.dim")
over("prod", "prod.default", "prod.dim_int")
over("amax", "amax.default", "max.default")
over("amin", "amin.default", "min.default")
over("logsumexp", "logsumexp.default")
over("any", "any.default", "any.dim", "any.dims")
over("all", "all.default", "all.dim", "all.dims")
over("var", "var.correction", "var.default", "var.dim")
over("std", "std.correction", "std.default", "std.dim")


@rule(*(f"{name}_mean.{form}" for name in ("std", "var") for form in ("correction", "dim", "default")))
def std_mean(c: Any, a: Dict[str, Any]) -> Any:
    spread = "std" if "std_mean" in c.target else "var"
    along = {"keepdim": True} if a.get("keepdim") else {}
    along.update({"dim": a["dim"]} if a.get("dim") else {})
    correction = a.get("correction", 1 if a.get("unbiased", True) else 0)
    of = [([int(n) for n in v.shape], v.dtype) for v in c.result()]
    mean = c.emit("mean", [a["self"]], dict(along), part="mean", types=of[1:])
    along["correction"] = 1 if correction is None else int(correction)
    return c.emit(spread, [a["self"]], along, types=of[:1]), mean


@rule("max.dim", "min.dim")
def extreme(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("max" if ".max." in c.target else "min", [a["self"]], {"dim": a["dim"], "keepdim": a["keepdim"]}, outputs=2)


@rule("argmax.default", "argmin.default")
def argmax(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("argmax" if "argmax" in c.target else "argmin", [a["self"]], {"keepdim": a["keepdim"], **({} if a["dim"] is None else {"dim": a["dim"]})})


@rule("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype",
      "linalg_norm.default", "frobenius_norm.dim")
def vector_norm(c: Any, a: Dict[str, Any]) -> Any:
    order = a.get("ord", a.get("p"))
    along = len(c.shape(a["self"])) if not a.get("dim") else len(a["dim"]) if isinstance(a["dim"], (list, tuple)) else 1
    if "linalg_norm" in c.target and order is not None and along != 1:
        raise NoRule(f"of matrices, of order {order}: want torch.linalg.vector_norm, or no order")
    order = 2 if order is None else order
    if order not in (0, 1, 2, math.inf, -math.inf):
        return powers(c, c.cast(a["self"], a.get("dtype")), order, a.get("dim"), bool(a.get("keepdim")))
    attributes = {"ord": {math.inf: "inf", -math.inf: "-inf"}.get(order, order)}
    if a.get("dim"):
        attributes["dim"] = a["dim"]
    if a.get("keepdim"):
        attributes["keepdim"] = True
    return c.emit("linalg_vector_norm", [c.cast(a["self"], a.get("dtype"))], attributes)


def powers(c: Any, x: Any, order: float, dim: Any, keepdim: bool) -> Any:
    """The root of the sum of powers, which is the norm of another order."""
    shape, dtype = c.shape(x), c.dtype(x)
    size = c.emit("abs", [x], {}, part="magnitude", types=[(shape, dtype)])
    power = c.emit("pow", [size], {"other": float(order)}, part="power", types=[(shape, dtype)])
    along = {**({} if not dim else {"dim": dim}), **({"keepdim": True} if keepdim else {})}
    whole = c.emit("sum", [power], along, part="sum", types=[(c.result_shape(), dtype)])
    return c.emit("pow", [whole], {"other": 1 / order})


@rule("diagonal.default")
def diagonal(c: Any, a: Dict[str, Any]) -> Any:
    """Numbers of a matrix in one axis, of which each row has one."""
    x, shape, dtype = a["self"], c.shape(a["self"]), c.dtype(a["self"])
    one, other = a["dim1"] % len(shape), a["dim2"] % len(shape)
    order = [k for k in range(len(shape)) if k not in (one, other)] + [one, other]
    if order != sorted(order):
        x = c.emit("permute", [x], {"dims": order}, part="last", types=[([shape[k] for k in order], dtype)])
    *batch, n, m = (shape[k] for k in order)
    x = c.emit("reshape", [x], {"shape": [*batch, n * m], "allowzero": True}, part="line", types=[([*batch, n * m], dtype)])
    first = a["offset"] if a["offset"] >= 0 else -a["offset"] * m
    return c.emit("index_select", [x, first + torch.arange(c.result_shape()[-1]) * (m + 1)], {"dim": len(batch)})


@rule("trace.default")
def trace(c: Any, a: Dict[str, Any]) -> Any:
    (n, m), dtype = c.shape(a["self"]), c.dtype(a["self"])
    x = c.emit("reshape", [a["self"]], {"shape": [n * m]}, part="line", types=[([n * m], dtype)])
    x = c.emit("index_select", [x, torch.arange(min(n, m)) * (m + 1)], {"dim": 0}, part="diagonal", types=[([min(n, m)], dtype)])
    return c.emit("sum", [x], {})


same("cumsum", "self", "dim")


@rule("logaddexp.default")
def logaddexp(c: Any, a: Dict[str, Any]) -> Any:
    """ln(e^a + e^b) is one function of the two, which logsumexp has."""
    return c.emit("logsumexp", [beside(c, a["self"], a["other"])], {"dim": [-1]})


@rule("hypot.default")
def hypot(c: Any, a: Dict[str, Any]) -> Any:
    """The length of (a, b)."""
    return c.emit("linalg_vector_norm", [beside(c, a["self"], a["other"])], {"ord": 2, "dim": [-1]})


def beside(c: Any, *of: Any) -> Any:
    """Numbers of several tensors in a last axis."""
    shape = [int(n) for n in c.result().shape]
    wide = lambda k, t: t if c.shape(t) == shape else c.emit("expand", [t], {"size": shape}, part=f"spread{k}")
    return c.emit("stack", [wide(k, t) for k, t in enumerate(of)], {"dim": -1}, part="beside", types=[([*shape, len(of)], c.result().dtype)])


@rule("topk.default")
def topk(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("topk", [a["self"]], {k: a[k] for k in ("k", "dim", "largest", "sorted")}, outputs=2)


def in_order(a: Dict[str, Any]) -> Dict[str, Any]:
    """The attributes of a sort. It says that it is stable only where that was asked for: else any of equal numbers may be first."""
    return {k: a[k] for k in ("dim", "descending", "stable") if k != "stable" or a.get(k)}


@rule("sort.default", "sort.stable")
def sort(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("sort", [a["self"]], in_order(a), outputs=2)


@rule("argsort.default", "argsort.stable")
def argsort(c: Any, a: Dict[str, Any]) -> Any:
    """The second output of a sort."""
    shape = c.shape(a["self"])
    types = [(shape, c.dtype(a["self"])), (shape, torch.int64)]
    return c.emit("sort", [a["self"]], in_order(a), outputs=2, types=types)[1]


# Shapes.
for name in ("view.default", "reshape.default", "_unsafe_view.default", "view_as.default", "reshape_as.default", "unflatten.int", "flatten.using_ints", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default"):

    @rule(name)
    def reshape(c: Any, a: Dict[str, Any]) -> Any:
        return c.emit("reshape", [a["self"]], {"shape": c.result_shape(), "allowzero": True})


same("transpose", "self", "dim0 dim1", "transpose.int", "swapdims.default")
same("transpose", "self", "dim0=axis0 dim1=axis1", "swapaxes.default")
same("permute", "self", "dims")


@rule("t.default", "numpy_T.default", "adjoint.default", "mT.default", "matrix_H.default")
def transposed(c: Any, a: Dict[str, Any]) -> Any:
    rank = len(c.shape(a["self"]))
    return a["self"] if rank < 2 else c.emit("transpose", [a["self"]], {"dim0": rank - 2, "dim1": rank - 1})


@rule("movedim.int", "movedim.intlist")
def movedim(c: Any, a: Dict[str, Any]) -> Any:
    order = torch.movedim(torch.empty([1] * 0 + list(range(2, 2 + len(c.shape(a["self"])))), device="meta"), a["source"], a["destination"]).shape
    return c.emit("permute", [a["self"]], {"dims": [d - 2 for d in order]})


@rule("expand.default", "expand_as.default", "broadcast_to.default")
def expand(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("expand", [a["self"]], {"size": c.result_shape()})


@rule("broadcast_tensors.default")
def broadcast_tensors(c: Any, a: Dict[str, Any]) -> Any:
    shape = [int(d) for d in c.result()[0].shape]
    return tuple(t if c.shape(t) == shape else c.emit("expand", [t], {"size": shape}, part=str(k), types=[(shape, c.dtype(t))]) for k, t in enumerate(a["tensors"]))


@rule("meshgrid.default", "meshgrid.indexing")
def meshgrid(c: Any, a: Dict[str, Any]) -> Any:
    made = []
    for k, (t, val) in enumerate(zip(a["tensors"], c.result())):
        shape = [int(n) for n in val.shape]
        axis = 1 - k if a.get("indexing") == "xy" and k < 2 <= len(shape) else k
        line = c.emit("reshape", [t], {"shape": [-1 if i == axis else 1 for i in range(len(shape))]}, part=f"line{k}",
                      types=[([n if i == axis else 1 for i, n in enumerate(shape)], c.dtype(t))])
        made.append(c.emit("expand", [line], {"size": shape}, part=str(k)))
    return tuple(made)


@rule("outer.default", "ger.default")
def outer(c: Any, a: Dict[str, Any]) -> Any:
    n = c.shape(a["self"])[0]
    column = c.emit("reshape", [a["self"]], {"shape": [n, 1], "allowzero": True}, part="column")
    return c.emit("mul", [column, a["vec2"]], {})


def selected(c: Any, x: Any, axis: int, index: torch.Tensor, part: str) -> Any:
    shape = [len(index) if i == axis else n for i, n in enumerate(c.shape(x))]
    return c.emit("index_select", [x, index], {"dim": axis}, part=part, types=[(shape, c.dtype(x))])


@rule("unfold.default")
def unfold(c: Any, a: Dict[str, Any]) -> Any:
    """Windows along an axis, whose places come last."""
    x, size, step = a["self"], a["size"], a["step"]
    axis = a["dimension"] % len(c.shape(x))
    shape = c.result_shape()
    at = torch.arange(shape[axis])[:, None] * step + torch.arange(size)
    windows = selected(c, x, axis, at.flatten(), "windows")
    apart = c.emit("reshape", [windows], {"shape": [*shape[: axis + 1], size, *shape[axis + 1 : -1]]}, part="apart")
    rank = len(shape)
    return c.emit("permute", [apart], {"dims": [*range(axis + 1), *range(axis + 2, rank), axis + 1]})


WINDOW = ("kernel_size", "dilation", "padding", "stride")


def places(n: int, kernel: int, dilation: int, padding: int, stride: int) -> torch.Tensor:
    """Where the windows of a padded line of n numbers begin, from each place of a kernel on: [kernel, windows]."""
    count = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return torch.arange(kernel)[:, None] * dilation + torch.arange(count) * stride


@rule("im2col.default")
def im2col(c: Any, a: Dict[str, Any]) -> Any:
    x = a["self"]
    *batch, h, w = c.shape(x)
    rows, columns = (places(n, *(a[k][i] for k in WINDOW)) for i, n in enumerate((h, w)))
    by = [0] * len(batch) + list(a["padding"])
    if any(a["padding"]):
        padded = [*batch, h + 2 * by[-2], w + 2 * by[-1]]
        along = {"before": by, "after": by, "mode": "constant", "value": 0.0}
        x = c.emit("pad", [x], along, part="padded", types=[(padded, c.dtype(x))])
    x = selected(c, x, len(batch), rows.flatten(), "rows")
    x = selected(c, x, len(batch) + 1, columns.flatten(), "columns")
    x = c.emit("reshape", [x], {"shape": [*batch, *rows.shape, *columns.shape]}, part="apart")
    k = len(batch)
    order = [*range(k), k, k + 2, k + 1, k + 3]
    x = c.emit("permute", [x], {"dims": order}, part="windows", types=[([c.shape(x)[d] for d in order], c.dtype(x))])
    return c.emit("reshape", [x], {"shape": c.result_shape()})


@rule("col2im.default")
def col2im(c: Any, a: Dict[str, Any]) -> Any:
    """The sum of what lies over each pixel: exact, and rounded once."""
    x, (h, w) = a["self"], a["output_size"]
    rows, columns = (places(n, *(a[k][i] for k in WINDOW)) for i, n in enumerate((h, w)))
    high, wide = h + 2 * a["padding"][0], w + 2 * a["padding"][1]
    at = (rows[:, None, :, None] * wide + columns[None, :, None, :]).flatten()
    *batch, channels, _, _ = c.result_shape()
    flat = c.emit("reshape", [x], {"shape": [*batch, channels, len(at)]}, part="windows")
    dtype, axis = c.dtype(x), len(batch) + 1
    zero = torch.zeros([*batch, channels, high * wide], dtype=dtype)
    whole = c.emit("index_add", [zero, at, flat], {"dim": axis}, part="sum", types=[(list(zero.shape), dtype)])
    whole = c.emit("reshape", [whole], {"shape": [*batch, channels, high, wide]}, part="image")
    start = list(a["padding"])
    return c.emit("slice", [whole], {"dim": [axis, axis + 1], "start": start, "end": [start[0] + h, start[1] + w]})


same("repeat", "self", "repeats")
same("repeat", "self", "repeats=dims", "tile.default")
same("repeat_interleave", "self", "repeats dim", "repeat_interleave.self_int")
same("flip", "self", "dims")
same("roll", "self", "shifts dims")
same("tril", "self", "diagonal")
same("triu", "self", "diagonal")
same("select", "self", "dim index", "select.int")


@rule("slice.Tensor")
def slice_(c: Any, a: Dict[str, Any]) -> Any:
    attributes = {"dim": [a["dim"]], "step": [a["step"]], "start": [a["start"] or 0]}
    if a["end"] is not None:
        attributes["end"] = [min(a["end"], 1 << 40)]
    return c.emit("slice", [a["self"]], attributes)


@rule("narrow.default")
def narrow(c: Any, a: Dict[str, Any]) -> Any:
    start = a["start"] + (c.shape(a["self"])[a["dim"]] if a["start"] < 0 else 0)
    return c.emit("slice", [a["self"]], {"dim": [a["dim"]], "start": [start], "end": [start + a["length"]]})


def put(c: Any, x: Any, src: Any, dim: int, start: int, end: int) -> Any:
    """x with src from start to before end along an axis: what is before, src, and what is after."""
    n = c.shape(x)[dim]
    parts = [src]
    if start > 0:
        parts.insert(0, c.emit("slice", [x], {"dim": [dim], "start": [0], "end": [start]}, part="before"))
    if end < n:
        parts.append(c.emit("slice", [x], {"dim": [dim], "start": [end], "end": [n]}, part="after"))
    return c.emit("cat", parts, {"dim": dim}) if len(parts) > 1 else src


@rule("slice_scatter.default")
def slice_scatter(c: Any, a: Dict[str, Any]) -> Any:
    if a["step"] != 1:
        raise NoRule("with a step: want x[a:b] = y")
    n = c.shape(a["self"])[a["dim"]]
    start, end, _ = slice(a["start"], a["end"]).indices(n)
    return put(c, a["self"], a["src"], a["dim"], start, max(end, start))


@rule("select_scatter.default")
def select_scatter(c: Any, a: Dict[str, Any]) -> Any:
    at = a["index"] % c.shape(a["self"])[a["dim"]]
    shape = [1 if i == a["dim"] % len(c.shape(a["self"])) else d for i, d in enumerate(c.shape(a["self"]))]
    return put(c, a["self"], c.emit("reshape", [a["src"]], {"shape": shape, "allowzero": True}, part="row"), a["dim"], at, at + 1)


@rule("copy.default", "fill.Tensor", "fill.Scalar", "zero.default")
def copy(c: Any, a: Dict[str, Any]) -> Any:
    src = c.as_tensor(a["src"] if "src" in a else a.get("value", 0), c.dtype(a["self"]))
    src = c.cast(src, c.dtype(a["self"]))
    return src if c.shape(src) == c.shape(a["self"]) else c.emit("expand", [src], {"size": c.result_shape()})


@rule("cat.default", "concat.default", "concatenate.default", "stack.default")
def cat(c: Any, a: Dict[str, Any]) -> Any:
    op = "stack" if "stack" in c.target else "cat"
    of = [t for t in a["tensors"] if c.shape(t) != [0]] or list(a["tensors"])[:1]  # ATen passes over empty lines
    return c.emit(op, of, {"dim": a["dim"]})


@rule("split.Tensor", "unsafe_split.Tensor", "split_with_sizes.default", "split.sizes", "chunk.default", "unbind.int", "tensor_split.sections")
def split(c: Any, a: Dict[str, Any]) -> Any:
    n = len(c.result())
    if "unbind" in c.target:
        y = c.emit("unbind", [a["self"]], {"dim": a["dim"]}, outputs=n)
        return y if n > 1 else (y,)
    sizes = [t.shape[a["dim"]] for t in c.result()]
    y = c.emit("split", [a["self"]], {"split_size": sizes, "dim": a["dim"]}, outputs=n)
    return y if n > 1 else (y,)


@rule("pad.default", "constant_pad_nd.default", "reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default", "replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def pad(c: Any, a: Dict[str, Any]) -> Any:
    by = a["pad"] if "pad" in a else a["padding"]
    mode = a.get("mode") or ("reflect" if "reflection" in c.target else "replicate" if "replication" in c.target else "constant")
    return c.emit("pad", [a["self"]], {"before": list(by[0::2])[::-1], "after": list(by[1::2])[::-1], "mode": mode, "value": float(a.get("value") or 0)})


# What takes and puts numbers where an index says.
@rule("index.Tensor")
def index(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("index", *c.placed(a["self"], a["indices"]))


@rule("index_put.default")
def index_put(c: Any, a: Dict[str, Any]) -> Any:
    (x, *of), _ = c.placed(a["self"], a["indices"])
    return c.emit("index_put", [x, *of, a["values"]], {"accumulate": a["accumulate"]})


same("index_select", "self index", "dim")
same("gather", "self index", "dim")
same("scatter", "self index src", "dim", "scatter.src")
same("scatter_add", "self index src", "dim")


# The most factors that are laid out for products at places.
FACTORS = 1 << 24


@rule("scatter_reduce.two", "index_reduce.default")
def scatter_reduce(c: Any, a: Dict[str, Any]) -> Any:
    x, index, src = a["self"], a["index"], a.get("src", a.get("source"))
    if a["reduce"] == "prod":
        return multiplied(c, x, index, src, a["dim"] % max(1, len(c.shape(x))), a["include_self"])
    return c.emit("index_reduce" if "index" in c.target else "scatter_reduce", [x, index, src], {k: a[k] for k in ("dim", "reduce", "include_self")})


def multiplied(c: Any, x: Any, index: Any, src: Any, axis: int, include: bool) -> Any:
    """Products of what comes to each place: of all numbers along the axis, with ones in place of those that go elsewhere."""
    shape, dtype, given = c.shape(x), c.dtype(x), c.shape(index)
    by_place = len(given) == len(shape) and "index" not in c.target
    n, m = given[axis] if by_place else given[0], shape[axis]
    before, behind = shape[:axis], shape[axis + 1 :]
    if [*before, n, *behind] != c.shape(src) or by_place and given != c.shape(src):
        raise NoRule("a product of parts of the numbers: want an index and numbers of one shape, and of the input's but for dim")
    if n * m * math.prod(before) * math.prod(behind) > FACTORS:
        raise NoRule(f"a product of {n} numbers to each of {m} places: want fewer")
    apart = [*before, n, 1, *behind] if by_place else [*[1] * axis, n, 1, *[1] * len(behind)]
    whole = [*before, n, m, *behind]
    index = c.emit("reshape", [index], {"shape": apart, "allowzero": True}, part="index", types=[(apart, torch.int64)])
    places = torch.arange(m).reshape([1] * (axis + 1) + [m] + [1] * len(behind))
    here = c.emit("eq", [index, places], {}, part="here", types=[([*apart[: axis + 1], m, *apart[axis + 2 :]], torch.bool)])
    src = c.emit("reshape", [src], {"shape": [*before, n, 1, *behind], "allowzero": True}, part="numbers", types=[([*before, n, 1, *behind], dtype)])
    factors = c.emit("where", [here, src, torch.ones((), dtype=dtype)], {}, part="factors", types=[(whole, dtype)])
    old = c.emit("reshape", [x], {"shape": [*before, 1, m, *behind], "allowzero": True}, part="old", types=[([*before, 1, m, *behind], dtype)])
    if include:
        factors = c.emit("cat", [old, factors], {"dim": axis}, part="all", types=[([*before, n + 1, m, *behind], dtype)])
        return c.emit("prod", [factors], {"dim": axis})
    some = c.emit("any", [here], {"dim": axis}, part="some", types=[([*apart[:axis], m, *apart[axis + 2 :]], torch.bool)])
    product = c.emit("prod", [factors], {"dim": axis}, part="product", types=[(shape, dtype)])
    return c.emit("where", [some, product, x], {})




@rule("index_add.default")
def index_add(c: Any, a: Dict[str, Any]) -> Any:
    src = a["source"] if a["alpha"] == 1 else c.emit("mul", [a["source"]], {"other": a["alpha"]}, part="alpha")
    return c.emit("index_add", [a["self"], a["index"], src], {"dim": a["dim"]})


@rule("bincount.default")
def bincount(c: Any, a: Dict[str, Any]) -> Any:
    """How often each number is there, or the sum of its weights."""
    x, w, least = a["self"], a["weights"], a["minlength"]
    if not least:
        raise NoRule("a size that depends on numbers: want minlength, of more than the greatest number")
    dtype = torch.int64 if w is None else torch.float32 if c.dtype(w) == torch.float32 else torch.float64
    each = torch.ones(c.shape(x), dtype=dtype) if w is None else c.cast(w, dtype)
    return c.emit("index_add", [torch.zeros(least, dtype=dtype), x, each], {"dim": 0}, types=[([least], dtype)])


@rule("scatter.value")
def scatter_value(c: Any, a: Dict[str, Any]) -> Any:
    src = torch.full(c.shape(a["index"]), a["value"], dtype=c.dtype(a["self"]))
    return c.emit("scatter", [a["self"], a["index"], src], {"dim": a["dim"]})


@rule("embedding.default")
def embedding(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("embedding", [a["weight"], a["indices"]], {})


@rule("embedding_bag.padding_idx", "embedding_bag.default", "_embedding_bag_forward_only.default", "_embedding_bag.default")
def embedding_bag(c: Any, a: Dict[str, Any]) -> Any:
    """Bags of one size are sums of rows, which are judged; others are one operation."""
    mode, table, index, begin = ("sum", "mean", "max")[a["mode"]], a["weight"], a["indices"], a["offsets"]
    factors, padding, last = a.get("per_sample_weights"), a.get("padding_idx"), bool(a.get("include_last_offset"))
    if padding is not None and padding < 0:  # ATen's way to say none
        padding = None
    count, width = c.shape(index)[0], c.shape(table)[1]
    bags = c.shape(begin)[0] - last
    size = count // bags if bags else 0
    even = isinstance(begin, torch.Tensor) and size > 0 and begin[:bags].tolist() == list(range(0, count, size)) and bags * size == count
    if even and mode != "max" and factors is None and padding is None:
        rows = c.emit("embedding", [table, index], {}, part="rows", types=[([count, width], c.dtype(table))])
        apart = c.emit("reshape", [rows], {"shape": [bags, size, width], "allowzero": True}, part="bags")
        return c.emit(mode, [apart], {"dim": [1]}), None, None, None
    attributes = {"mode": mode, "include_last_offset": last, **({} if padding is None else {"padding_idx": padding})}
    return c.emit("embedding_bag", [table, index, begin] + ([] if factors is None else [factors]), attributes), None, None, None


@rule("cdist.default", "_cdist_forward.default")
def cdist(c: Any, a: Dict[str, Any]) -> Any:
    """Euclidean distances from differences or, of more than 25 points, from products, as PyTorch has them."""
    x, y, mode = a["x1"], a["x2"], a.get("compute_mode")
    (*batch, p, m), (*other, r, _) = c.shape(x), c.shape(y)
    order = a.get("p", 2)
    if order == 2 and (mode == 1 or mode in (None, 0) and max(p, r) > 25):
        dtype = c.dtype(x)

        def side(v: Any, name: str, first: bool) -> Any:
            shape = c.shape(v)
            squares = c.emit("square", [v], {}, part=f"{name} squared")
            norm = c.emit("sum", [squares], {"dim": [-1], "keepdim": True}, part=f"{name} norm", types=[([*shape[:-1], 1], dtype)])
            parts = [c.emit("mul", [v], {"other": -2.0}, part=f"{name} twice"), norm] if first else [v]
            parts.append(torch.ones(*shape[:-1], 1, dtype=dtype))
            return c.emit("cat", parts if first else [*parts, norm], {"dim": -1}, part=name, types=[([*shape[:-1], m + 2], dtype)])

        turned = side(y, "other", False)
        turned = c.emit("transpose", [turned], {"dim0": -2, "dim1": -1}, part="turned", types=[([*other, m + 2, r], dtype)])
        squared = c.emit("matmul", [side(x, "one", True), turned], {}, part="squared", types=[(c.result_shape(), dtype)])
        return c.emit("sqrt", [c.emit("clamp", [squared], {"min": 0.0}, part="positive")], {})
    one = c.emit("reshape", [x], {"shape": [*batch, p, 1, m], "allowzero": True}, part="one")
    two = c.emit("reshape", [y], {"shape": [*other, 1, r, m], "allowzero": True}, part="other")
    apart = c.emit("sub", [one, two], {}, part="difference")
    if order not in (0, 1, 2, math.inf):
        return powers(c, apart, order, [-1], False)
    return c.emit("linalg_vector_norm", [apart], {"ord": "inf" if order == math.inf else order, "dim": [-1]})


@rule("one_hot.default")
def one_hot(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("one_hot", [a["self"]], {"num_classes": c.result_shape()[-1]})


# What changes nothing, or the type only.
@rule("lift_fresh_copy.default", "lift_fresh.default", "view.dtype", "positive.default")
def hand_on(c: Any, a: Dict[str, Any]) -> Any:
    if a.get("dtype") is not None and a["dtype"] != c.dtype(a["self"]):
        raise NoRule("the bits of numbers as another type: want .to(dtype)")
    return a["self"]


@rule("_assert_scalar.default", "_assert_async.default", "_assert_async.msg")
def claim(c: Any, a: Dict[str, Any]) -> Any:
    return None


# What is drawn at random.
@rule(*(f"{name}.{form}" for name, forms in {
    "rand": "default", "randn": "default", "rand_like": "default", "randn_like": "default", "randint": "default low", "randint_like": "default low_dtype",
    "randperm": "default", "multinomial": "default", "normal": "float_float Tensor_Tensor Tensor_float float_Tensor", "normal_functional": "default",
    "bernoulli": "default p Tensor", "uniform": "default", "exponential": "default"}.items() for form in forms.split()))
def drawn(c: Any, a: Dict[str, Any]) -> Any:
    return c.draw(c.result_shape(), c.dtype_of_result())


@rule("dropout.default", "feature_dropout.default", "alpha_dropout.default", "feature_alpha_dropout.default", "native_dropout.default")
def dropout(c: Any, a: Dict[str, Any]) -> Any:
    """Active, it is a product with what was drawn, 0 or 1, over the chance of a 1."""
    several = "native" in c.target
    x, p = a["input"], a["p"]
    if not a["train"] or not p:
        return (x, None) if several else x
    if "alpha" in c.target or p == 1:
        raise NoRule("that is active: want module.eval()")
    shape, dtype = c.shape(x), c.dtype(x)
    if "feature" in c.target:
        shape = [*shape[:2], *[1] * (len(shape) - 2)]
    drawn = c.draw(shape, dtype)
    scaled = c.emit("div", [drawn], {"other": 1 - p}, part="scaled")
    y = c.emit("mul", [x, scaled], {}, types=[(c.shape(x), dtype)])
    return (y, drawn) if several else y


@rule("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "type_as.default", "to.other")
def to(c: Any, a: Dict[str, Any]) -> Any:
    return c.cast(a["self"], c.result().dtype)


def way_out(target: str) -> Optional[str]:
    """What would do in place of an operation without a rule, where it is known."""
    name = target.split(".")[1] if "." in target else target
    known = {
        "rand": "random numbers: want them as an input, or a step that refrun.record calls",
        "bernoulli": "random numbers: want them as an input",
        "normal": "random numbers: want them as an input",
        "uniform": "random numbers: want them as an input",
        "exponential": "random numbers: want them as an input",
        "multinomial": "random numbers: want them as an input",
        "dropout": "that is active: want module.eval()",
        "nonzero": "a size that depends on numbers: want a mask and where",
        "masked_select": "a size that depends on numbers: want a mask and where",
        "unique": "a size that depends on numbers: want what it returns as an input",
    }
    for part, text in known.items():
        if part in name:
            return text
    return None
