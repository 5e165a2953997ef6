"""A plugin of pytest: kernels are judged in tests, and what was found is in the test's properties.

    @pytest.mark.refrun(accumulate="bf16x3")
    def test_product(refrun_kernel):
        refrun_kernel("matmul", [a, b], my_product(a, b))

`pytest --refrun-seconds 10` ends each judgement after about so long with the rows that were judged by then.
"""

from __future__ import annotations

from typing import Any, Callable

import pytest

from .check import Report
from .kernel import check_kernel


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("refrun").addoption("--refrun-seconds", type=float, default=None, metavar="N", help="end each judgement of a kernel after about N seconds with what was judged so far")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "refrun(**options): options of refrun_kernel in this test, such as precision, accumulate, round")


@pytest.fixture
def refrun_kernel(request: Any, record_property: Callable[[str, Any], None]) -> Callable[..., Report]:
    """check_kernel with the options of the test's marks, which fails the test unless the kernel passes."""

    def judge(op: Any, inputs: Any, output: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        given = {"seconds": request.config.getoption("--refrun-seconds")}
        for mark in reversed(list(request.node.iter_markers("refrun"))):  # the nearest last
            given.update(mark.kwargs)
        report = check_kernel(op, inputs, output, **{**given, **options})
        for key in ("verdict", "diagnosis", "fault_id", "advice"):
            if report.data.get(key):
                record_property(f"refrun.{key}", report.data[key])
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return judge
