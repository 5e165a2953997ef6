"""The exact operator as a torch module, beside the module itself."""

import copy
import unittest
import warnings

import torch
from torch import nn

import refrun
from small import operator


class Torch(unittest.TestCase):
    def setUp(self):
        self.module, self.x = operator(), torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))

    def eager(self, dtype=None):
        torch.manual_seed(5)
        with torch.no_grad(), torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            return self.module(self.x)

    def test_like_eager(self):
        """It has the module's type, and draws its noise: the generator stands where the module leaves it."""
        for dtype, tolerance in ((None, 2e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            y = self.eager(dtype)
            after = torch.rand(1)
            ref = refrun.reference(self.module, precision=str(dtype or torch.float32)[6:], autocast="cpu" if dtype else None)
            torch.manual_seed(5)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                r = ref(self.x)
            self.assertEqual(torch.rand(1), after)
            self.assertEqual((r.dtype, r.shape, r.device, r.requires_grad), (y.dtype, y.shape, y.device, False))
            self.assertLess((r.double() - y.double()).abs().max(), tolerance)
            r.zero_()  # writable
            ref.close()

    def test_precision(self):
        """A precision may be a dtype, or a short name of one."""
        for p in (torch.bfloat16, "bf16", "torch.bfloat16"):
            ref = refrun.reference(self.module, precision=p, noise="none")
            self.assertIn("bfloat16/", repr(ref))
            ref.close()
        y = refrun.reference(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), precision=torch.float16)(torch.ones(1, 4))
        self.assertEqual(y.dtype, torch.float16)
        refrun.assert_same(self.module, self.x, self.eager(torch.bfloat16), precision=torch.bfloat16, autocast="cpu")
        with self.assertRaisesRegex(refrun.CaseError, "want one of float64, float32, tf32, float16, bfloat16"):
            refrun.reference(self.module, precision=torch.int8)

    def test_module(self):
        """It is a module: in a Sequential, copied, in evaluation mode; channels last are read as they are meant."""
        ref = refrun.reference(self.module, noise="none")
        y = ref(self.x)
        self.assertIsInstance(ref, nn.Module)
        self.assertTrue(torch.equal(nn.Sequential(ref, nn.Identity()).eval()(self.x), y))
        self.assertTrue(torch.equal(copy.deepcopy(ref)(self.x), y))
        self.assertTrue(torch.equal(ref(self.x.contiguous(memory_format=torch.channels_last)), y))
        self.assertIn("noise-none", repr(ref))
        with torch.no_grad():
            self.module.out.weight.zero_()
        self.assertTrue(torch.equal(ref(self.x), y))  # the weights are those of then
        ref.close()

    def test_same(self):
        torch.manual_seed(5)
        draws = torch.randn(2, 8, 32, 32)
        y = self.eager()
        refrun.assert_same(self.module, self.x, y, draws=draws)
        with self.assertRaisesRegex(AssertionError, "VERDICT  FAIL"):
            refrun.assert_same(self.module, self.x, y * 1.001, draws=draws)

    def test_run(self):
        r = refrun.run(self.module, self.x, steps=3, seed=7)
        self.assertEqual((r.states.shape, r.noise), ((2, 4, 3, 32, 32), "counter"))
        self.assertTrue(torch.equal(r.states[:, 0], self.x))
        with refrun.reference(self.module, noise="none").reference as plain:  # its steps, one by one
            x = self.x
            states = plain.run(self.x, steps=3).states
            for t in range(3):
                x = 0.5 * x + 0.5 * plain(x)
                self.assertLess((x - states[:, t + 1]).abs().max(), 2e-6)


class Branches(nn.Module):
    """No operator of a rollout: other sizes, two inputs, whole numbers, several outputs."""

    def __init__(self):
        super().__init__()
        self.down, self.table, self.out = nn.Conv2d(3, 8, 3, stride=2), nn.Embedding(5, 8), nn.Linear(8, 4)

    def forward(self, x, which, scale=1.0):
        y = torch.relu(self.down(x)).mean((2, 3)) + self.table(which)
        return {"y": self.out(y) * scale, "best": (y.argmax(-1), None)}, y > 0.2


class AnyModule(unittest.TestCase):
    def test_network(self):
        torch.manual_seed(0)
        m = Branches().eval()
        exact = refrun.reference(m)
        for n in (2, 3, 2):
            x, which = torch.randn(n, 3, 9, 9), torch.arange(n)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                (a, mask), (b, want) = exact(x, which, scale=2.0), m(x, which, scale=2.0)
            self.assertLess((a["y"] - b["y"]).abs().max(), 1e-6)
            self.assertTrue(torch.equal(a["best"][0], b["best"][0]) and a["best"][1] is None and torch.equal(mask, want))
            self.assertEqual((a["best"][0].dtype, mask.dtype, a["y"].requires_grad), (torch.int64, torch.bool, False))
        self.assertEqual(len(exact._opened), 2)
        self.assertGreater(exact.seconds, 0)
        self.assertTrue(torch.equal(copy.deepcopy(exact)(x, which, scale=2.0)[0]["y"], a["y"]))
        double = refrun.reference(m, precision="float64")
        y = double(x, which, scale=2.0)[0]["y"]
        self.assertEqual(y.dtype, torch.float64)
        self.assertTrue(torch.equal(y.float(), a["y"]) or (y - a["y"]).abs().max() < 1e-6)
        with self.assertRaisesRegex(refrun.CaseError, "run: "):
            exact.run(x)
        exact.close()

    def test_unsupported(self):
        """What refrun has no operation for is said at the first call, by name."""
        class M(nn.Module):
            def forward(self, x):
                return torch.special.bessel_j0(x)

        with self.assertRaisesRegex(refrun.UnsupportedLayer, "special_bessel_j0"):
            refrun.reference(M())(torch.randn(2, 3))


if __name__ == "__main__":
    unittest.main()
