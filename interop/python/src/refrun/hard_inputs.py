"""Inputs that show what a kernel does, and the test that a batch changes nothing."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .case import CaseError

_ROWWISE = ("softmax", "log_softmax", "cross_entropy")
_NORMS = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")
_PRODUCTS = ("matmul", "mm", "bmm", "linear")
KINDS = ("normal", "large mean", "cancellation", "ties", "tails", "subnormal", "small variance", "integers", "ramp")


def _round(x: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers of a format, in float32."""
    x = np.asarray(x, np.float32)
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":  # to nearest, ties to even
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    if dtype != "float32":
        raise CaseError(f"dtype: {dtype!r}: want float32, float16 or bfloat16")
    return x


def _numbers(kind: str, shape: Sequence[int], r: np.random.Generator, dtype: str) -> np.ndarray:
    x = r.standard_normal(shape)
    n = shape[-1] if shape else 1
    if kind == "large mean":  # of which a one-pass variance loses everything
        x = x + 300 * (1 + np.arange(math.prod(shape[:-1])).reshape(*shape[:-1], 1) % 3)
    elif kind == "cancellation":  # neighbours that nearly cancel in a sum
        x = np.where(np.arange(n) % 2, -np.roll(x, 1, -1), x) * (1 + 0.01 * r.standard_normal(shape))
    elif kind == "ties":  # half way between two numbers of bfloat16 and of float16, where products are
        x = np.sign(x) * (1 + 2.0 ** -np.where(np.arange(n) % 2, 7, 10) * r.integers(0, 8, shape))
    elif kind == "tails":  # a few numbers far out: maxima that matter, exps that vanish
        x = np.where(r.random(shape) < 0.05, 20 * x, x)
    elif kind == "subnormal":
        x = x * {"float16": 2.0**-16, "bfloat16": 2.0**-130, "float32": 2.0**-130}[dtype]
    elif kind == "small variance":  # where eps is as large as the variance
        x = 2.0**-8 * x
    elif kind == "integers":  # all sums are exact
        x = r.integers(-4, 5, shape).astype(np.float64)
    elif kind == "ramp":  # each place has a number of its own: what is moved is seen
        x = (np.arange(math.prod(shape)).reshape(shape) % 127 - 63) / 64
    return _round(x, dtype)


def _shapes(op: str, shape: Sequence[int], attributes: Mapping[str, Any]) -> Dict[str, Tuple[int, ...]]:
    shape = tuple(shape)
    channels = (shape[1],) if len(shape) > 1 else (shape[0],)
    if op in ("layer_norm", "rms_norm"):
        of = tuple(attributes.get("normalized_shape", shape[-1:]))
        return {"input": shape, "weight": of, **({"bias": of} if op == "layer_norm" else {})}
    if op in _NORMS:
        return {"input": shape, "weight": channels, "bias": channels}
    if op in ("matmul", "mm", "bmm"):  # shape is [..., M, K, N]
        if len(shape) < 3:
            raise CaseError(f"shape: {shape}: want M, K, N of {op}, with batches before them")
        *batch, m, k, n = shape
        return {"input": (*batch, m, k), ("mat2" if op != "matmul" else "other"): (*batch, k, n)}
    if op == "linear":
        *rows, k, n = shape
        return {"input": (*rows, k), "weight": (n, k), "bias": (n,)}
    if op == "scaled_dot_product_attention":
        return {name: shape for name in ("query", "key", "value")}
    if op == "conv2d":
        out, k = attributes.get("out_channels", 8), attributes.get("kernel_size", 3)
        return {"input": shape, "weight": (out, shape[1], k, k), "bias": (out,)}
    if op in ("swiglu", "geglu"):
        return {"gate": shape, "up": shape}
    if op in ("add", "sub", "mul", "div"):
        return {"input": shape, "other": shape}
    return {"input": shape}


def kernel_inputs(op: str, shape: Sequence[int], dtype: str = "float32", *, kinds: Optional[Sequence[str]] = None, seed: int = 0, torch: bool = False,
                  **attributes: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Inputs of an operation that show what ordinary ones do not, as pairs of a name and the tensors by ATen's names.

        for kind, inputs in refrun.kernel_inputs("layer_norm", (64, 1000), "bfloat16", torch=True):
            refrun.assert_kernel("layer_norm", inputs, my_kernel(**inputs), normalized_shape=[1000])

    shape is that of the input; of a matrix product [..., M, K, N], of linear [..., K, N]. Sizes that are no
    multiple of a tile, such as 1000 or 77, have a last partial tile, which is where masks go wrong.

    kinds are some of: normal; large mean; cancellation; ties; tails; subnormal; small variance; integers and
    ramp, of which sums are exact in every order, so that each bit is known. Of a matrix product there is
    also "order": one sum of 1s with a large number and its opposite, at places that tell in which order, and
    with how many bits, the kernel adds (FPRev, USENIX ATC 2025). The numbers are float32 arrays that the format holds; with torch=True tensors of it.
    """
    r = np.random.default_rng(seed)
    shapes = _shapes(op, shape, attributes)
    chosen = list(kinds if kinds is not None else KINDS)
    if kinds is None and op in ("matmul", "mm", "linear"):
        chosen.append("order")
    for kind in chosen:
        if kind not in KINDS + ("order",):
            raise CaseError(f"kinds: {kind!r}: want some of {', '.join(KINDS)}, order")
        if kind == "order":
            tensors = _order(op, shapes, dtype)
        else:
            tensors = {name: _numbers(kind if i == 0 or op in _PRODUCTS + ("scaled_dot_product_attention",) else "normal", s, r, dtype) for i, (name, s) in enumerate(shapes.items())}
            if op in _NORMS:
                tensors["weight"] = _round(1 + 0.25 * tensors["weight"], dtype)
        if op == "cross_entropy":
            target = r.integers(0, shape[1], shape[0])
            target[::7] = attributes.get("ignore_index", -100)
            tensors["target"] = target
        yield kind, {k: _torch(v, dtype) if torch else v for k, v in tensors.items()}


def _order(op: str, shapes: Mapping[str, Tuple[int, ...]], dtype: str) -> Dict[str, np.ndarray]:
    """Each row has M at one place of k and -M at another, and 1 elsewhere: the ones that survive say which were added before both."""
    (a, left), (b, right), *rest = shapes.items()
    k = left[-1]
    most = {"float16": 2.0**15, "bfloat16": 2.0**30, "float32": 2.0**30}[dtype]
    rows = math.prod(left[:-1])
    x = np.ones((rows, k), np.float32)
    pairs = [(i, j) for j in range(1, k) for i in (0, j // 2, j - 1) if i < j]
    for row in range(rows):
        i, j = pairs[row * len(pairs) // max(1, rows) % len(pairs)] if pairs else (0, 0)
        x[row, i], x[row, j] = most, -most
    y = np.ones(right, np.float32)
    columns = right[-1] if op != "linear" else right[0]
    scale = 2.0 ** -(np.arange(columns) % 4)  # which moves no digit
    y = y * (scale[:, None] if op == "linear" else scale)
    return {a: x.reshape(left), b: y.astype(np.float32), **{name: np.zeros(s, np.float32) for name, s in rest}}


def _torch(value: np.ndarray, dtype: str) -> Any:
    import torch

    t = torch.from_numpy(np.ascontiguousarray(value))
    return t.to(getattr(torch, dtype)) if t.is_floating_point() else t


def _bits(value: Any) -> np.ndarray:
    """An array whose elements are equal if the numbers' bits are."""
    if hasattr(value, "detach"):
        import torch

        value = value.detach().cpu().contiguous()
        size = value.element_size()
        return value.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).numpy() if value.dtype.is_floating_point else value.numpy()
    value = np.ascontiguousarray(np.asarray(value))
    if value.dtype.kind in "biu":
        return value
    return value.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[value.dtype.itemsize])


def _take(value: Any, index: Sequence[int], dim: int) -> Any:
    at = [slice(None)] * value.ndim
    at[dim] = list(index)
    return value[tuple(at)]


def assert_invariant(f: Callable[..., Any], inputs: Sequence[Any], batch_dim: int = 0, *, output_dim: Optional[int] = None) -> None:
    """AssertionError unless f gives each item of a batch the same bits whatever else is in the batch.

    f is called with the inputs (those that have the batch's size along batch_dim are cut; others are handed on)
    as a whole, twice; item by item; in batches of 2, 3, 4, ... up to all; in reverse; and with one item
    repeated. The error says which bit is the first that differs, and in which call. output_dim is the batch's
    axis in the output, batch_dim by default. Torch tensors on any device, JAX and numpy arrays.
    """
    __tracebackhide__ = True
    inputs = list(inputs)
    if not inputs or not hasattr(inputs[0], "shape") or not -inputs[0].ndim <= batch_dim < inputs[0].ndim:
        raise CaseError("inputs: want arrays, the first with the batch's axis")
    size = inputs[0].shape[batch_dim]
    out = batch_dim if output_dim is None else output_dim
    has = [hasattr(v, "ndim") and -v.ndim <= batch_dim < v.ndim and v.shape[batch_dim] == size for v in inputs]

    def call(index: Sequence[int]) -> np.ndarray:
        return np.moveaxis(_bits(f(*(_take(v, index, batch_dim) if h else v for v, h in zip(inputs, has)))), out, 0)

    everything = list(range(size))
    whole = call(everything)
    if whole.shape[0] != size:
        raise CaseError(f"output: {whole.shape[0]} along axis {out}: want {size}, as the inputs have")
    calls: List[Tuple[str, List[int]]] = [("called again", everything)]
    calls += [(f"item {i} alone", [i]) for i in everything]
    n = 2
    while n < size:
        calls.append((f"the first {n} alone", everything[:n]))
        calls.append((f"the last {n} alone", everything[-n:]))
        n += 1 if n < 4 else n // 2
    calls += [("in reverse", everything[::-1]), ("padded with its first item", everything + [0] * 3), ("item 0 repeated", [0] * size)]
    for what, index in calls:
        got = call(index)
        for place, item in enumerate(index):
            differ = np.argwhere(np.atleast_1d(got[place] != whole[item]))
            if len(differ):
                where = ", ".join(map(str, np.atleast_1d(differ[0])))
                raise AssertionError(f"not the same whatever the batch: {what}, item {item} differs from the whole batch of {size}\n"
                                     f"in {len(differ)} of {got[place].size} numbers, first at [{where}] of the item")
