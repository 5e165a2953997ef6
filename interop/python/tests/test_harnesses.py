"""The evaluations of benchmarks with refrun in place of their tolerance, as docs/KERNELS.md has it: what it says is run."""

import re
import unittest
from pathlib import Path

import torch
from torch import nn

import refrun

TEXT = (Path(__file__).resolve().parents[3] / "docs/KERNELS.md").read_text(encoding="utf-8")


def taken(name):
    """The function of this name in the document, and how many lines its block has."""
    block = next(b for b in re.findall(r"(?ms)^```python\n(.*?)^```", TEXT) if f"def {name}(" in b)
    space = {"refrun": refrun, "torch": torch, "match_reference": lambda *_, **__: "theirs"}
    exec(compile(block, name, "exec"), space)
    return space[name], block.count("\n")


class Model(nn.Module):
    """As KernelBench writes a problem."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.linear, self.norm = nn.Linear(12, 32), nn.GroupNorm(4, 32, eps=eps)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


class Unknown(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)


class Harnesses(unittest.TestCase):
    def test_kernelbench(self):
        """Its comparison of outputs in 20 lines: a right model passes, a wrong one within its tolerance fails by name."""
        is_right, lines = taken("is_right")
        self.assertLessEqual(lines, 20)
        torch.manual_seed(1)
        model, x = Model().eval(), torch.randn(16, 12)
        new = Model(0.0).eval()
        new.load_state_dict(model.state_dict())
        with torch.no_grad():
            output, other = model(x), new(x)
        self.assertTrue(torch.allclose(output, other, rtol=1e-2, atol=1e-2))
        for returned, want in ((output, True), (other, False)):
            metadata = {}
            self.assertIs(is_right(model, [x], output, returned, 1e-2, metadata), want, metadata)
            self.assertEqual(metadata["refrun"]["verdict"], "PASS" if want else "FAIL")
        self.assertIn("eps", metadata["refrun"]["fault"])
        x, metadata = torch.randn(4, 4), {}
        self.assertTrue(is_right(Unknown(), [x], torch.inverse(x), torch.inverse(x), 1e-4, metadata))  # as before
        self.assertIsInstance(metadata["refrun"], str)

    def test_drawn(self):
        """A model in training draws what its seed says, as the benchmark seeds both."""
        model, x = nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12), nn.Dropout(0.3)).train(), torch.randn(16, 8)
        torch.manual_seed(5)
        y, kept = model(x).detach(), torch.get_rng_state()
        self.assertEqual(refrun.check_kernel(model, [x], y, seed=5).verdict, "PASS")
        self.assertTrue(torch.equal(kept, torch.get_rng_state()))
        self.assertEqual(refrun.check_kernel(model, [x], y, seed=6).verdict, "FAIL")

    def test_gpu_mode(self):
        """GPU-mode's make_match_reference, of a tensor, of a tuple, and of an output that is given."""
        make, lines = taken("make_match_reference")
        self.assertLessEqual(lines, 20)
        torch.manual_seed(2)
        a, b = torch.rand(17, 40).half(), torch.rand(40, 9).half()
        check = make(lambda data: data[0] @ data[1], rtol=1e-5, atol=1e-5)
        self.assertEqual(check((a, b), (a.float() @ b.float()).half()), "")
        self.assertIn("FAIL", check((a, b), (a.bfloat16() @ b.bfloat16()).half()))  # its own wrong solution
        self.assertEqual(check((a, b), (a.float() @ b.float())[:, :8].half()), "theirs")
        x = torch.randn(300)
        check = make(lambda x: torch.cumsum(x.double(), 0).double())  # whose output is float32
        self.assertEqual(check(x, torch.cumsum(x, 0)), "")
        self.assertIn("FAIL", check(x, torch.cumsum(x, 0) * (1 + 1e-5)))


if __name__ == "__main__":
    unittest.main()
