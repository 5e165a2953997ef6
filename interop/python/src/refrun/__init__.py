"""refrun: from a PyTorch rollout to a verdict.

    import refrun

    with refrun.record("case", operator, alpha=0.5, precision="float16") as rec:
        for _ in range(20):
            x = 0.5 * x + 0.5 * operator(x)
        rec.finish(x)
    print(refrun.check("case"))

Judge:
    assert_kernel, check_kernel    the output of one kernel, or of a chain of operations
    assert_grad, check_grad        the gradients of a backward kernel
    assert_same, check_model       the output of one call of a module
    record, check, assert_pass     a rollout: record it, judge it
    check_export                   an ONNX file, against the module that it was made of
    check_definition               a solution of a definition of FlashInfer-Bench or SOL-ExecBench
    hook                           the submodules of a model in a training step, with their gradients
    fuzz, assert_invariant         a kernel, with inputs that are chosen for it

Compute:
    reference                      a module as a function whose results are rounded correctly
    run                            a whole rollout
    describe, export               what a module computes; the operator of a case alone
    Case                           a case of arrays of any framework
    make_dataset, Dataset          rollouts of many operators
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
