"""The plugin of pytest, run on a file of tests."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = """
import numpy as np, pytest
x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
e = np.exp(x - x.max(-1, keepdims=True))

def test_right(refrun_kernel):
    assert refrun_kernel("softmax", [x], e / e.sum(-1, keepdims=True), dim=-1).ok

def test_wrong(refrun_kernel):
    refrun_kernel("softmax", [x], 1.01 * e / e.sum(-1, keepdims=True), dim=-1)

@pytest.mark.refrun(accumulate="bfloat16")
def test_marked(refrun_kernel):
    y = np.zeros(8, np.float32)
    for i in range(64):
        y = ((y + x[:, i]).view(np.uint32) + 0x8000 & 0xffff0000).view(np.float32)
    refrun_kernel("sum", [x], y, dim=[-1])
"""


@unittest.skipUnless(importlib.util.find_spec("pytest"), "needs pytest")
class Plugin(unittest.TestCase):
    def test(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_kernels.py"
            path.write_text(TESTS)
            args = ["-q", "-p", "refrun.pytest_plugin", "-p", "no:cacheprovider", "--refrun-seconds", "20", "--strict-markers", f"--junitxml={folder}/out.xml", str(path)]
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run([sys.executable, "-m", "pytest", *args], capture_output=True, text=True, cwd=folder, env=env)
            self.assertIn("1 failed, 2 passed", done.stdout)
            self.assertIn("fault: the output is times 1.01", done.stdout)
            self.assertIn("kernel.times", (Path(folder) / "out.xml").read_text())


if __name__ == "__main__":
    unittest.main()
