"""Correct devices: what hardware and libraries do differently and may.

Each is a set of Kernels by name, with the modes in which it is legal. None may be
flagged. The first of a mode is its plain device, which faults are put into.
"""

import numpy as np

from device import POINTS, Kernels

ALL = ("float32", "tf32", "float16", "bfloat16")
HALF = ("float16", "bfloat16")


def without(*points):
    return POINTS - frozenset(points)


VARIANTS = {name: (Kernels(**k), modes, need) for name, k, modes, need in [
    ("sequential", dict(), ALL, {}),
    ("reverse", dict(order="reverse"), ALL, {}),
    ("pairwise", dict(order="pairwise"), ALL, {}),
    ("split2", dict(order="split2"), ALL, {}),
    ("split4", dict(order="split4"), ALL, {}),
    ("split8", dict(order="split8"), ALL, {}),
    ("nhwc", dict(order="nhwc"), ALL, {}),
    ("fma", dict(order="fma", fuse=True), ("float32",), {}),
    ("nhwc-fma", dict(order="nhwc-fma", fuse=True, affine="folded"), ("float32",), {}),
    ("tensor-core", dict(order="blocked"), ALL, {}),
    ("tensor-core-truncating", dict(order="truncated"), ("tf32",) + HALF, {}),
    ("kahan", dict(order="kahan"), ("float32",), {}),
    ("float64-sums", dict(order="wide", statistics="float64"), ALL, {}),
    ("three-tf32", dict(order="three"), ("float32",), {}),
    ("winograd2", dict(order="winograd2"), ALL, {"kernel_size": [3]}),
    ("winograd4", dict(order="winograd4"), ("float32",) + HALF, {"kernel_size": [3]}),
    ("tf32-away", dict(rounding="away"), ("tf32",), {}),
    ("tf32-truncate", dict(rounding="truncate", order="truncated"), ("tf32",), {}),
    ("one-pass", dict(statistics="one-pass"), ALL, {"normalization": ["instance", "group", "layer"]}),
    ("welford", dict(statistics="welford", root=1), ALL, {"normalization": ["instance", "group", "layer"]}),
    ("sequential-statistics", dict(statistics="sequential", root=-2), ALL, {"normalization": ["instance", "group", "layer"]}),
    ("float64-statistics", dict(statistics="float64"), ALL, {"normalization": ["instance", "group", "layer"]}),
    ("folded-affine", dict(affine="folded"), ALL, {}),
    ("vector-activation", dict(activation="kernel"), ALL, {}),
    ("cuda-activation", dict(activation="erff"), ALL, {}),
    ("activation-2ulp", dict(activation="off:2"), ALL, {}),
    ("noise-1ulp", dict(draw_ulp=1), ALL, {"noise": True}),
    ("blend-fma", dict(fuse=True), ALL, {}),
    ("flush-float32", dict(flush=True), ALL, {}),
    ("batch-folded", dict(fold=True), ("float32",), {"normalization": ["batch"]}),
    ("like-pytorch-cpu", dict(order="fma", statistics="float64", affine="folded", activation="kernel", fuse=True), ("float32",), {}),
    ("like-cuda", dict(order="truncated", statistics="welford", activation="erff", root=1, draw_ulp=1), ("tf32",) + HALF, {}),
    # Fewer roundings than eager execution: another contract, and as accurate.
    ("fused-norm-act", dict(stores=without("norm")), HALF, {}),
    ("fused-conv-norm-act", dict(stores=without("conv", "bias", "norm")), HALF, {}),
    ("fused-bias", dict(stores=without("bias")), HALF, {"normalization": ["none"], "autocast": "cuda"}),
    ("fused-noise", dict(stores=without("product")), HALF, {"noise": True}),
    ("fused-act-noise", dict(stores=without("act", "draw", "product")), HALF, {"noise": True, "num_layers": [2, 3]}),
    ("fused-act-draws", dict(stores=without("act"), draw_ulp=1), HALF, {"noise": True, "num_layers": [2, 3]}),
    ("fused-act-sum", dict(stores=without("act")), HALF, {"num_layers": [4]}),
    ("fused-norm-act-sum", dict(stores=without("norm", "act", "sum")), HALF, {"num_layers": [4]}),
    ("fused-conv-act", dict(stores=without("conv", "bias", "norm"), order="winograd2"), HALF, {"kernel_size": [3]}),
    ("fused-policy", dict(stores=without("out", "share")), HALF, {}),
    ("fused-out", dict(stores=without("out")), HALF, {"policy_type": ["convex", "residual"]}),
    ("fused-share", dict(stores=without("share")), HALF, {"policy_type": ["convex", "residual"]}),
    ("fused-pointwise", dict(stores=frozenset({"conv", "out"}), order="blocked"), HALF, {}),
    ("fused-all", dict(stores=frozenset(), order="blocked"), HALF, {}),
    # Matrix units of GPUs (cores.py).
    ("v100", dict(order="unit:v100", statistics="welford", activation="erff"), ("float16",), {}),
    ("a100", dict(order="unit:a100", statistics="welford", activation="erff"), ("tf32",) + HALF, {}),
    ("h100", dict(order="unit:h100", statistics="welford", activation="erff"), ("tf32",) + HALF, {}),
    ("mi200", dict(order="unit:mi200"), HALF, {}),
    ("mi300", dict(order="unit:mi300"), ("tf32",) + HALF, {}),
    ("a100-fused", dict(order="unit:a100", stores=without("bias", "norm", "act")), HALF, {}),
    # Compilers that drop a cast of what they have in float32, fold batch norms, or give constants the type beside them.
    ("unrounded-inputs", dict(stores=frozenset(), wide=frozenset({"state", "inner"}), order="fma"), HALF, {}),
    ("unrounded-inner", dict(stores=frozenset({"out", "share"}), wide=frozenset({"inner"}), order="nhwc"), HALF, {}),
    ("unrounded-acts", dict(stores=without("act"), wide=frozenset({"inner"})), HALF, {}),
    ("constants-half", dict(constants=True), HALF, {"noise": True}),
    ("like-xla", dict(stores=without("conv") | {"point"}, order="nhwc", apart=True, constants=True, statistics="float64"), HALF, {}),
    ("like-openvino", dict(stores=without("conv", "bias", "norm", "draw", "product", "share"), order="nhwc", fold=True), HALF,
     {"normalization": ["batch"], "noise": True}),
    ("batch-folded-half", dict(stores=without("conv", "bias"), order="fma", fold=True), HALF, {"normalization": ["batch"]}),
    ("norms-split", dict(stores=without("norm", "draw", "share"), split=True), HALF, {"normalization": ["instance", "group"], "autocast": "cpu", "num_layers": [2, 3]}),
    # A bias that is added apart where the claim adds it inside; and a model whose parameters were made half numbers.
    ("bias-apart", dict(apart=True), HALF, {"autocast": "cpu"}),
    ("bias-apart-fused", dict(apart=True, stores=without("norm", "act")), HALF, {"autocast": "cpu"}),
    ("bias-inside", dict(stores=without("bias")), HALF, {"autocast": "cuda"}),
    ("half-parameters", dict(parameters=True), HALF, {"normalization": ["instance"], "autocast": "cpu"}),
    ("fast-exp", dict(activation="fast"), ALL, {"activation": ["silu"]}),
    # Kernels that a seed draws (mixture), and starts that nobody expects (family.UNUSUAL).
    ("mixture", dict(), ALL, {}),
    ("unusual-start", dict(), ALL, {"unusual": True}),
]}
MIXED = ("mixture", "unusual-start")


def legal(name, mode):
    return mode in VARIANTS[name][1]


def of_mode(mode):
    return [n for n in VARIANTS if legal(n, mode)]


def kernels(name, mode="float32", seed=0):
    return mixture(mode, seed) if name in MIXED else VARIANTS[name][0]


def mixture(mode, seed):
    """A device put together at random of what is legal in its mode: where it stores is one of the patterns above."""
    rng = np.random.default_rng([seed, 78])
    pick = lambda *of: of[int(rng.random() * len(of))]
    half, others = mode in HALF, [VARIANTS[n][0] for n in of_mode(mode) if n not in MIXED]
    orders = sorted({k.order for k in others if not k.fold})
    stores = sorted({(k.stores, k.wide, k.apart) for k in others if not k.fold}, key=lambda s: [sorted(x) if isinstance(x, frozenset) else x for x in s])
    order, (where, wide, apart) = pick(*orders), pick(*stores)
    return Kernels(
        order=order, statistics=pick("two-pass", "one-pass", "welford", "sequential", "float64"), affine=pick("direct", "folded"),
        root=pick(0, 0, 1, -1, 2, -2), activation=pick("exact", "kernel", "erff", "off:1", "off:2"), fuse=pick(False, True),
        draw_ulp=pick(0, 0, 1), rounding=pick("even", "away") if mode == "tf32" else "even", stores=where, flush=pick(False, False, True),
        wide=wide, apart=apart, constants=half and pick(False, False, False, True))


def needs(name):
    """What the operator must be like, in family.draw's terms."""
    need = {k: v for k, v in VARIANTS[name][2].items() if k not in ("noise", "autocast")}
    if VARIANTS[name][2].get("noise"):
        need["noise_type"] = ["gaussian", "gaussian", "laplace", "multiplicative"]
    return need


# The legal devices whose single steps span what correct hardware may return.
SPREAD = {
    "float32": ("sequential", "reverse", "pairwise", "fma", "tensor-core", "float64-sums", "winograd2", "welford", "cuda-activation"),
    "tf32": ("sequential", "reverse", "pairwise", "tensor-core", "tensor-core-truncating", "float64-sums", "welford", "cuda-activation"),
    "float16": ("sequential", "reverse", "pairwise", "tensor-core", "tensor-core-truncating", "float64-sums", "welford", "cuda-activation"),
}
SPREAD["bfloat16"] = SPREAD["float16"]
