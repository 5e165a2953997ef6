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

    def test_double(self):
        """A state in float64 is recorded as that, by either way; one that was computed in float32 fails with the name."""
        double = lambda t: {k: double(v) for k, v in t.items()} if isinstance(t, dict) else t.double()
        single = lambda t: {k: single(v) for k, v in t.items()} if isinstance(t, dict) else t.float()
        cell, state, given = Cell().double().eval(), double(self.state), double(self.given)
        as_single = lambda s, **k: double(self.cell(single(s), **single(k)))
        self.cell.load_state_dict(cell.state_dict())
        for name, step, fault in (("right", cell, ""), ("single", as_single, "float32 in place of the claimed mode")):
            refrun.record(self.dir / name, step, state, steps=6, like=cell, **given)
            with refrun.record(self.dir / (name + "-calls"), step, like=cell) as rec, torch.no_grad():
                x = state
                for t in range(6):
                    x = rec(x, f=given["forcing"]["f"][t], eps=given["noise"]["eps"][t])
            for case in (name, name + "-calls"):
                r = refrun.check(self.dir / case)
                self.assertEqual((r.ok, r.claim[:7], r.diagnosis), (not fault, "float64", fault), str(r))

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

    def test_loop(self):
        """The loop calls the recorder. What changes is forcing, what does not is static, what is drawn is an input; and programs that
        write to their state, draw by a generator, or use a number as an index or to make tensors are followed."""
        net, fields, generator = nn.Conv1d(3, 3, 3, padding=1), torch.randn(6, 2, 3, 331), torch.Generator().manual_seed(1)
        x = torch.randn(2, 3, 331)

        def step(x, t, land):
            angle = torch.sin(torch.full((2,), t) + torch.tensor([t / 2, 1.0]))[:, None, None]
            x += 0.1 * net(x + fields[t] + land) * angle
            return x + 0.01 * torch.randn(x.shape, generator=generator)

        def run(step):
            y = x.clone()
            with torch.no_grad(), refrun.record(self.dir / "case", step, like=plain) as rec:
                for t in range(6):
                    y = rec(y, t, land=fields[0])
            return refrun.check(self.dir / "case")

        plain = step
        r = run(step)
        self.assertTrue(r.ok, str(r))
        names = [i["name"] for i in json.loads((self.dir / "case" / "step.json").read_text())["inputs"]]
        self.assertEqual(names, ["state", "forcing.t", "static.land", "noise.draw0"])
        r = run(lambda x, t, land: step(x, t, 1.01 * land))
        self.assertEqual(r.verdict[:4], "FAIL", str(r))

    def test_loop_begins_again(self):
        """States from elsewhere are judged from what was given, and a warning says so."""
        net = nn.Conv2d(3, 3, 3, padding=1)
        data = torch.randn(7, 2, 3, 16, 17)
        for factor, verdict in ((1, "PASS"), (1.01, "FAIL")):
            with self.assertWarnsRegex(UserWarning, "step 2 is given another state than step 1 returned"), torch.no_grad():
                with refrun.record(self.dir / "case", lambda x: x + factor * net(x), like=lambda x: x + net(x)) as rec:
                    for x in data:
                        rec(x)
            r = refrun.check(self.dir / "case")
            self.assertEqual(r.verdict[:4], verdict, str(r))

    def test_dropout_and_running_statistics(self):
        """Active dropout is a draw, a norm in training is of its batch, and the recording leaves its running statistics."""
        net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout2d(0.3), nn.Conv2d(8, 3, 1), nn.Dropout(0.1)).train()
        x = torch.randn(2, 3, 24, 24)
        with torch.no_grad(), refrun.record(self.dir / "case", lambda x: x + net(x)) as rec:
            for _ in range(6):
                x = rec(x)
        self.assertTrue(refrun.check(self.dir / "case").ok)
        self.assertEqual(int(net[1].num_batches_tracked), 6)

    def test_zeros_that_stand_still(self):
        """Where a mask keeps most of a state at zero, what is left is enough."""
        land = (torch.rand(1, 1, 48, 48) < 0.1).float()
        net = nn.Conv2d(3, 3, 3, padding=1)
        for factor, verdict in ((1, "PASS"), (1.01, "FAIL")):
            x = torch.randn(2, 3, 48, 48) * land
            with torch.no_grad(), refrun.record(self.dir / "case", lambda x: land * (x + factor * net(x)), like=lambda x: land * (x + net(x))) as rec:
                for _ in range(6):
                    x = rec(x)
            self.assertEqual(refrun.check(self.dir / "case").verdict[:4], verdict)

    def test_functions(self):
        """Functions of one number as PyTorch's CPU has them, in each precision; and 1e-5 or 2 % more."""
        near = lambda x: x.clamp(-1, 1)
        functions = {"sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "acosh": lambda x: torch.acosh(1 + x.abs()), "asin": lambda x: torch.asin(near(x)),
                     "acos": lambda x: torch.acos(near(x)), "log10": lambda x: torch.log10(x.abs() + 1e-3), "erfc": torch.erfc, "xlogy": lambda x: torch.xlogy(x, x.abs() + 0.1)}
        net, x = nn.Linear(64, 64), torch.randn(96, 64)
        for name, f in functions.items():
            for precision, more in (("float32", 1e-5), ("bfloat16", 0.02)):
                step = lambda x: f(net(x))
                with self.subTest(function=name, precision=precision), torch.no_grad():
                    with torch.autocast("cpu", torch.bfloat16, enabled=precision != "float32"):
                        y = step(x).float()
                    refrun.assert_same(step, x, y, precision=precision, autocast="cpu" if precision != "float32" else None)
                    with self.assertRaisesRegex(AssertionError, "FAIL-"):
                        refrun.assert_same(step, x, y * (1 + more), precision=precision, autocast="cpu" if precision != "float32" else None)

    def test_loop_refused(self):
        fields, x = torch.randn(4, 700), torch.randn(700)
        t = 0

        def reads(x):
            return x + fields[t]

        with self.assertRaisesRegex(refrun.CaseError, r"step: reads t, which changed between calls: want it as an argument, rec\(x, t\)"):
            with refrun.record(self.dir / "case", reads) as rec:
                for t in range(4):
                    x = rec(x)
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "s: changes between calls, and is a tensor in the graph: want no branch"):
            with refrun.record(self.dir / "case", lambda x, s: x + 1 if s > 2 else x) as rec:
                for s in range(4):
                    x = rec(x, s)
        with self.assertRaisesRegex(refrun.CaseError, "no steps: want rec"):
            with refrun.record(self.dir / "case", reads):
                pass

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
