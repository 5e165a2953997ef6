"""What a recorder writes."""

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

import refrun
from small import operator, rollout


class Record(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

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
        with self.assertRaisesRegex(refrun.CaseError, "1 states: want the module called twice"):
            with refrun.record(self.dir / "case", op) as rec, torch.no_grad():
                op(torch.randn(1, 3, 8, 8))
        with self.assertRaisesRegex(refrun.CaseError, "want the initial state in the type"):
            with refrun.record(self.dir / "case", op, policy="autoregressive", precision="bfloat16") as rec, torch.no_grad():
                op(torch.randn(1, 3, 8, 8))
                rec.finish(torch.zeros(1, 3, 8, 8).bfloat16())
        with self.assertRaisesRegex(refrun.CaseError, r"want \[M,T,C,H,W\]"):
            refrun.Case(self.dir / "arrays", {}).states(np.zeros((2, 3, 4), np.float32))


if __name__ == "__main__":
    unittest.main()
