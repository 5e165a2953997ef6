"""refrun: from a PyTorch rollout to a verdict.

    import refrun

    with refrun.record("case", operator, alpha=0.5, precision="float16") as rec:
        for _ in range(20):
            x = 0.5 * x + 0.5 * operator(x)
        rec.finish(x)
    print(refrun.check("case"))

`record` writes a case folder: the operator's layers and weights, its states in
the device's own type, its noise. `check` has the refrun binary judge it.
`assert_kernel` holds a matrix product to the bits of a device's tensor cores.
`describe` says of any module what it computes; `export` writes the operator alone; `Case` takes arrays from any framework.
"""

from .binary import BinaryError, binary
from .case import Case, CaseError
from .check import Report, assert_pass, check
from .dataset import Dataset, DatasetError, make_dataset
from .kernel import assert_kernel, check_kernel
from .reference import Reference, Rollout, assert_same, reference, run

__all__ = ["BinaryError", "Case", "CaseError", "Dataset", "DatasetError", "Network", "Report", "Unsupported", "UnsupportedLayer", "assert_kernel", "assert_pass", "binary", "check", "check_kernel", "describe", "export", "make_dataset", "record"]
__version__ = "0.1.0"


_TORCH = {"export": "graph", "UnsupportedLayer": "graph", "describe": "network", "Network": "network", "Unsupported": "network", "record": "recorder"}


def __getattr__(name):  # what needs torch is imported when it is used
    if name in _TORCH:
        from importlib import import_module

        try:
            return getattr(import_module(f"{__name__}.{_TORCH[name]}"), name)
        except ModuleNotFoundError as e:
            if e.name != "torch":
                raise
            raise ImportError(f"refrun.{name} needs torch, which is not installed: pip install torch") from None
    raise AttributeError(f"module 'refrun' has no attribute {name!r}")
