"""Losses and batch norms in training, as functions and modules: right kernels pass, wrong ones fail."""

import unittest

import refrun
import torch
import torch.nn.functional as F
from torch import nn


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.forward = f


def wide(f):
    """A kernel that computes in float32 and rounds its result."""
    return lambda *a: f(*(x.float() if x.is_floating_point() else x for x in a)).to(a[0].dtype)


class Losses(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        self.x, self.target = 3 * torch.randn(37, 10), torch.randint(0, 10, (37,))
        self.p, self.weight = torch.softmax(torch.randn(37, 10), 1), torch.rand(10) + 0.5

    def cases(self):
        """A loss, its inputs, and losses that are mistaken for it."""
        x, t, p, w = self.x, self.target, self.p, self.weight
        image, classes = torch.randn(2, 5, 4, 3), torch.randint(0, 5, (2, 4, 3))
        shares = lambda x, p: F.cross_entropy(x, p)
        return (
            (F.cross_entropy, [x, t], [lambda x, t: F.cross_entropy(x, t, reduction="sum") / 38, F.multi_margin_loss]),
            (
                lambda x, t: F.cross_entropy(x, t, reduction="none"),
                [x, t],
                [lambda x, t: -F.softmax(x, 1)[range(37), t]],
            ),
            (lambda x, t: F.cross_entropy(x, t, ignore_index=3), [x, t], [F.cross_entropy]),
            (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [x, t], [F.cross_entropy]),
            (lambda x, t, w: F.cross_entropy(x, t, w), [x, t, w], [lambda x, t, w: F.cross_entropy(x, t)]),
            (
                lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2),
                [x, t, w],
                [lambda x, t, w: F.cross_entropy(x, t, label_smoothing=0.2), lambda x, t, w: F.cross_entropy(x, t, w)],
            ),
            (shares, [x, p], [lambda x, p: F.cross_entropy(x, p, reduction="sum") / 370]),
            (F.cross_entropy, [image, classes], [lambda x, t: F.cross_entropy(x.roll(1, 1), t)]),
            (lambda x, t: F.nll_loss(x, t, ignore_index=2), [F.log_softmax(x, 1), t], [F.nll_loss]),
            (
                lambda x, p: F.kl_div(x, p, reduction="batchmean"),
                [F.log_softmax(x, 1), p],
                [lambda x, p: F.kl_div(x, p, reduction="mean"), lambda x, p: -(p * x).sum() / 37],
            ),
            (
                lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
                [F.log_softmax(x, 1), p.log()],
                [lambda x, y: F.kl_div(y, x, reduction="sum", log_target=True)],
            ),
        )

    def test_losses(self):
        """Right ones pass; of a single number in half some inputs show nothing. Wrong ones fail in float32."""
        for k, (loss, inputs, others) in enumerate(self.cases()):
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(loss=k, dtype=dtype):
                    given = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
                    net = refrun.describe(Of(loss), given)
                    right = refrun.check_kernel(net, given, wide(loss)(*given))
                    self.assertIn(right.verdict, ("PASS",) if dtype == torch.float32 else ("PASS", "NO-POWER"), right)
                    for other in others if dtype == torch.float32 else ():
                        wrong = refrun.check_kernel(net, given, wide(other)(*given))
                        self.assertEqual(wrong.verdict, "FAIL", wrong)

    def test_batch_norm_in_training(self):
        """A batch norm in training has the batch's statistics; describing it changes no running ones."""
        for dtype in (torch.float32, torch.bfloat16):
            module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.0)).to(dtype)
            x = torch.randn(2, 3, 9, 9).to(dtype)
            with torch.no_grad():
                right, evaluated = module(x), module.eval()(x)
                values = module[0](x).float()
                unbiased = (values - values.mean((0, 2, 3), keepdim=True)) / (
                    values.var((0, 2, 3), keepdim=True) + 1e-5
                ).sqrt()
            module.train()
            before = module[1].running_mean.clone()
            self.assertEqual(refrun.check_kernel(module, [x], right).verdict, "PASS")
            for wrong in (evaluated, unbiased.relu().to(dtype)):
                self.assertEqual(refrun.check_kernel(module, [x], wrong).verdict, "FAIL")
            self.assertTrue(torch.equal(module[1].running_mean, before))
            net = refrun.describe(module, [x])
            self.assertEqual(refrun.check_kernel(net, [x], right).verdict, "PASS")


if __name__ == "__main__":
    unittest.main()
