"""Losses as the operations that they consist of."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch

Tensor = torch.Tensor
aten = torch.ops.aten
_NONE, _MEAN, _SUM = 0, 1, 2  # ATen's reductions


def _reduced(losses: Tensor, reduction: int, count: Optional[Tensor] = None) -> Tensor:
    """The losses, their sum, or that divided by their number, or by a count."""
    if reduction == _NONE:
        return losses
    if reduction == _MEAN and count is None:
        return losses.mean()
    total = losses.sum()
    return total if reduction == _SUM else (total / count).to(losses.dtype)


def nll_loss(
    x: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: int = _MEAN, ignore_index: int = -100
) -> Tensor:
    """-x[target], times the class's weight, and 0 of targets that are ignored, which do not count in a mean."""
    axis = min(1, x.dim() - 1)
    counts = target != ignore_index
    known = torch.where(counts, target, 0)
    losses = -x.gather(axis, known.unsqueeze(axis)).squeeze(axis)
    weights = counts.to(torch.float32)
    if weight is not None:
        of = weight.index_select(0, known.flatten()).view(known.shape)
        losses, weights = losses * of, weights * of
    return _reduced(torch.where(counts, losses, 0), reduction, weights.sum())


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative log-likelihood of a log_softmax: of classes, or of their probabilities."""
    axis = min(1, x.dim() - 1)
    logs, classes = torch.log_softmax(x, axis), x.shape[axis]
    if weight is not None:
        along = [-1 if d == axis else 1 for d in range(x.dim())]
    if target.is_floating_point():
        smooth = target * (1 - label_smoothing) + label_smoothing / classes if label_smoothing else target
        losses = logs * smooth if weight is None else logs * smooth * weight.view(along)
        total = -losses.sum(axis)
        return total.sum() / (x.numel() // classes) if reduction == _MEAN else _reduced(total, reduction)
    plain = nll_loss(logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return plain
    counts = target != ignore_index
    of = logs if weight is None else logs * weight.view(along)
    smooth = torch.where(counts, -of.sum(axis), 0)
    weights = counts.to(torch.float32)
    if weight is not None:
        weights = weights * weight.index_select(0, torch.where(counts, target, 0).flatten()).view(target.shape)
    share = label_smoothing / classes
    return (1 - label_smoothing) * plain + share * _reduced(smooth, reduction, weights.sum())


def kl_div(x: Tensor, target: Tensor, reduction: int = _MEAN, *, log_target: bool = False) -> Tensor:
    """p log p - p x, where 0 log 0 is 0."""
    if log_target:
        return _reduced(target.exp() * (target - x), reduction)
    return _reduced(target * torch.where(target == 0, 1, target).log() - target * x, reduction)


DECOMPOSITIONS: Dict[Any, Callable[..., Any]] = {
    aten.cross_entropy_loss.default: cross_entropy,
    aten.nll_loss_nd.default: nll_loss,
    aten.nll_loss.default: nll_loss,
    aten.kl_div.default: kl_div,
}
