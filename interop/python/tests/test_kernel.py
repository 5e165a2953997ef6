"""Matrix products held to the bits of devices, from arrays."""

import unittest

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
            ("want dot or matmul", ("softmax", (self.n, self.m), self.exact), {}),
            ("output: shape [8 7]: want [8 8]", ("matmul", (self.n, self.m), self.exact[:, :7]), {}),
            ("precision: operands of F32 and F16: want one of", ("matmul", (self.n.astype(np.float32), self.m), self.exact), {}),
            ("inputs: input: want input and other", ("matmul", (self.n,), self.exact), {}),
            ("want one of v100, t4", ("matmul", (self.n, self.m), self.exact), {"accumulate": "tensor-core:h101"}),
            ("want split_k=N", ("matmul", (self.n, self.m), self.exact), {"schedule": {"block": 4}}),
        ):
            with self.assertRaises(ValueError) as e:
                refrun.check_kernel(*args, **options)
            self.assertIn(words, str(e.exception))
            self.assertNotIn("\n", str(e.exception))

    def test_split(self):
        r = refrun.check_kernel("matmul", (self.n, self.m), self.exact, accumulate="tensor-core:h100", schedule={"split_k": 2})
        self.assertEqual((r.verdict, r.split_k), ("PASS", 2))


if __name__ == "__main__":
    unittest.main()
