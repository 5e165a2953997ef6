"""The operator of examples/faults.py passes, and each of its faults is found where it is."""

import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import faults

# Words of the name that the report gives the fault, in steps or in layers; the others have no name.
NAMES = {
    "tanh GELU for erf GELU": "tanh GELU", "zero padding for circular": "padding", "circular padding for zero": "padding",
    "unbiased variance": "unbiased|n-1", "eps 1e-3 for 1e-5": "eps", "kernel turned by 180 degrees": "flipped", "bias dropped": "bias",
    "noise scale doubled": "noise", "residual left out": "residual|output is the input",
}


class Judged(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

    def faults(self, bfloat16):
        for name, (inject, layer, verdict) in faults.FAULTS.items():
            with self.subTest(name):
                r = faults.judge(self.dir / "case", inject, bfloat16)
                if bfloat16 and name in faults.ALLOWED:
                    self.assertEqual((r.verdict, r.first_layer), ("PASS-CONFORMING", ""), str(r))
                    continue
                self.assertEqual((r.verdict, r.first_layer), (verdict, layer), str(r))
                self.assertEqual(r.first_step, 3 if "step 3" in name else 1, str(r))
                self.assertRegex(r.diagnosis, NAMES.get(name, ".*"))
                self.assertIn(layer, str(r))

    def test_float32(self):
        self.faults(False)

    def test_bfloat16(self):
        self.faults(True)

    def test_place(self):
        r = faults.judge(self.dir / "case", faults.FAULTS["stale tile at step 3"][0])
        self.assertIn("tile", r.slice)
        r = faults.judge(self.dir / "case", faults.FAULTS["one output channel's weights shifted"][0])
        self.assertIn("channel 3", r.slice)

    def test_correct(self):
        for bfloat16 in (False, True):
            self.assertEqual(faults.judge(self.dir / "case", None, bfloat16).verdict, "PASS-CONFORMING")

    def test_compiled(self):
        from torch._inductor import config

        for bfloat16 in (False, True):
            torch._dynamo.reset()
            r = faults.judge(self.dir / "case", None, bfloat16, compiled=True)  # its noise is its own
            self.assertEqual((r.verdict, r.noise["stream"]), ("PASS-ACCURATE", "unknown"), str(r))
            torch._dynamo.reset()
            with config.patch(fallback_random=True):  # PyTorch's, which is recorded
                r = faults.judge(self.dir / "case", None, bfloat16, compiled=True)
                self.assertEqual((r.ok, r.noise["stream"]), (True, "tape"), str(r))
                torch._dynamo.reset()
                r = faults.judge(self.dir / "case", faults.FAULTS["kernel turned by 180 degrees"][0], bfloat16, compiled=True)
                self.assertEqual(r.verdict, "FAIL-LOGIC", str(r))


if __name__ == "__main__":
    unittest.main()
