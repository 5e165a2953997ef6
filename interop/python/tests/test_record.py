"""What a recorder writes."""

import copy
import json
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import nn

import refrun
from small import operator, rollout


class Record(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

    def test_forgotten(self):
        """Without finish() the last state is missing, which is said; with it nothing is."""
        for finish in (False, True):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with refrun.record(self.dir / "case", operator(), alpha=0.5) as rec:
                    rollout(rec.module, torch.randn(1, 3, 8, 8), 3, rec=rec if finish else None)
            self.assertEqual([str(w.message)[:42] for w in said], [] if finish else ["refrun.record: finish(x) was not called: t"])

    def test_states_noise_layers(self):
        op = operator()
        x0 = torch.randn(2, 3, 8, 10)
        torch.manual_seed(5)
        states = [x0]
        with refrun.record(self.dir / "case", op, alpha=0.25, layers=[1, 3]) as rec, torch.no_grad():
            for _ in range(3):
                states.append(0.25 * states[-1] + 0.75 * op(states[-1]))
            rec.finish(states[-1])
        with safe_open(self.dir / "case" / "trajectory.safetensors", "pt") as f:
            self.assertTrue(torch.equal(f.get_tensor("trajectory"), torch.stack(states, 1)))
            self.assertTrue(torch.equal(f.get_tensor("initial_condition"), x0))
        torch.manual_seed(5)
        with safe_open(self.dir / "case" / "noise.safetensors", "pt") as f:
            tape = f.get_tensor("batch0")
        self.assertEqual(list(tape.shape), [3, 2, 8, 8, 10])
        for t in range(3):
            self.assertTrue(torch.equal(tape[t], torch.randn(2, 8, 8, 10)))
        case = json.loads((self.dir / "case" / "case.json").read_text())
        self.assertEqual({k: case["rollout"][k] for k in ("policy_type", "alpha", "num_timesteps", "num_realizations", "precision", "engine_batch")},
                         {"policy_type": "convex", "alpha": 0.25, "num_timesteps": 4, "num_realizations": 2, "precision": "float32", "engine_batch": 2})
        self.assertNotIn("incomplete", case)
        for name in ("layers.safetensors", "layers.step0003.safetensors"):
            with safe_open(self.dir / "case" / name, "pt") as f:
                self.assertLessEqual({"input", "output", "first.0", "second.body.1", "second", "noise", "out"}, set(f.keys()))
        with safe_open(self.dir / "case" / "layers.step0003.safetensors", "pt") as f:
            self.assertTrue(torch.equal(f.get_tensor("input"), states[2][:1]))
            self.assertEqual(f.metadata()["step"], "3")
            self.assertTrue(torch.equal(f.get_tensor("noise.draw"), tape[2][:1]))

    def test_mkl_draws(self):
        """Which random numbers this PyTorch has is found out by drawing, and does not move its generator."""
        torch.manual_seed(3)
        want = torch.rand(2)
        torch.manual_seed(3)
        first = torch.rand(1)
        draws = refrun.recorder._mkl_draws()
        self.assertTrue(torch.equal(torch.cat([first, torch.rand(1)]), want))
        release = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
        if (2, 7) <= release <= (2, 9):
            self.assertIs(draws, False)
        self.assertIn(draws, (True, False))

    def test_bfloat16(self):
        op = operator()
        with refrun.record(self.dir / "case", op, policy="autoregressive", precision="bfloat16") as rec:
            x = torch.randn(1, 3, 8, 8).bfloat16().float()
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                for _ in range(2):
                    x = op(x)
            rec.finish(x)
        with safe_open(self.dir / "case" / "trajectory.safetensors", "pt") as f:
            t = f.get_tensor("trajectory")
        self.assertEqual(t.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(t[:, -1], x))
        self.assertEqual(json.loads((self.dir / "case" / "case.json").read_text())["rollout"]["autocast"], "cpu")

    def test_start_wider_than_the_rest(self):
        op = operator(noise=0)
        for half in (torch.bfloat16, torch.float16):
            x = x0 = torch.randn(2, 3, 8, 8)
            with refrun.record(self.dir / "case", op, policy="autoregressive", precision=str(half).partition(".")[2]) as rec:
                with torch.no_grad(), torch.autocast("cpu", half):
                    for _ in range(3):
                        x = op(x)
                rec.finish(x)
            with safe_open(self.dir / "case" / "trajectory.safetensors", "pt") as f:
                t = f.get_tensor("trajectory")
            self.assertEqual((t.dtype, x.dtype), (torch.float32, half))
            self.assertTrue(torch.equal(t[:, 0], x0))
            self.assertTrue(torch.equal(t[:, -1], x.float()))

    def test_again(self):
        op = operator()
        for layers in (True, False):  # what the first case had and the second has not is gone
            with refrun.record(self.dir / "case", op, layers=layers) as rec:
                rollout(op, torch.randn(1, 3, 8, 8), 2, rec=rec)
            self.assertEqual((self.dir / "case" / "layers.safetensors").exists(), layers)
        quiet = operator(noise=0)
        (self.dir / "case" / "mine.txt").write_text("left alone")
        with refrun.record(self.dir / "case", quiet) as rec:
            rollout(quiet, torch.randn(1, 3, 8, 8), 2, rec=rec)
        self.assertEqual(sorted(p.name for p in (self.dir / "case").iterdir()), ["SHA256SUMS", "case.json", "mine.txt", "trajectory.safetensors", "weights.safetensors"])

    def test_like(self):
        op = operator()
        device = copy.deepcopy(op)
        device.first[1] = nn.Identity()
        with refrun.record(self.dir / "case", device, like=op, layers=True) as rec:
            rollout(device, torch.randn(1, 3, 8, 8), 1, rec=rec)
        with safe_open(self.dir / "case" / "layers.safetensors", "pt") as f:  # of what ran, by the names of what is claimed
            self.assertTrue(torch.equal(f.get_tensor("first.1"), f.get_tensor("first.0")))
        self.assertEqual(json.loads((self.dir / "case" / "case.json").read_text())["operator"], refrun.describe(op).operator)
        self.assertTrue((self.dir / "case" / "noise.safetensors").exists())

    def test_compiled(self):
        from torch._inductor import config

        op, x, ends = operator(), torch.randn(2, 3, 8, 8), []
        for fallback in (False, True):
            torch._dynamo.reset()
            with config.patch(fallback_random=fallback):
                device = torch.compile(op)
                torch.manual_seed(9)
                plain = rollout(device, x, 2)
                torch.manual_seed(9)
                with refrun.record(self.dir / "case", device) as rec:
                    ends.append(rollout(device, x, 2, rec=rec))
            self.assertTrue(torch.equal(ends[-1], plain))  # recording changes no number
            self.assertEqual((self.dir / "case" / "noise.safetensors").exists(), fallback)
            self.assertEqual(json.loads((self.dir / "case" / "case.json").read_text()).get("noise"), None if fallback else "unknown")
        torch.manual_seed(9)
        with safe_open(self.dir / "case" / "noise.safetensors", "pt") as f:
            for t in range(2):
                self.assertTrue(torch.equal(f.get_tensor("batch0")[t], torch.randn(2, 8, 8, 8)))

    def test_stopped(self):
        op = operator()
        with self.assertRaises(KeyboardInterrupt):
            with refrun.record(self.dir / "case", op) as rec:
                rollout(op, torch.randn(1, 3, 8, 8), 4, rec=None)
                raise KeyboardInterrupt("enough")
        case = json.loads((self.dir / "case" / "case.json").read_text())
        self.assertEqual(case["incomplete"], "stopped after step 3: KeyboardInterrupt: enough")
        self.assertEqual(case["rollout"]["num_timesteps"], 4)

    def test_misuse(self):
        op = operator()
        with self.assertRaisesRegex(refrun.CaseError, "only the convex policy has one"):
            refrun.record(self.dir / "case", op, policy="residual", alpha=0.5)
        for options, text in (({"precision": "fp8"}, "precision: 'fp8': want float64, float32, tf32, float16 or bfloat16"), ({"layers": 3}, r"layers: 3: want True or a list of steps")):
            with self.assertRaisesRegex(refrun.CaseError, text):
                refrun.record(self.dir / "case", op, **options)
        with self.assertRaisesRegex(refrun.CaseError, "module: 3 channels to 8: want as many"):
            refrun.record(self.dir / "case", op.first)
        with self.assertWarnsRegex(UserWarning, "layers of step 9 were asked for, and there are 2 steps"):
            with refrun.record(self.dir / "case", op, layers=[9]) as rec:
                rollout(op, torch.randn(1, 3, 8, 8), 2, rec=rec)
        with self.assertWarnsRegex(UserWarning, "module returns torch.bfloat16, and float32 is claimed"):
            with refrun.record(self.dir / "case", op, precision="float32") as rec, torch.autocast("cpu", torch.bfloat16):
                rollout(op, torch.randn(1, 3, 8, 8), 2, rec=rec)
        with self.assertRaisesRegex(refrun.CaseError, "1 states: want the module called twice"):
            with refrun.record(self.dir / "case", op) as rec, torch.no_grad():
                op(torch.randn(1, 3, 8, 8))
        with self.assertRaisesRegex(refrun.CaseError, r"want \[M,T,C,H,W\]"):
            refrun.Case(self.dir / "arrays", {}).states(np.zeros((2, 3, 4), np.float32))


if __name__ == "__main__":
    unittest.main()
