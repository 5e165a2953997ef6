"""ATen's backward operations that are functions here, of what their schemas have."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


def dropout(d: Tensor, mask: Tensor, scale: float) -> Tensor:
    """What was kept, times the scale."""
    return d * scale * mask.to(d.dtype)


def avg_pool2d(d: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
               count_include_pad: bool, divisor_override: Optional[int]) -> Tensor:
    """Each number of a window has its part of d: the sum over all windows, of d over how many each counts."""
    kernel = _pair(kernel_size)
    stride, padding = _pair(stride) if len(stride) else kernel, _pair(padding)
    lines = [_windows(n, y, *of, count_include_pad) for n, y, *of in zip(x.shape[-2:], d.shape[-2:], kernel, stride, padding)]
    counts = lines[0][:, None] * lines[1]
    share = d / (torch.full_like(counts, divisor_override) if divisor_override else counts).to(d.dtype)
    channels, ((h, w), (rows, columns)) = d.shape[-3], (x.shape[-2:], d.shape[-2:])
    each = torch.ones(channels, 1, *kernel, dtype=d.dtype)
    whole = torch.conv_transpose2d(share.reshape(-1, channels, rows, columns), each, stride=stride, groups=channels)
    for axis, (n, pad) in zip((2, 3), ((h, padding[0]), (w, padding[1]))):
        missing = n + pad - whole.shape[axis]  # behind the last window
        if missing > 0:
            none = [missing if k == axis else m for k, m in enumerate(whole.shape)]
            whole = torch.cat([whole, torch.zeros(none, dtype=d.dtype)], axis)
        whole = whole.narrow(axis, pad, n)
    return whole.reshape(x.shape)


def _pair(of: Sequence[int]) -> List[int]:
    return [of[0], of[-1]]


def _windows(n: int, count: int, kernel: int, stride: int, pad: int, padded: bool) -> Tensor:
    """How many numbers each of the windows along a line of n numbers counts."""
    begin = torch.arange(count) * stride - pad
    end = (begin + kernel).clamp(max=n + pad)
    return (end - begin if padded else end.clamp(max=n) - begin.clamp(min=0)).float()


def _places(size: int, of: int, corners: bool, factor: Optional[float], dtype: torch.dtype) -> Tensor:
    """Where each of so many numbers lies in a line of others, computed as kernels do, with a rounding at each step."""
    at = torch.arange(size, dtype=dtype)
    if corners:
        return at * ((of - 1) / (size - 1) if size > 1 else 0.0)
    return (at + 0.5) * (1 / factor if factor else of / size) - 0.5


def _linear(at: Tensor, n: int) -> Tensor:
    """The weights of n numbers at places, [places, n]."""
    apart = at.clamp(0, n - 1)[:, None] - torch.arange(n, dtype=at.dtype)
    return (1 - apart.abs()).clamp(min=0)


def _cubic(at: Tensor, n: int) -> Tensor:
    """The same of cubic convolution. What lies beyond an end is the last number there."""
    a = -0.75
    k = torch.arange(-3, n + 3)
    x = (at[:, None] - k.to(at.dtype)).abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    weights = torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros((), dtype=at.dtype)))
    ends = (k.clamp(0, n - 1)[:, None] == torch.arange(n)).to(at.dtype)
    return weights @ ends


def _resized(weights: Callable[[Tensor, int], Tensor], axes: int) -> Callable[..., Tensor]:
    """The backward pass of a resize: the product of d with the weights along each axis."""

    def backward(d: Tensor, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, *scales: Optional[float]) -> Tensor:
        wide, letters = torch.promote_types(d.dtype, torch.float32), "xyz"
        y = d.to(wide)
        for axis in range(axes):
            n, factor = input_size[2 + axis], scales[axis] if axis < len(scales) else None
            w = weights(_places(output_size[axis], n, align_corners, factor, wide), n)
            of = "ab" + letters[:axes]
            y = torch.einsum(f"{of},{letters[axis]}k->{of.replace(letters[axis], 'k')}", y, w)
        return y.to(d.dtype)

    return backward


def _nearest(exact: bool, axes: int) -> Callable[..., Tensor]:
    """The sums of d at the places that are nearest, which are those that torch finds."""

    def backward(d: Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: Optional[float]) -> Tensor:
        y = d.to(torch.promote_types(d.dtype, torch.float32))
        for axis in range(axes):
            n, size, factor = input_size[2 + axis], output_size[axis], scales[axis] if axis < len(scales) else None
            ratio = torch.full((), 1 / factor if factor else n / size)
            at = ((torch.arange(size, dtype=torch.float32) + (0.5 if exact else 0.0)) * ratio).floor().long().clamp(max=n - 1)
            zeros = torch.zeros([n if k == 2 + axis else m for k, m in enumerate(y.shape)], dtype=y.dtype)
            y = zeros.index_add(2 + axis, at, y)
        return y.to(d.dtype)

    return backward


DECOMPOSITIONS: Dict[Any, Callable[..., Any]] = {
    aten.native_dropout_backward.default: dropout,
    aten.avg_pool2d_backward.default: avg_pool2d,
    aten.upsample_bicubic2d_backward.default: _resized(_cubic, 2),
}
for _axes, _kind in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    DECOMPOSITIONS[getattr(aten, f"upsample_{_kind}{_axes}d_backward").default] = _resized(_linear, _axes)
    DECOMPOSITIONS[getattr(aten, f"upsample_nearest{_axes}d_backward").default] = _nearest(False, _axes)
    DECOMPOSITIONS[getattr(aten, f"_upsample_nearest_exact{_axes}d_backward").default] = _nearest(True, _axes)
