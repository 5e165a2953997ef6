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


DECOMPOSITIONS: Dict[Any, Callable[..., Any]] = {
    aten.bilinear.default: bilinear,
    aten._weight_norm.default: weight_norm,
    aten.rrelu.default: rrelu,
}
