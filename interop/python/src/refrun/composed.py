"""Operations that torch composes of others in C++, composed here in Python."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

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
    part = ((x - low) * bins / (high - low)).floor().clamp(max=bins - 1)
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


# The most numbers that are laid out for what each place has of all before it.
LAID_OUT = 1 << 22


def _before(x: Tensor, dim: int, none: float) -> Tensor:
    """For each place along an axis, in an axis behind it, the numbers up to it, and none in place of those after it."""
    n = x.shape[dim]
    if n * x.numel() > LAID_OUT:
        raise NotImplementedError(f"{n} places along an axis: want fewer")
    up = torch.ones(n, n).triu().bool().reshape([n, n] + [1] * (x.dim() - dim % x.dim() - 1))
    return torch.where(up, x.unsqueeze(dim % x.dim() + 1), torch.full((), none, dtype=x.dtype))


def cummax(x: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """The greatest so far, and where it is."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    least = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return tuple(_before(x, dim, least).max(dim % x.dim()))


def cummin(x: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """The least so far, and where it is."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    most = math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
    return tuple(_before(x, dim, most).min(dim % x.dim()))


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """ln of the sum of e^x so far."""
    return _before(x, dim, -math.inf).logsumexp(dim % x.dim()) if x.dim() else x.clone()


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """Number k in ascending order, and where it is."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = x.sort(dim)
    values, places = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def median(x: Tensor) -> Tensor:
    """The lower one of two in the middle, or NaN if there is one."""
    line = x.flatten()
    return torch.where(line.isnan().any(), torch.full((), math.nan, dtype=x.dtype), line.sort()[0][(line.numel() - 1) // 2])


def median_along(x: Tensor, dim: int = -1, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """The same along an axis, and where it is."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    value, place = kthvalue(x, (x.shape[dim] - 1) // 2 + 1, dim, keepdim)
    nan = x.isnan()
    some = nan.any(dim, keepdim)
    first = nan.to(torch.int64).argmax(dim, keepdim)
    return torch.where(some, torch.full((), math.nan, dtype=x.dtype), value), torch.where(some, first, place)


def nanmedian(x: Tensor) -> Tensor:
    """The median of what is no NaN: these come last."""
    line = x.flatten()
    count = line.isnan().logical_not().sum()
    return line.sort()[0].index_select(0, ((count - 1) // 2).clamp(min=0).reshape(1)).reshape(())


def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    """How many are not 0."""
    return (x != 0).sum() if dim is None or dim == [] else (x != 0).sum(dim)


def signbit(x: Tensor) -> Tensor:
    """Whether a number is less than 0, or -0, whose reciprocal is."""
    return (x < 0) | (x == 0) & (x.reciprocal() < 0)


def copysign(x: Tensor, y: Any) -> Tensor:
    """The magnitude of x with the sign of y."""
    sign = signbit(y) if isinstance(y, torch.Tensor) else math.copysign(1, y) < 0
    if isinstance(sign, bool):
        return x.abs().neg() if sign else x.abs()
    return torch.where(sign, x.abs().neg(), x.abs())


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """One number at places along an axis."""
    n = x.shape[dim]
    here = (torch.arange(n)[:, None] == index.reshape(1, -1)).any(1).reshape([n] + [1] * (x.dim() - dim % x.dim() - 1))
    return torch.where(here, value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype), x)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Slices at places along an axis."""
    return x.movedim(dim, 0).index_put((index,), source.movedim(dim, 0)).movedim(0, dim)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The numbers of source, in order, where the mask is."""
    mask, x = torch.broadcast_tensors(mask, x)
    place = (mask.flatten().to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return torch.where(mask, source.flatten().index_select(0, place).reshape(mask.shape), x)


def addbmm(x: Tensor, one: Tensor, other: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """The sum of products, one after the other, as PyTorch stores them on a CPU."""
    y = x
    for k in range(one.shape[0]):
        y = torch.addmm(y, one[k], other[k], beta=1 if k else beta, alpha=alpha)
    return y


def rounded(x: Tensor, decimals: int) -> Tensor:
    """To so many digits: of the product with a power of 10, or of the quotient."""
    scale = 10 ** abs(decimals)
    return torch.round(x * scale) / scale if decimals > 0 else torch.round(x / scale) * scale if decimals else torch.round(x)


def pdist(x: Tensor, p: float = 2) -> Tensor:
    """The distances of each row from those after it."""
    one, other = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return torch.linalg.vector_norm(x.index_select(0, one) - x.index_select(0, other), p, -1)


def atanh(x: Tensor) -> Tensor:
    """ln((1 + x) / (1 - x)) / 2, as PyTorch compiles it for a CPU: its errors do not become smaller near 0, those of others do."""
    return torch.where(x.abs() < 2**-30, (x + x) / 2, torch.log((1 + x) / (1 - x)) / 2)  # 1 + 1e-20 is 1 in float64


def cov(x: Tensor, *, correction: int = 1, fweights: Optional[Tensor] = None, aweights: Optional[Tensor] = None) -> Tensor:
    """The products of rows without their means, over their number."""
    if fweights is not None or aweights is not None:
        raise NotImplementedError("cov with weights: want it without")
    x = x.reshape(1, -1) if x.dim() < 2 else x
    apart = x - x.sum(1, keepdim=True) / x.shape[1]  # as PyTorch has the mean
    return (torch.matmul(apart, apart.t()) / max(x.shape[1] - correction, 0)).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """The same over both deviations."""
    c = cov(x)
    if not c.dim():
        return c / c
    deviation = c.diagonal().sqrt()
    return (c / deviation.reshape(-1, 1) / deviation.reshape(1, -1)).clamp(-1, 1)


def quantile(x: Tensor, q: Any, dim: Optional[int] = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """What lies so far between the least and the greatest number, in order."""
    if isinstance(q, torch.Tensor) and q.dim() or keepdim:
        raise NotImplementedError("several quantiles: want one, as a number, without keepdim")
    line, dim = (x.flatten(), 0) if dim is None else (x, dim)
    n = line.shape[dim]
    rank = float(torch.tensor(float(q), dtype=x.dtype) * (n - 1))  # which a kernel has in the format
    low = math.floor(rank)
    high = {"linear": math.ceil(rank), "lower": low, "higher": math.ceil(rank), "nearest": round(rank), "midpoint": math.ceil(rank)}[interpolation]
    order = line.sort(dim)[0]
    one, other = (order.select(dim, k) for k in (low, high))
    weight = rank - low if interpolation == "linear" else 0.5
    y = torch.lerp(one, other, weight) if interpolation in ("linear", "midpoint") else other
    return torch.where(line.isnan().any(dim), torch.full((), math.nan, dtype=x.dtype), y)


def gaussian_nll(x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Without the question whether a variance is negative."""
    var = var * torch.ones_like(x) if isinstance(var, float) else var
    if var.shape != x.shape and x.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (x - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0.0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# Functions that ask numbers what to compute, which torch.export does not follow.
FUNCTIONS: Dict[Any, Callable[..., Any]] = {
    torch.cov: cov, torch.Tensor.cov: cov, torch.corrcoef: corrcoef, torch.Tensor.corrcoef: corrcoef, torch.quantile: quantile,
    torch.Tensor.quantile: quantile, torch.nn.functional.gaussian_nll_loss: gaussian_nll,
}


class Written(TorchFunctionMode):
    """Calls them as they are written here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return FUNCTIONS.get(func, func)(*args, **(kwargs or {}))


DECOMPOSITIONS: Dict[Any, Callable[..., Any]] = {
    aten.bilinear.default: bilinear,
    aten.cummax.default: cummax,
    aten.cummin.default: cummin,
    aten.logcumsumexp.default: logcumsumexp,
    aten.kthvalue.default: kthvalue,
    aten.median.default: median,
    aten.median.dim: median_along,
    aten.nanmedian.default: nanmedian,
    aten.count_nonzero.default: count_nonzero,
    aten.count_nonzero.dim_IntList: count_nonzero,
    aten.signbit.default: signbit,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign,
    aten.index_fill.int_Scalar: index_fill,
    aten.index_fill.int_Tensor: index_fill,
    aten.index_copy.default: index_copy,
    aten.masked_scatter.default: masked_scatter,
    aten.addbmm.default: addbmm,
    aten.round.decimals: rounded,
    aten.pdist.default: pdist,
    aten._pdist_forward.default: pdist,
    aten.atanh.default: atanh,
    aten._weight_norm.default: weight_norm,
    aten.rrelu.default: rrelu,
    aten.histc.default: histc,
    aten.searchsorted.Tensor: searchsorted,
    aten.bucketize.Tensor: bucketize,
    aten.fake_quantize_per_tensor_affine.default: fake_quantize,
    aten.fake_quantize_per_tensor_affine.tensor_qparams: fake_quantize,
    aten.fake_quantize_per_channel_affine.default: fake_quantize_by_channel,
}
