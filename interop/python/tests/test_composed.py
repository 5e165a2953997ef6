"""Functions that are composed of refrun's operations: what PyTorch returns passes, eager and in half types, and what is wrong fails."""

import unittest

import refrun
import torch
import torch.nn.functional as F

L = torch.linalg
HALF = (torch.float32, torch.bfloat16)


class Composed(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(12)
        self.x, self.y = torch.randn(2, 24, 40)

    def hold(self, f, inputs, *wrong, types=(torch.float32,)):
        for dtype in types:
            given = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
            right = f(*given)
            right = list(right) if isinstance(right, tuple) else right
            with self.subTest(f=str(f), dtype=dtype):
                r = refrun.check_kernel(f, given, right)
                self.assertEqual(r.verdict, "PASS", str(r))
                first = right[0] if isinstance(right, list) else right
                bent = first.clone().contiguous()
                place = bent.abs().nan_to_num(0, 0, 0).argmax() if bent.dtype != torch.bool else 0
                bent.view(-1)[place] = ~bent.view(-1)[place] if bent.dtype == torch.bool else bent.view(-1)[place] * 1.02 + (not bent.is_floating_point())
                for k, y in enumerate([bent, *(w(*given) for w in wrong)]):
                    self.assertEqual(refrun.check_kernel(f, given, [y, *right[1:]] if isinstance(right, list) else y).verdict, "FAIL", k)

    def test_whole_beside_half(self):
        """Whole numbers beside half ones are of their type, in PyTorch rounded to it and in a fused kernel not."""
        torch.manual_seed(0)
        x = (torch.randn(300, 4) + 1).bfloat16()
        x[torch.rand(300, 4) < 0.1] = torch.nan
        mean = lambda x: torch.nanmean(x, 0)
        y, fused = mean(x), mean(x.float()).bfloat16()
        self.assertFalse(torch.equal(y, fused))
        for right in (y, fused):
            refrun.assert_kernel(mean, [x], right)
        y[1] *= 1.02
        self.assertEqual(refrun.check_kernel(mean, [x], y).verdict, "FAIL")

    def test_order(self):
        self.hold(lambda x: torch.cummax(x, -1), [self.x], lambda x: x, types=HALF)
        self.hold(lambda x: torch.cummin(x, 0)[0], [self.x], lambda x: torch.cummin(x, 1)[0])
        self.hold(lambda x: torch.median(x, -1), [self.x], lambda x: x.sort(-1)[0][:, 20])
        self.hold(lambda x: torch.kthvalue(x, 5, 0)[0], [self.x], lambda x: torch.kthvalue(x, 6, 0)[0])
        self.hold(lambda x: torch.quantile(x, 0.3, -1), [self.x], lambda x: torch.quantile(x, 0.3, -1, interpolation="lower"))
        nan = torch.where(self.x > 1, torch.nan, self.x)
        r = refrun.check_kernel(lambda x: x.median(-1)[0], [nan], nan.nanmedian(-1)[0])
        self.assertEqual(r.verdict, "FAIL")
        self.assertEqual(refrun.check_kernel(torch.nanmedian, [nan], nan.median()).verdict, "FAIL")

    def test_functions(self):
        self.hold(torch.atanh, [self.x.tanh()], lambda x: x, types=HALF)
        self.hold(lambda x: torch.logcumsumexp(x, -1), [self.x], lambda x: x.cumsum(-1))
        zeros = torch.where(self.y > 1, -torch.zeros(()), self.y)
        self.hold(torch.copysign, [self.x, zeros], lambda x, y: x.abs() * y.sign())
        self.hold(torch.signbit, [zeros], lambda x: x < 0)
        self.hold(lambda x: torch.round(x, decimals=2), [self.x], lambda x: x)
        self.hold(F.gaussian_nll_loss, [self.x, self.y, self.x.exp()])

    def test_matrices(self):
        self.hold(torch.trace, [self.x])
        self.hold(lambda x: x.diagonal(1), [self.x], lambda x: x.diagonal())
        self.hold(lambda x: x.diagonal(-3, 1, 0), [self.x], lambda x: x.diagonal(-2, 1, 0)[:24])
        self.hold(lambda x: L.vector_norm(x, 3, -1), [self.x], lambda x: L.vector_norm(x, 4, -1))
        for p in (1, 3, float("inf")):
            self.hold(lambda x, y: torch.cdist(x, y, p), [self.x[:10], self.y[:12]], lambda x, y: torch.cdist(x, y))
        self.hold(torch.pdist, [self.x[:10]])
        self.hold(torch.cov, [self.x], lambda x: torch.cov(x, correction=0), types=HALF)
        self.hold(torch.corrcoef, [self.x], torch.cov)
        self.hold(torch.addbmm, [self.x[:4, :5], torch.randn(2, 4, 6), torch.randn(2, 6, 5)])
        self.hold(lambda x: x.swapaxes(0, 1), [self.x])

    def test_places(self):
        at, mask = torch.tensor([1, 4]), self.y > 0
        self.hold(lambda x, i: x.index_fill(1, i, 0.5), [self.x, at], lambda x, i: x)
        self.hold(lambda x, i, s: x.index_copy(1, i, s), [self.x, at, self.y[:, :2]], lambda x, i, s: x.index_copy(1, i.flip(0), s))
        self.hold(lambda x, m, s: x.masked_scatter(m, s), [self.x, mask, self.y], lambda x, m, s: torch.where(m, s, x), types=HALF)
        self.hold(lambda x: torch.count_nonzero(x, 1), [mask.float()])
        self.assertEqual(refrun.check_kernel(lambda x: x.argmax(), [self.x], self.x.argmin()).verdict, "FAIL")

    def test_counts_in_half(self):
        for dtype in (torch.bfloat16, torch.float16):
            x = self.x.to(dtype)
            right = x.histc(10, -3, 3)
            self.assertEqual(refrun.check_kernel("histc", [x], right, bins=10, min=-3, max=3).verdict, "PASS")
            self.assertEqual(refrun.check_kernel("histc", [x], right.flip(0), bins=10, min=-3, max=3).verdict, "FAIL")


if __name__ == "__main__":
    unittest.main()
