"""A function whose whole numbers decide what it computes, such as page tables and lengths, traced for these numbers."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree


class _Known(TorchFunctionMode):
    """What is computed of tensors that are known is known too, and is not traced."""

    def __init__(self, known: Sequence[torch.Tensor]):
        super().__init__()
        self.known: Dict[int, torch.Tensor] = {id(t): t for t in known}  # held, so that no other has its id

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not given or any(id(t) not in self.known for t in given):
            return func(*args, **kwargs)
        with disable_proxy_modes_tracing():
            made = func(*args, **kwargs)
        self.known.update({id(t): t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)})
        return made


def concrete(op: Any, given: Sequence[torch.Tensor]) -> Tuple[Any, List[torch.Tensor]]:
    """A function as a module of those inputs that are not whole numbers, and these inputs. The whole ones are constants."""
    varied = [t for t in given if t.is_floating_point() or t.is_complex()]
    known = [t for t in given if all(t is not v for v in varied)]

    def of(*tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        with _Known(known):
            return op(*(next(rest) if any(t is v for v in varied) else t for t in given))

    with torch.no_grad():
        return make_fx(of)(*varied), varied
