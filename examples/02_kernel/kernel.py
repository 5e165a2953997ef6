"""One kernel in the place of a tolerance: is this output what a right softmax may return?

    python kernel.py         # needs numpy and refrun
"""

import numpy as np

import refrun

x = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
e = np.exp(x - x.max(-1, keepdims=True))
right = e / e.sum(-1, keepdims=True)

report = refrun.check_kernel("softmax", [x], right, dim=-1)
print("numpy's float32 softmax:   ", report.verdict)

wrong = np.exp(x) / np.exp(x[:, :-1]).sum(-1, keepdims=True)  # the last column is left out of the sum
print("a term left out of the sum:", refrun.check_kernel("softmax", [x], wrong, dim=-1).verdict)
print("largest difference between the two:", abs(right - wrong).max())  # allclose(atol=1e-3) takes both
