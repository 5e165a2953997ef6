"""The exact operator as a torch module."""

from __future__ import annotations

from typing import Any

from torch import nn

from .reference import Reference, Rollout


class ReferenceModule(nn.Module):
    """A module whose forward is the exact operator; made by `refrun.reference`.

    `forward(x, draws=None)` and `run` are those of `Reference`, which `.reference` is.
    """

    def __init__(self, reference: Reference):
        super().__init__()
        self.reference = reference

    def forward(self, x: Any, draws: Any = None) -> Any:
        return self.reference(x, draws=draws)

    def run(self, x0: Any, **options: Any) -> Rollout:
        return self.reference.run(x0, **options)

    def close(self) -> None:
        self.reference.close()

    def extra_repr(self) -> str:
        return self.reference.mode
