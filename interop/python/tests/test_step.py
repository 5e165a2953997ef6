"""Rollouts whose step is any module or function."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import refrun


class Cell(nn.Module):
    """A cell with a hidden state on a line of prime length."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Conv1d(7, 4, 3, padding=1), nn.Conv1d(4, 3, 3, padding=1)

    def forward(self, s, f, eps):
        h = torch.tanh(self.mix(torch.cat([s["x"] + f, s["h"]], 1)))
        return {"h": h, "x": 0.9 * s["x"] + self.out(h) + 0.1 * eps}


class Steps(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)
        self.cell = Cell().eval()
        self.state = {"x": torch.randn(2, 3, 89), "h": torch.randn(2, 4, 89)}
        self.given = {"forcing": {"f": torch.randn(6, 3, 1)}, "noise": {"eps": torch.randn(6, 2, 3, 89)}}

    def test_states(self):
        """States, forcing and noise of a module: a right device passes in each precision, and a stale hidden state fails at its step."""
        for precision in ("float32", "bfloat16", "float16"):
            with torch.autocast("cpu", getattr(torch, precision), enabled=precision != "float32"):
                states = refrun.record(self.dir / precision, self.cell, self.state, steps=6, **self.given)
            self.assertEqual(len(states), 7)
            r = refrun.check(self.dir / precision)
            self.assertTrue(r.ok, str(r))
        before = []

        def stale(s, f, eps):
            before.append(s)
            return self.cell({**s, "h": before[-2]["h"]} if len(before) > 3 else s, f, eps)

        refrun.record(self.dir / "stale", stale, self.state, steps=6, like=self.cell, **self.given)
        r = refrun.check(self.dir / "stale")
        self.assertEqual((r.verdict[:4], r.first_step), ("FAIL", 4), str(r))

    def test_function(self):
        """A function of the state, the state before and a forcing by its place, of numbers and without samples."""
        grid = torch.linspace(0, 1, 700)

        def step(x, before, f):
            return x + 0.1 * torch.sin(3 * x - before) * grid + f

        f = torch.linspace(0, 0.1, 8)
        states = refrun.record(self.dir / "case", step, torch.randn(700), steps=8, forcing=f, past=torch.randn(700))
        inputs = [i["name"] for i in json.loads((self.dir / "case" / "step.json").read_text())["inputs"]]
        self.assertEqual(inputs, ["state", "state.1", "forcing.f"])
        self.assertTrue(refrun.check(self.dir / "case").ok)
        self.assertEqual([s.shape for s in states], [(700,)] * 9)

    def test_run(self):
        """A free rollout: PyTorch's, to float32's rounding."""
        got = refrun.run(self.cell, self.state, steps=6, **self.given)
        want = refrun.record(self.dir / "case", self.cell, self.state, steps=6, **self.given)
        for a, b in zip(got.states, want):
            self.assertEqual(set(a), {"x", "h"})
            for name in a:
                torch.testing.assert_close(a[name], b[name])
        self.assertTrue(any(not torch.equal(a["x"], b["x"]) for a, b in zip(got.states, want)))  # rounded once

    def test_images(self):
        """Modules of images that are not square, of lines and of volumes, with a policy, as those of square images."""
        for kind, shape in ((nn.Conv1d, (2, 3, 331)), (nn.Conv2d, (2, 3, 17, 23)), (nn.Conv3d, (2, 3, 7, 11, 5))):
            torch.manual_seed(1)
            m = nn.Sequential(kind(3, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(1) if kind is nn.Conv2d else nn.Identity(), kind(8, 3, 3, padding=1)).eval()
            first = torch.randn(shape)
            for wrong in (False, True):
                x = first
                with torch.no_grad(), refrun.record(self.dir / "case", m, policy="residual", dt=0.1, clamp=(-9, 9)) as rec:
                    for t in range(4):
                        x = (x + (0.101 if wrong and t == 2 else 0.1) * m(x)).clamp(-9, 9)
                    rec.finish(x)
                r = refrun.check(self.dir / "case")
                self.assertEqual((r.verdict[:4], r.first_step), ("FAIL", 3) if wrong else ("PASS", -1), str(r))
            with torch.no_grad():
                y = m(first)
            if first.numel() > 2000:
                wide = torch.cat([first] * 3)
                self.assertTrue(refrun.assert_same(m, wide, m(wide).detach()).ok)
                with self.assertRaises(AssertionError):
                    refrun.assert_same(m, wide, (m(wide) * 1.001).detach())
            a = refrun.run(m, first, steps=1, policy="autoregressive").states
            torch.testing.assert_close(a[-1], y)

    def test_refused(self):
        def step(x, f):
            return x + f

        x = torch.randn(3, 5)
        for given, text in (({"forcing": torch.randn(3, 5)}, "forcing: f: 3 of them: want 4, one for each step"),
                            ({"forcing": [x, x, x, x[:2]]}, r"forcing: f: step 4: shape \[2, 5\]: want \[3, 5\], as of step 1"),
                            ({"forcing": torch.randn(4, 2, 3, 5)}, r"step: returns state of shape \[2, 3, 5\]: want \[3, 5\], as it was given")):
            with self.assertRaisesRegex(refrun.CaseError, text):
                refrun.record(self.dir / "case", step, x, steps=4, **given)
        with self.assertRaisesRegex(refrun.CaseError, "step: returns state.a: want the next state.a, state.b"):
            refrun.record(self.dir / "case", lambda s: {"a": s["a"] + s["b"]}, {"a": x, "b": x}, steps=2)
        with self.assertRaisesRegex(refrun.CaseError, "past: of a state of several tensors"):
            refrun.record(self.dir / "case", lambda s: s, {"a": x}, steps=2, past=x)


if __name__ == "__main__":
    unittest.main()
