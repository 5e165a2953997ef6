"""Operations that torch composes of others in C++, composed here in Python."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


def bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x_i W_kij y_j, in two products."""
    out = torch.einsum("...kj,...j->...k", torch.einsum("...i,kij->...kj", x, weight), y)
    return out if bias is None else out + bias


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """v, with g as its norm along all axes but one."""
    others = [d for d in range(v.dim()) if d != dim]
    scale: Tensor = g / torch.linalg.vector_norm(v, 2, others, keepdim=True)
    return v * scale


def rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Tensor:
    """In evaluation the slope is the mean of those that training draws from."""
    if training:
        raise NotImplementedError("rrelu draws its slopes in training: want evaluation mode")
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many numbers lie in each of so many parts of a range, of which the last has its end; without a range, in that of
    all numbers."""
    x = x.flatten()
    low, high = (torch.full((), v, dtype=x.dtype) for v in (min, max)) if min != max else (x.amin(), x.amax())
    part = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    inside = (x >= low) & (x <= high)
    return ((part[:, None] == torch.arange(bins, dtype=x.dtype)) & inside[:, None]).to(x.dtype).sum(0)


def searchsorted(edges: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False, side: Optional[str] = None,
                 sorter: Optional[Tensor] = None) -> Tensor:
    """How many of the edges are less than each number, or not greater."""
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    edges, x = edges.unsqueeze(-2), x.unsqueeze(-1)
    before = edges <= x if right or side == "right" else edges < x
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def bucketize(x: Tensor, edges: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The same of one line of edges."""
    return searchsorted(edges, x.flatten(), out_int32=out_int32, right=right).reshape(x.shape)


def fake_quantize(x: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """The nearest of the numbers that the whole ones from quant_min to quant_max stand for."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    whole = (wide / scale + zero_point).round().clamp(quant_min, quant_max)
    return ((whole - zero_point) * scale).to(x.dtype)


def fake_quantize_by_channel(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Tensor:
    """The same with a scale and a zero point for each place along an axis."""
    along = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    return fake_quantize(x, scale.reshape(along), zero_point.to(scale.dtype).reshape(along), quant_min, quant_max)


DECOMPOSITIONS: Dict[Any, Callable[..., Any]] = {
    aten.bilinear.default: bilinear,
    aten._weight_norm.default: weight_norm,
    aten.rrelu.default: rrelu,
    aten.histc.default: histc,
    aten.searchsorted.Tensor: searchsorted,
    aten.bucketize.Tensor: bucketize,
    aten.fake_quantize_per_tensor_affine.default: fake_quantize,
    aten.fake_quantize_per_tensor_affine.tensor_qparams: fake_quantize,
    aten.fake_quantize_per_channel_affine.default: fake_quantize_by_channel,
}
