"""The casts of torch.autocast, written into an exported program."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode


class _Seen(TorchDispatchMode):
    """The casts that are made while it is on: the tensor and the type."""

    def __init__(self) -> None:
        super().__init__()
        self.casts: List[Any] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._to_copy.default:
            self.casts.append((args[0], (kwargs or {}).get("dtype")))
        return func(*args, **(kwargs or {}))


def written(module: torch.nn.Module, inputs: Sequence[torch.Tensor], device: str, dtype: torch.dtype) -> fx.GraphModule:
    """A module as it runs under autocast, as a program that has autocast's casts as operations of its own.

    torch.export leaves them out, since autocast makes them below the operations that it records. So each operation is
    run under autocast, and what it casts of its inputs is cast before it.
    """
    with torch.no_grad(), torch.autocast(device, dtype):
        program = torch.export.export(module, tuple(inputs), strict=False).module()
    _Casting(program, device, dtype).run(*inputs)
    program.graph.lint()
    program.recompile()
    return program


class _Casting(fx.Interpreter):
    def __init__(self, program: fx.GraphModule, device: str, dtype: torch.dtype):
        super().__init__(program)
        self.autocast = lambda: torch.autocast(device, dtype, cache_enabled=False)

    def run_node(self, n: fx.Node) -> Any:
        given: Dict[int, fx.Node] = {id(self.env[a]): a for a in n.all_input_nodes}
        with torch.no_grad(), self.autocast(), _Seen() as seen:
            value = super().run_node(n)
        if n.op == "call_function" and n.target not in (torch.ops.aten.to.dtype, torch.ops.aten._to_copy.default):
            for tensor, dtype in seen.casts:
                of = given.pop(id(tensor), None)
                if of is not None and dtype is not None:
                    with self.module.graph.inserting_before(n):
                        cast = self.module.graph.call_function(torch.ops.aten.to.dtype, (of, dtype))
                    n.replace_input_with(of, cast)
        return value
