"""What a module is described as, and what is refused."""

import unittest

import torch
import torch.nn.functional as F
from torch import nn

import refrun
from small import Operator, operator


class Describe(unittest.TestCase):
    def test_operator(self):
        d = refrun.describe(operator())
        self.assertEqual([(n["op"], n["name"], n["in"]) for n in d.operator["nodes"]], [
            ("conv", "first.0", ["input"]), ("norm", "first.1", ["first.0"]), ("act", "first.2", ["first.1"]),
            ("conv", "second.body.0", ["first.2"]), ("norm", "second.body.1", ["second.body.0"]), ("act", "second.body.2", ["second.body.1"]),
            ("add", "second", ["second.body.2", "first.2"]), ("noise", "noise", ["second"]), ("conv", "out", ["noise"])])
        self.assertEqual(d.operator["input_channels"], 3)
        self.assertEqual(d.noise, "noise")
        self.assertAlmostEqual(d.operator["nodes"][7]["noise_scale"], 0.02, places=7)
        self.assertEqual(sorted(d.weights), ["first.0.weight", "first.1.bias", "first.1.weight", "noise.noise_scale", "out.bias", "out.weight",
                                             "second.body.0.weight", "second.body.1.bias", "second.body.1.weight"])

    def test_functions(self):
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Conv2d(2, 4, 3, padding="same"), nn.Conv2d(4, 2, 5, padding=2, padding_mode="circular")
                self.n, self.g = nn.BatchNorm2d(4), nn.GroupNorm(2, 4, eps=1e-3, affine=False)

            def forward(self, x):
                y = F.gelu(self.n(self.a(x)), approximate="tanh")
                return torch.tanh(self.b(F.dropout2d(torch.relu(self.g(y)), 0.5, False)))

        nodes = refrun.describe(M().eval()).operator["nodes"]
        self.assertEqual([n["op"] for n in nodes], ["conv", "norm", "act", "norm", "act", "conv", "act"])
        self.assertEqual([n.get("activation") for n in nodes if n["op"] == "act"], ["gelu_tanh", "relu", "tanh"])
        self.assertEqual(nodes[5]["padding_mode"], "circular")
        self.assertEqual((nodes[3]["groups"], nodes[3]["eps"], nodes[3]["affine"]), (2, 1e-3, False))

    def test_declared_noise(self):
        class Mine(nn.Module):
            def forward(self, x):
                return x * (1 + 0.1 * torch.randn_like(x))

        m = nn.Sequential(nn.Conv2d(1, 2, 1), Mine(), nn.Conv2d(2, 1, 1)).eval()
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "add: want x .* named: noise="):
            refrun.describe(m)
        d = refrun.describe(m, noise={"1": ("multiplicative", 0.1)})
        self.assertEqual([n["op"] for n in d.operator["nodes"]], ["conv", "noise", "conv"])

    def test_refused(self):
        shared = nn.Conv2d(3, 3, 3, padding=1)
        for module, text in (
            (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(2)), "1: MaxPool2d: want"),
            (nn.Sequential(nn.Conv2d(3, 3, 3)), r"0: Conv2d with padding 0: want 1, which keeps the image size"),
            (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, stride=2)), r"0: Conv2d with stride \(2, 2\): want 1"),
            (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3)), "0: Conv2d with groups 3: want 1"),
            (nn.Sequential(nn.Conv2d(3, 3, 2, padding=1)), r"kernel_size \(2, 2\): want a square of odd size"),
            (nn.Sequential(nn.Conv2d(3, 3, 1), nn.InstanceNorm2d(3, track_running_stats=True)), "running statistics"),
            (nn.Sequential(shared, shared), "used twice"),
            (nn.Sequential(Operator(), Operator()), "noise for the second time"),
        ):
            with self.assertRaisesRegex(refrun.UnsupportedLayer, text):
                refrun.describe(module.eval())
        class Scaled(nn.Module):
            def forward(self, x):
                return x * 0.5

        with self.assertRaisesRegex(refrun.UnsupportedLayer, "mul: a product: want x .* named"):
            refrun.describe(nn.Sequential(nn.Conv2d(3, 3, 1), Scaled()).eval())
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "training mode"):
            refrun.describe(nn.Sequential(nn.BatchNorm2d(3)))


if __name__ == "__main__":
    unittest.main()
