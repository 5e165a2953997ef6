"""Matrix products held to the bits of devices, from arrays."""

import tempfile
import unittest
from pathlib import Path

import numpy as np

import refrun


class Kernel(unittest.TestCase):
    def setUp(self):
        r = np.random.default_rng(1)
        self.a, self.b = r.standard_normal((32, 96)).astype(np.float16), r.standard_normal((96, 24)).astype(np.float16)
        # Whole numbers add up exactly in every order.
        self.n, self.m = r.integers(-4, 5, (8, 32)).astype(np.float16), r.integers(-4, 5, (32, 8)).astype(np.float16)
        self.exact = self.n.astype(np.float32) @ self.m.astype(np.float32)

    def test_exact(self):
        for device in ("v100", "a100", "h100", "b200", "mi300"):
            r = refrun.assert_kernel("matmul", (self.n, self.m), self.exact, accumulate="tensor-core:" + device)
            self.assertEqual((r.verdict, r.not_equal, r.device), ("PASS", 0, device))
            self.assertIn("every bit is what", str(r))

    def test_added_to(self):
        c = np.ones((8, 8), np.float32)
        refrun.assert_kernel("matmul", {"input": self.n, "other": self.m, "c": c}, self.exact + 1, accumulate="tensor-core:a100")
        r = refrun.check_kernel("matmul", (self.n, self.m, c), self.exact, accumulate="tensor-core:a100")
        self.assertEqual(r.verdict, "FAIL")
        self.assertTrue(any(f.get("without_c") and f["not_equal"] == 0 for f in r.fits))

    def test_wrong(self):
        self.exact[3, 5] += 1
        with self.assertRaises(AssertionError) as e:
            refrun.assert_kernel("matmul", (self.n, self.m), self.exact, accumulate="tensor-core:a100")
        self.assertIn("farthest off: [3 5]", str(e.exception))

    def test_float64_is_no_device(self):
        """A product in float64, rounded, is not what tensor cores give of random numbers."""
        right = (self.a.astype(np.float64) @ self.b.astype(np.float64)).astype(np.float32)
        r = refrun.check_kernel("matmul", (self.a, self.b), right, accumulate="tensor-core:h100")
        self.assertEqual(r.verdict, "FAIL")
        self.assertGreater(r.not_equal, 0)
        stored = refrun.check_kernel("matmul", (self.a, self.b), right.astype(np.float16), accumulate="tensor-core:h100")
        self.assertLess(stored.not_equal, r.not_equal)  # most of that is rounded away

    def test_zeros(self):
        r = refrun.check_kernel("matmul", (np.zeros_like(self.n), self.m), np.zeros((8, 8), np.float32))
        self.assertEqual((r.verdict, r.ok), ("NO-POWER", False))

    def test_refused(self):
        for words, args, options in (
            ("want dot or matmul", ("softmax", (self.n, self.m), self.exact), {"accumulate": "tensor-core:a100"}),
            ("output: shape [8 7]: want [8 8]", ("matmul", (self.n, self.m), self.exact[:, :7]), {"accumulate": "tensor-core:a100"}),
            ("output of shape [8 7]: want [8 8]", ("matmul", (self.n, self.m), self.exact[:, :7]), {}),
            ("precision: operands of F32 and F16: want one of", ("matmul", (self.n.astype(np.float32), self.m), self.exact), {"accumulate": "tensor-core:a100"}),
            ("inputs: input: want input and other", ("matmul", (self.n,), self.exact), {"accumulate": "tensor-core:a100"}),
            ("matmul: no tensor other", ("matmul", (self.n,), self.exact), {}),
            ("unknown operation", ("softmux", (self.n,), self.n), {}),
            ("inputs: 5 tensors: want query, key", ("scaled_dot_product_attention", [self.n] * 5, self.n), {}),
            ("want one of v100, t4", ("matmul", (self.n, self.m), self.exact), {"accumulate": "tensor-core:h101"}),
            ("want block_keys, block_queries, split_k or part_k", ("matmul", (self.n, self.m), self.exact), {"schedule": {"block": 4}}),
        ):
            with self.assertRaises(ValueError) as e:
                refrun.check_kernel(*args, **options)
            self.assertIn(words, str(e.exception))
            self.assertNotIn("\n", str(e.exception))

    def softmax(self, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def test_judged(self):
        x = self.a.astype(np.float32)
        r = refrun.assert_kernel("softmax", [x], self.softmax(x), dim=-1)
        self.assertEqual((r.verdict, r.violations, r.claimed), ("PASS", 0, False))
        with self.assertRaises(AssertionError) as e:
            y = self.softmax(x)
            y[7, 5] *= 1.001
            refrun.assert_kernel("softmax", [x], y, dim=-1)
        text = str(e.exception)
        self.assertIn("worst element [7 5]", text)
        self.assertLessEqual(len(text.splitlines()), 24)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_double(self):
        """float64 tensors claim float64, unless they only hold other numbers; precision says so, too."""
        x = np.random.default_rng(2).standard_normal((32, 48))
        y, single = self.softmax(x), self.softmax(x.astype(np.float32)).astype(np.float64)
        self.assertEqual(refrun.assert_kernel("softmax", [x], y, dim=-1).data["contract"], {"double": True})
        self.assertEqual(refrun.check_kernel("softmax", [x], single, dim=-1).diagnosis, "computed in float32")
        held = x.astype(np.float32).astype(np.float64)
        refrun.assert_kernel("softmax", [held], single, dim=-1)
        self.assertFalse(refrun.check_kernel("softmax", [held], single, dim=-1, precision="float64").ok)

    def test_named(self):
        x, w, b = self.a.astype(np.float32), np.linspace(0.5, 2, 96, dtype=np.float32), np.linspace(-1, 1, 96, dtype=np.float32)
        d = x - x.mean(-1, keepdims=True)
        y = d / np.sqrt(d.var(-1, ddof=1, keepdims=True) + 1e-5) * w + b
        r = refrun.check_kernel("layer_norm", {"input": x, "weight": w, "bias": b}, y, normalized_shape=[96], eps=1e-5)
        self.assertEqual((r.verdict, r.fault), ("FAIL", "the variance is divided by n-1"))
        self.assertEqual((r.diagnosis, r.fault_id), (r.fault, "kernel.variance-n-minus-1"))

    def test_found(self):
        """A step that is rounded to the inputs' format is found, and may be claimed."""
        gate, up = self.a.reshape(-1), np.roll(self.a, 1).reshape(-1)
        g = gate.astype(np.float32)
        silu = (g / (1 + np.exp(-g))).astype(np.float16)
        out = (silu.astype(np.float32) * up.astype(np.float32)).astype(np.float16)
        self.assertEqual(refrun.assert_kernel("swiglu", [gate, up], out).contract, {"round": ["silu"]})
        self.assertTrue(refrun.assert_kernel("swiglu", [gate, up], out, round=["silu"]).claimed)

    def test_whole_numbers(self):
        """Targets of a loss are whole numbers."""
        x, target = self.a.astype(np.float32), np.arange(32) % 96
        target[3] = -100
        m = x.max(-1, keepdims=True)
        y = np.log(np.exp(x - m).sum(-1)) + m[:, 0] - x[np.arange(32), np.maximum(target, 0)]
        y[3] = 0
        refrun.assert_kernel("cross_entropy", [x, target], y.astype(np.float32), ignore_index=-100)

    def test_report(self):
        with tempfile.TemporaryDirectory() as d:
            path = Path(d) / "out.html"
            refrun.assert_kernel("softmax", [self.a], self.softmax(self.a.astype(np.float32)).astype(np.float16), dim=-1, report=path)
            self.assertIn("<h1>PASS</h1>", path.read_text())

    def test_inputs(self):
        """A two-pass layer norm is right on all hard inputs; a one-pass one is not where the mean is large."""
        kinds = []
        for kind, t in refrun.kernel_inputs("layer_norm", (16, 77), kinds=["normal", "large mean", "integers"]):
            x, w, b = (t[k] for k in ("input", "weight", "bias"))
            m = x.mean(-1, keepdims=True)
            two, one = ((x - m) ** 2).mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True) - m * m
            y, z = ((x - m) / np.sqrt(v + np.float32(1e-5)) * w + b for v in (two, np.maximum(one, 0)))
            refrun.assert_kernel("layer_norm", t, y, normalized_shape=[77], eps=1e-5)
            kinds.append((kind, refrun.check_kernel("layer_norm", t, z, normalized_shape=[77], eps=1e-5).verdict))
        self.assertEqual(dict(kinds)["large mean"], "FAIL")
        for kind, t in refrun.kernel_inputs("matmul", (5, 33, 7), "bfloat16"):
            self.assertEqual([v.shape for v in t.values()], [(5, 33), (33, 7)])
            bits = t["input"].view(np.uint32)
            self.assertFalse((bits & 0xFFFF).any(), kind)

    def test_invariant(self):
        x = self.a.astype(np.float32)
        refrun.assert_invariant(lambda x: np.float32(2) * x, [x])
        with self.assertRaises(AssertionError) as e:
            refrun.assert_invariant(lambda x: x - np.float32(1e-3 * len(x)), [x])
        self.assertIn("item 0 alone, item 0 differs from the whole batch of 32", str(e.exception))

    def test_split(self):
        r = refrun.check_kernel("matmul", (self.n, self.m), self.exact, accumulate="tensor-core:h100", schedule={"split_k": 2})
        self.assertEqual((r.verdict, r.split_k), ("PASS", 2))


if __name__ == "__main__":
    unittest.main()
