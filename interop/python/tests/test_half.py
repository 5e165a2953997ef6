"""Half states: models, states and autocast in half types, recorded and judged."""

import contextlib
import json
import tempfile
import unittest
import warnings
from pathlib import Path

import torch
from torch import nn

import refrun
from small import operator

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def rollout(path, half, way, policy, fault=None, layers=False, claim=None):
    """Records a rollout of a half model ("model"), of autocast from a half start ("autocast"), or of a half
    model between float32 states ("between"); nobody says in which type states are."""
    op, dtype, context = operator(seed=1), HALVES[half], contextlib.nullcontext()
    torch.manual_seed(2)
    x = torch.randn(2, 3, 24, 24)
    if way != "between":
        x = x.to(dtype)
    if way == "autocast":
        context = torch.autocast("cpu", dtype)
    else:
        op = op.to(dtype)
    options = {"alpha": 0.5} if policy == "convex" else {"dt": 0.5}
    with torch.no_grad(), context, refrun.record(path, op, policy=policy, precision=claim, layers=layers, **options) as rec:
        for t in range(4):
            if way == "between":
                rec.state(x)
                o = op(x.to(dtype)).float()
            else:
                o = op(x)
            if fault and t == 2:
                o = fault(o)
            x = 0.5 * x + 0.5 * o if policy == "convex" else x + 0.5 * o
        rec.finish(x)


class Half(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.case = Path(d.name) / "case"

    def test_all(self):
        """Every way passes, with the contract named, and a fault in the third step is found there (not each is asked for)."""
        for half in HALVES:
            for way in ("model", "autocast", "between"):
                for policy in ("convex", "residual"):
                    with self.subTest(half=half, way=way, policy=policy):
                        state = "float32" if way == "between" else half
                        rollout(self.case, half, way, policy, layers=policy == "convex")
                        r = refrun.check(self.case)
                        self.assertTrue(r.ok, str(r))
                        self.assertTrue(r.contract.startswith(f"{half}/autocast-cpu/state-{state}/"), r.contract)
                        if way != "between" and (half, policy) == ("float16", "convex"):
                            self.assertEqual(refrun.check(self.case, claim=f"{half}/state-float32").diagnosis, f"state kept in {half}")
                        if (half == "bfloat16") == (policy == "residual"):
                            continue
                        rollout(self.case, half, way, policy, fault=lambda o: o.flip(-1))
                        r = refrun.check(self.case)
                        self.assertEqual((r.verdict, r.first_step), ("FAIL-LOGIC", 3), str(r))

    def test_forgotten_state(self):
        """A module that is given x.half() does not show the state: it is said what to do."""
        op = operator(seed=1, noise=0).half()
        x = torch.randn(1, 3, 8, 8)
        with warnings.catch_warnings(record=True) as said, torch.no_grad():
            warnings.simplefilter("always")
            with refrun.record(self.case, op) as rec:
                for _ in range(2):
                    x = 0.5 * x + 0.5 * op(x.half()).float()
                rec.finish(x)
        self.assertIn("call state(x) before the module", " ".join(str(w.message) for w in said))


class PostProcessed(unittest.TestCase):
    """Clamps, normalizations, dropout, and draws of two kinds and two types."""

    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.case = Path(d.name) / "case"

    def roll(self, op, post=lambda x: x, context=contextlib.nullcontext, start=None, **options):
        torch.manual_seed(4)
        x = torch.randn(2, 3, 16, 16) if start is None else start
        with torch.no_grad(), context(), refrun.record(self.case, op, policy="convex", alpha=0.5, **options) as rec:
            for _ in range(3):
                x = post(0.5 * x + 0.5 * op(x))
            rec.finish(x)
        return refrun.check(self.case)

    def test_post(self):
        def minmax(x):
            return (x - x.min()) / (x.max() - x.min())

        def each(x):
            return torch.stack([(s - s.mean()) / (s.std() + 1e-8) for s in x])

        for post, options in ((lambda x: x.clamp(-0.5, 0.5), {"clamp": (-0.5, 0.5)}), (minmax, {"normalization": "minmax"}), (each, {"normalization": "zscore", "each": True})):
            with self.subTest(**options):
                self.assertEqual(self.roll(operator(), post, **options).verdict, "PASS-CONFORMING")
                self.assertFalse(self.roll(operator(), post).ok)  # where it is not said

    def test_dropout(self):
        op = operator(noise=0)
        op.noise = nn.Dropout2d(0.3)
        op.noise.train()
        self.assertEqual(self.roll(op).verdict, "PASS-CONFORMING")
        self.assertTrue((self.case / "noise.safetensors").exists())
        op.noise.eval()
        self.assertEqual(self.roll(op).verdict, "PASS-CONFORMING")
        self.assertFalse((self.case / "noise.safetensors").exists())

    def test_laplace(self):
        class Laplace(nn.Module):
            def forward(self, x):
                e = torch.empty_like(x).exponential_()
                return x + e * torch.sign(torch.randn_like(x)) * 0.05

        op = operator(noise=0)
        op.noise = Laplace()
        r = self.roll(op, noise={"noise": ("laplace", 0.05)}, layers=True)
        self.assertEqual(r.verdict, "PASS-CONFORMING", str(r))
        self.assertIn("/noise-tape", r.claim)

    def test_two_types(self):
        """Draws of the first step are float32, those of the others bfloat16."""
        class First(nn.Module):  # noise on the input, which is wide only once
            def __init__(self):
                super().__init__()
                self.out = nn.Conv2d(3, 3, 3, padding=1)

            def forward(self, x):
                return self.out(x + torch.randn_like(x) * 0.05)

        torch.manual_seed(0)
        op, x = First(), torch.randn(2, 3, 16, 16)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), refrun.record(self.case, op, policy="autoregressive", input_channels=3) as rec:
            for _ in range(3):
                x = op(x)
            rec.finish(x)
        r = refrun.check(self.case)
        self.assertTrue(r.ok, str(r))
        self.assertEqual(json.loads((self.case / "case.json").read_text())["rollout"]["precision"], "bfloat16")



class Casts(unittest.TestCase):
    """Casts in a module's own code, of which a recording in float32 has nothing."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.first, self.last = nn.Parameter(1 + torch.randn(64)), nn.Linear(64, 64), nn.Linear(64, 48)

        def forward(self, x, by=1.0):
            x = self.first(x)
            f = x.float()
            f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.last(by * f.to(x.dtype) * self.weight)

    def test_described_before(self):
        for half, dtype in HALVES.items():
            with self.subTest(half=half):
                torch.manual_seed(1)
                m, x = self.Norm(), torch.randn(20, 64)
                net, claim = refrun.describe(m, (x,)), {"precision": half, "autocast": "cpu"}
                with torch.no_grad(), torch.autocast("cpu", dtype):
                    right, wrong = m(x), m(x, 1.02)
                self.assertTrue(refrun.check_model(net, (x,), right, **claim).ok)
                self.assertFalse(refrun.check_model(net, (x,), wrong, **claim).ok)
                with torch.no_grad():
                    m.weight *= 1.02
                with torch.autocast("cpu", dtype):
                    self.assertFalse(refrun.check_model(net, (x,), m(x), **claim).ok)  # what was described is what is right


if __name__ == "__main__":
    unittest.main()