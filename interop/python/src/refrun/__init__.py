"""refrun: from a PyTorch rollout to a verdict.

    import refrun

    with refrun.record("case", operator, alpha=0.5, precision="float16") as rec:
        for _ in range(20):
            x = 0.5 * x + 0.5 * operator(x)
        rec.finish(x)
    print(refrun.check("case"))

`reference` and `run` are the exact operator as a function, `assert_same` holds a device's
output to it in pytest. `record` writes a case folder: the operator's layers and weights, its states in
the device's own type, its noise. `check` has the refrun binary judge it.
`assert_kernel` holds a matrix product to the bits of a device's tensor cores.
`fuzz` searches for inputs on which a kernel is wrong.
`check_definition` judges a solution of a definition as FlashInfer-Bench and SOL-ExecBench write them.
`hook` judges the submodules of a model in a training step, their gradients too.
`assert_grad` holds the gradients of a backward kernel to what right ones may return.
`check_model` judges one call of any module, and `check_export` an ONNX file that was made of it.
`describe` says of any module what it computes; `export` writes the operator alone; `Case` takes arrays from any framework.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .binary import BinaryError, binary, warn_if_missing
from .case import Case, CaseError
from .check import Report, assert_pass, check
from .dataset import Dataset, DatasetError, make_dataset
from .gradient import assert_grad, check_grad
from .kernel import assert_kernel, check_kernel
from .hard_inputs import assert_invariant, kernel_inputs
from .reference import Reference, Rollout, assert_same, reference, run

if _TYPE_CHECKING:
    from .definition import check_definition
    from .fuzzing import fuzz
    from .graph import UnsupportedLayer, export
    from .hooks import hook
    from .model import Layers, check_export, check_model
    from .network import Network, Unsupported, describe
    from .recorder import record

# What needs torch is imported when it is used.
_TORCH = {"check_definition": "definition", "fuzz": "fuzzing", "hook": "hooks", "export": "graph", "UnsupportedLayer": "graph", "describe": "network", "Network": "network", "Unsupported": "network", "Layers": "model", "check_export": "model", "check_model": "model", "record": "recorder"}

__all__ = ["BinaryError", "Case", "CaseError", "Dataset", "DatasetError", "Layers", "Network", "Reference", "Report", "Rollout", "Unsupported", "UnsupportedLayer",
           "assert_grad", "assert_invariant", "assert_kernel", "assert_pass", "assert_same", "binary", "check", "check_definition", "check_export", "check_grad", "check_kernel", "check_model", "describe", "export", "fuzz", "hook", "kernel_inputs", "make_dataset", "record", "reference", "run"]
__version__ = "0.1.0"


def __dir__() -> "list[str]":
    return [*__all__, "__version__"]


def __getattr__(name: str) -> _Any:
    if name in _TORCH:
        from importlib import import_module

        try:
            return getattr(import_module(f"{__name__}.{_TORCH[name]}"), name)
        except ModuleNotFoundError as e:
            if e.name != "torch":
                raise
            raise ImportError(f"refrun.{name} needs torch, which is not installed: pip install torch") from None
    raise AttributeError(f"module 'refrun' has no attribute {name!r}")


warn_if_missing()
