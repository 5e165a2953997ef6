"""What can be tested of validate.py without a GPU. Needs torch and the refrun binary.

    cd interop/gpu && python -m unittest test_validate
"""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import validate  # puts the package and the examples on the path

import faults
import philox
import refrun
import stream


class Philox(unittest.TestCase):
    def near(self, got, want, digits=4):
        np.testing.assert_allclose(got, want, rtol=0, atol=0.5001 * 10**-digits)

    def test_published(self):
        """Decimals that GPUs printed; the sources are in the comments."""
        self.near(philox.rand(5, 0, 132), [0.3990, 0.5167, 0.0249, 0.9401, 0.9459])
        # pytorch/pytorch 143086: seed 1, randn(1, 9483264) on an H100 and an A100
        n, at = 9483264, [0, 1, 2, 9483261, 9483262, 9483263]
        self.near(philox.randn(n, 1, 132, at=at), [-0.2963, 2.6764, -0.1408, -0.6970, -0.7780, 0.3267])
        self.near(philox.randn(n, 1, 108, at=at), [-0.2963, 2.6764, -0.1408, 0.1549, -0.6797, -0.1656])
        # pytorch/pytorch 97097: seed 14, normal_(5, 5**0.5) of 1000 x 100 on an RTX A4000, the first and last rows' ends
        rows = [[2.8731, 5.2727, 2.9889, 1.6853, 9.6331, 6.6319], [3.9968, 3.8097, 5.7328, 4.4029, 3.9804, 7.4698],
                [6.5552, 4.0857, 4.2315, 2.7704, 3.5479, 3.3063], [8.6297, 2.3137, 6.2596, 7.9358, 4.4697, 2.7475],
                [7.0551, 7.8583, 3.9990, 4.1139, 8.9315, 4.2042], [2.7337, 2.2106, 7.7815, 8.2207, 6.5395, 4.2604]]
        at = [100 * r + c for r in (0, 1, 2, 997, 998, 999) for c in (0, 1, 2, 97, 98, 99)]
        self.near(5 + 5**0.5 * philox.randn(100000, 14, 48, 1536, at=at), np.ravel(rows))
        # pytorch/pytorch 62467: seed 43, normal_ of 1 x 3 x 128 x 128 on an RTX A6000, the first of each channel
        self.near(philox.randn(49152, 43, 84, 1536, at=[0, 16384, 32768]), [1.9983, 0.8704, 2.1127])

    def test_refrun(self):
        """refrun's draws, on devices of several sizes, below a wave and beyond."""
        with tempfile.TemporaryDirectory() as d:
            for sms, threads in ((132, 2048), (2, 256), (40, 1024)):
                with mock.patch.object(stream, "SIZES", ((1, 8), (4, 64), (16, 64))):
                    for r in stream.rows(refrun.binary(), Path(d), sms, threads):
                        self.assertTrue(r["right"], stream.line(r))
                        self.assertLess(r.get("port_max", 0), 1e-6)
            self.assertEqual(list(Path(d).iterdir()), [])

    def test_wrong_stream(self):
        """Numbers of another device are found, and so is one bit of one uniform."""
        with tempfile.TemporaryDirectory() as d, mock.patch.object(stream, "SIZES", ((16, 64),)):
            for what, numbers, row in (("randn", philox.randn, 0), ("rand", philox.rand, 1)):
                with mock.patch.object(philox, what, lambda n, seed, sms, threads: numbers(n, seed, sms + 1, threads)):
                    r = stream.rows(refrun.binary(), Path(d), 2, 256)
                    self.assertEqual([x["right"] for x in r], [row != 0, row != 1])
                    self.assertIn("**wrong**", stream.line(r[row]))

            class Device:  # one bit off in the last place of one number
                manual_seed = staticmethod(lambda seed: None)
                randn = staticmethod(lambda n, device: torch.from_numpy(philox.randn(n, stream.SEED, 2, 256)))

                @staticmethod
                def rand(n, device):
                    u = philox.rand(n, stream.SEED, 2, 256)
                    u[77] = np.nextafter(u[77], np.float32(2))
                    return torch.from_numpy(u)

            r = stream.rows(refrun.binary(), Path(d), 2, 256, Device)[0]
            self.assertEqual((r["uniforms_differ"], r["right"]), (1, False))


class Validate(unittest.TestCase):
    def run_it(self, *args):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            rc = validate.main(list(args))
        return rc, out.getvalue(), err.getvalue()

    def test_modes(self):
        torch.backends.cudnn.allow_tf32 = True  # as it is by default: every float32 fault would fail for that
        cpu, cuda = validate.modes("cpu", False), validate.modes("cuda", False)
        self.assertFalse(torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32)
        self.assertLess(set(cpu), set(cuda))
        self.assertEqual({n for n in set(cuda) - set(cpu)}, {"eager-tf32", "benchmark-float16", "benchmark-bfloat16", "fault: TF32 sold as float32",
                                                             "compile-max-float32", "compile-max-float16", "compile-max-bfloat16"})
        for name, (_, must) in cuda.items():
            self.assertEqual(must, not name.startswith("fault: "), name)
        self.assertEqual(sum(n.startswith("fault: ") for n in cpu), 2 * len(faults.FAULTS) - len(faults.ALLOWED))
        self.assertEqual(len({validate.folder(n) for n in cuda}), len(cuda))

    def test_cpu(self):
        with tempfile.TemporaryDirectory() as d:
            rc, out, _ = self.run_it("--device", "cpu", "--out", d, "--base", "8", "--grid", "32", "--steps", "3", "--only", "eager-float32", "residual left out, bfloat16")
            self.assertEqual(rc, 0, out)
            table = (Path(d) / "table.md").read_text()
            self.assertIn("| eager-float32 | PASS-CONFORMING | yes |", table)
            self.assertIn("| fault: residual left out, bfloat16 | FAIL-LOGIC | yes |", table)
            self.assertIn("| 1, second |", table)
            report = json.loads((Path(d) / "report.json").read_text())
            self.assertEqual(set(report["modes"]), {"eager-float32", "fault: residual left out, bfloat16"})
            self.assertEqual(sorted(p.name for p in (Path(d) / "eager-float32").iterdir()), ["case.json", "report.html"])
            self.assertLess(sum(p.stat().st_size for p in Path(d).rglob("*") if p.is_file()), 1 << 20)

    def test_not_as_it_must_be(self):
        """A correct mode that fails, a fault that passes: exit code 1, and the states are kept."""
        flat = faults.FAULTS["bias dropped"][0]
        wrong = {"eager": (lambda *a: validate.fault("cpu", flat, False, *a), True), "fault: none": (lambda *a: validate.fault("cpu", None, False, *a), False)}
        with tempfile.TemporaryDirectory() as d, mock.patch.object(validate, "modes", lambda *a: wrong):
            rc, out, _ = self.run_it("--device", "cpu", "--out", d, "--only", "eager", "fault")
            self.assertEqual((rc, out.count("**no**")), (1, 2), out)
            self.assertTrue((Path(d) / "eager" / "trajectory.safetensors").exists())

    def test_mode_that_raises(self):
        def refuse(*a):
            raise RuntimeError("not here")

        with tempfile.TemporaryDirectory() as d, mock.patch.object(validate, "modes", lambda *a: {"odd": (refuse, True)}):
            rc, out, _ = self.run_it("--device", "cpu", "--out", d, "--only", "odd")
            self.assertIn("| odd | not run: RuntimeError |", out)
            self.assertEqual(rc, 0)
            self.assertIn("not here", json.loads((Path(d) / "report.json").read_text())["modes"]["odd"]["error"])

    def test_check_that_refuses(self):
        def empty(path, *a):
            path.mkdir()

        with tempfile.TemporaryDirectory() as d, mock.patch.object(validate, "modes", lambda *a: {"empty": (empty, True)}):
            rc, out, _ = self.run_it("--device", "cpu", "--out", d, "--only", "empty")
            self.assertRegex(out, r"\| empty \| not checked: .*case.json.* \| \*\*no\*\* \|")
            self.assertEqual(rc, 1)

    def test_no_cuda(self):
        with mock.patch.object(torch.cuda, "is_available", lambda: False):
            rc, _, err = self.run_it()
        self.assertEqual(rc, 2)
        self.assertEqual(err.count("\n"), 1)
        self.assertIn("sees no CUDA device here: want one, or --device cpu", err)


if __name__ == "__main__":
    unittest.main()
