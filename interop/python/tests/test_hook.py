"""Submodules in a training step, right and wrong, judged one by one."""

import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import refrun


class Model(nn.Module):
    """Its norm is called twice, its embedding is its last weight, too, and an activation writes its input."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.linear, self.act, self.drop = nn.Embedding(20, 8), nn.RMSNorm(8, eps=1e-5), nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.2)

    def forward(self, i):
        x = self.norm(self.embedding(i))
        x = x + self.drop(self.act(self.linear(x)))
        return F.linear(self.norm(x), self.embedding.weight)


class Half(torch.autograd.Function):
    """A silu as a kernel of one's own, whose backward pass forgets a term."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.silu(x)

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        return d * torch.sigmoid(x)


class Own(nn.Module):
    def forward(self, x):
        return Half.apply(x)


def step(model, x, **autocast):
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)):
        y = model(x)
    (y.float() * torch.randn(y.shape)).sum().backward()


class Hook(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(49)

    def test_right(self):
        words = torch.randint(0, 20, (4, 6))
        for mode in ("float32", "autocast"):
            model, plain = Model(), Model()
            plain.load_state_dict(model.state_dict())
            with refrun.hook(model) as seen:
                torch.manual_seed(7)
                step(model, words, **({"on": True} if mode == "autocast" else {}))
            r = seen.check()
            self.assertTrue(r.ok, r)
            self.assertEqual(seen.calls, ["embedding", "norm", "linear", "act", "drop", "norm"])
            self.assertIn("norm@1", {w["module"] for w in r.rows})
            self.assertIn("gradient of weight", {w["value"] for w in r.rows if w["module"] == "embedding"})
            torch.manual_seed(7)
            step(plain, words, **({"on": True} if mode == "autocast" else {}))
            for a, b in zip(model.parameters(), plain.parameters()):  # nothing of the step has changed
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-6, atol=1e-6)
                self.assertIs(type(a), nn.Parameter)

    def test_wrong_forward(self):
        right, model = F.rms_norm, Model()
        with refrun.hook(model) as seen, mock.patch.object(F, "rms_norm", lambda x, s, w, eps: right(x, s, w, 1e-2)):
            step(model, torch.randint(0, 20, (4, 6)))
        r = seen.check()
        self.assertEqual((r.verdict, r.first_layer), ("FAIL", "norm"))
        self.assertEqual({w["class"] for w in r.rows if w["verdict"] == "FAIL"}, {"RMSNorm"})
        self.assertIn("eps is 0.01", r.diagnosis)

    def test_wrong_backward(self):
        model = nn.Sequential(nn.Linear(8, 16), Own(), nn.Linear(16, 8))
        with refrun.hook(model) as seen:
            step(model, torch.randn(6, 8))
        r = seen.check()
        self.assertEqual([(w["module"], w["value"]) for w in r.rows if w["verdict"] == "FAIL"], [("1", "gradient of input")])
        with refrun.hook(model, {"1": lambda m, x: F.gelu(x)}) as seen:  # another function is what it should be
            step(model, torch.randn(6, 8))
        self.assertEqual([w["verdict"] for w in seen.check().rows], ["FAIL", "FAIL"])

    def test_lost(self):
        """A gradient that never arrives is one of zeros."""
        class Detached(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(8))

            def forward(self, x):
                return x * (self.weight if torch.compiler.is_exporting() else self.weight.detach())

        model = nn.Sequential(nn.Linear(8, 8), Detached())
        with refrun.hook(model) as seen:
            step(model, torch.randn(6, 8))
        self.assertEqual([(w["module"], w["value"]) for w in seen.check().rows if w["verdict"] == "FAIL"], [("1", "gradient of weight")])

    def test_dropout(self):
        """The mask is read off; how many numbers it keeps is judged, and by what it multiplies them."""
        model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5))
        for right, wrong in ((None, "PASS"), (lambda x, p, training, inplace: x * (torch.rand_like(x) > p), "FAIL")):
            with refrun.hook(model, ["1"]) as seen, mock.patch.object(F, "dropout", right or F.dropout):
                step(model, torch.randn(32, 8))
            self.assertEqual(seen.check().verdict, wrong)
        with refrun.hook(model, ["1"]) as seen, mock.patch.object(F, "dropout", lambda x, p, *_: torch.where(torch.rand_like(x) > 0.8, x * 2, 0)):
            step(model, torch.randn(32, 8))
        r = seen.check()
        self.assertEqual(r.verdict, "NO-POWER")
        self.assertIn("no dropout of 0.5 does so", r.unjudged[0])

    def test_recurrent(self):
        """Layers of recurrent cells, whose weights and gradients are judged as any others are."""
        real = torch._VF.lstm

        def changed(weight):
            return lambda x, h, w, *rest: real(x, h, [w[0], weight(w[1]), *w[2:]], *rest)

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, w):
                return w.clone()

            @staticmethod
            def backward(ctx, d):
                return d * 1.01

        model = nn.Sequential(nn.LSTM(3, 4))
        for lstm, wrong in ((real, set()), (changed(lambda w: w.roll(1, 0)), {"output 0", "output 1", "output 2"}), (changed(Scaled.apply), {"gradient of weight_hh_l0"})):
            with refrun.hook(model) as seen, mock.patch.object(torch._VF, "lstm", lstm):
                y, (h, c) = model(torch.randn(4, 5, 3))
            (y * torch.randn(y.shape)).sum().backward()
            r = seen.check()
            self.assertLessEqual(wrong, {w["value"] for w in r.rows if w["verdict"] == "FAIL"})
            self.assertEqual((r.verdict, bool(r.unjudged)), ("FAIL" if wrong else "PASS", False), r)
        self.assertIn("gradient of bias_hh_l0", {w["value"] for w in r.rows})

    def test_unjudged(self):
        model = nn.ModuleDict({"used": nn.Linear(4, 4), "left": nn.Linear(4, 4)})
        with refrun.hook(model) as seen:
            step(model["used"], torch.randn(3, 4))
        r = seen.check()
        self.assertEqual(r.verdict, "NO-POWER")
        self.assertIn("left: it was not called", r.unjudged[0])
        with self.assertRaises(refrun.CaseError) as e:
            refrun.hook(model, ["lost"])
        self.assertIn("lost: no submodule has that name: want such as used, left", str(e.exception))

    def test_again(self):
        """Gradient accumulation: each backward pass belongs to its own call. Recomputed calls have gradients once."""
        from torch.utils.checkpoint import checkpoint

        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        with refrun.hook(model) as seen:
            for _ in range(2):
                step(model, torch.randn(3, 8))
            step(lambda x: checkpoint(model, x, use_reentrant=False), torch.randn(3, 8))
        r = seen.check()
        self.assertTrue(r.ok, r)
        self.assertEqual(sum(w["value"] == "gradient of weight" for w in r.rows), 3)


if __name__ == "__main__":
    unittest.main()
