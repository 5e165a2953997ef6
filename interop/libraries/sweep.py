"""Judges functions as libraries compute them, and the same with a fault.

    python interop/libraries/sweep.py [--library eager compiled jax jax-eager onnxruntime openvino]
        [--dtype float32 float16 bfloat16] [--kind normal ...] [--only softmax ...] [--seed 0] [--faults] [--results FILE]

What a library returns has to pass, and with a fault it has to fail: the largest element times 1 + 2^-7 (in half types
1 + 2^-4), and all elements times that.
"""

from __future__ import annotations

import refrun

import report
from functions import FUNCTIONS
from inputs import make
from libraries import LIBRARIES, Unsupported


def sweep(a):
    for name in a.only:
        f, count = FUNCTIONS[name]
        for library in a.library:
            for dtype in a.dtype:
                for kind in a.kind:
                    row = dict(name=name, library=library, dtype=dtype, kind=kind)
                    inputs = make(kind, count, report.TYPES[dtype], a.seed)

                    def judge(output):
                        try:
                            v = refrun.check_kernel(f, inputs, output)
                        except (ValueError, RuntimeError, NotImplementedError) as e:
                            return "NOT JUDGED", str(e)
                        return v.verdict, str(v)

                    try:
                        y = LIBRARIES[library](name, report.TYPES[dtype])(*inputs)
                    except Unsupported:
                        continue
                    except Exception as e:  # each library has its own
                        yield dict(row, verdict="NOT RUN", says=f"{type(e).__name__}: {e}")
                        continue
                    yield from report.judged(row, y, judge, a.faults)


if __name__ == "__main__":
    a = report.arguments(__doc__, FUNCTIONS, LIBRARIES)
    report.run(sweep(a), a.results)
