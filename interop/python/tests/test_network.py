"""Any module as a network: what it is described as, and that refrun computes what torch does."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import refrun


class Block(nn.Module):
    """Reused modules, a strided, a grouped and a dilated convolution, pools, and a skip."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.group = nn.Conv2d(8, 8, 3, padding=1, groups=4, padding_mode="reflect")
        self.wide = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y = self.drop(self.relu(self.group(y) + F.leaky_relu(self.wide(y), 0.2)))
        p = F.avg_pool2d(F.max_pool2d(y, 3, 2, 1), 2, count_include_pad=False)
        return self.up(y), F.adaptive_avg_pool2d(p, 1).flatten(1), F.interpolate(p, scale_factor=2, mode="bilinear", align_corners=True)


class Tokens(nn.Module):
    """Attention, embeddings, constants, slices that are assigned, two inputs, and kwargs."""

    def __init__(self):
        super().__init__()
        self.table, self.scale = nn.Embedding(10, 16), nn.Parameter(torch.tensor(0.5))
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.register_buffer("position", torch.randn(1, 5, 16))

    def forward(self, ids, mask=None):
        x = self.table(ids) * self.scale + self.position
        y, _ = self.attend(x, x, x, need_weights=False)
        y = y.clone()
        y[:, 1:3] = 0.25
        y[:, 0] += x[:, -1]
        y[:, 4].zero_()
        z = F.scaled_dot_product_attention(y, x, x, is_causal=True)
        if mask is not None:
            z = z.masked_fill(mask.unsqueeze(-1), -1.0)
        a, b = self.layer(z).chunk(2, -1)
        return torch.cat([F.silu(a) * b, torch.einsum("bij,bkj->bik", a, b)], -1), (torch.arange(5) * 2).float() + z.mean()


class Length(nn.Module):
    """A root of squares plus a small number, which keeps it from 0."""

    def __init__(self, eps):
        super().__init__()
        self.eps, self.mix = eps, nn.Linear(8, 4)

    def forward(self, x):
        return torch.sqrt(self.mix(x).square() + self.eps)


class Hidden(nn.Module):
    """A hidden state that a call sets, from its input or from what it was."""

    def __init__(self, reads):
        super().__init__()
        self.cell, self.hidden, self.mask, self.reads = nn.Linear(4, 4), torch.ones(2, 4), torch.tensor([1.0, 0, 1, 1]), reads

    def forward(self, x):
        self.hidden = torch.tanh(self.cell((self.hidden + x if self.reads else x) * self.mask))
        return self.hidden * 2


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b


class Export(unittest.TestCase):
    def test_small_number(self):
        torch.manual_seed(0)
        right, wrong, x = Length(1e-8), Length(0.0), torch.randn(64, 8) * 1e-4
        wrong.load_state_dict(right.state_dict())
        with torch.no_grad():
            right.mix.bias.zero_(), wrong.mix.bias.zero_()
        with tempfile.TemporaryDirectory() as d:
            for module, ok in ((right, True), (wrong, False)):
                torch.onnx.export(module, (x,), f"{d}/m.onnx", dynamo=False)
                r = refrun.check_export(right, x, f"{d}/m.onnx")
                self.assertEqual(r.ok, ok, str(r))
                self.assertEqual("a small number is not added" in str(r), not ok, str(r))
            with self.assertRaisesRegex(ValueError, "1 inputs: want 2"):
                refrun.check_export(Sum(), (x, x), f"{d}/m.onnx")
            with self.assertRaisesRegex(ValueError, "no such file"):
                refrun.check_export(right, x, f"{d}/none.onnx")


class Describe(unittest.TestCase):
    def compute(self, module, inputs, kwargs=None, precision="float32"):
        net = refrun.describe(module, inputs, kwargs)
        with tempfile.TemporaryDirectory() as d:
            net.save(Path(d) / "net.json")
            save_file({k: v.contiguous() for k, v in net.feed(inputs, kwargs).items()}, f"{d}/in.safetensors")
            subprocess.run([refrun.binary(), "run", "--graph", f"{d}/net.json", "--input", f"{d}/in.safetensors", "-o", f"{d}/out.safetensors",
                            "--precision", precision], check=True, capture_output=True)
            out = load_file(f"{d}/out.safetensors")
        return net, [out[o] for o in net.outputs]

    def nearer(self, module, inputs, kwargs=None):
        """refrun's float32 result is at most as far from torch's float64 as torch's float32."""
        kwargs = kwargs or {}
        net, ours = self.compute(module, inputs, kwargs)
        with torch.no_grad():
            theirs = module(*inputs, **kwargs)
            truth = module.double()(*[x.double() if x.is_floating_point() else x for x in inputs], **kwargs)
            module.float()
        for a, b, t in zip(ours, theirs, truth):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            ours, torchs = (a.double() - t).pow(2).mean().sqrt(), (b.double() - t).pow(2).mean().sqrt()
            self.assertLessEqual(float(ours), max(float(torchs), 1e-7 * float(t.abs().max())))
        return net

    def test_images(self):
        torch.manual_seed(0)
        net = self.nearer(Block().eval(), (torch.randn(2, 3, 16, 16),))
        self.assertEqual([(n["name"], n["op"], n.get("also")) for n in net.nodes if n["op"] in ("relu", "conv2d", "batch_norm")],
                         [("conv", "conv2d", None), ("norm", "batch_norm", None), ("relu", "relu", None), ("group", "conv2d", None), ("wide", "conv2d", None), ("relu@1", "relu", ["drop"])])
        self.assertIn("up", net.modules)

    def test_tokens(self):
        torch.manual_seed(1)
        net = self.nearer(Tokens().eval(), (torch.randint(10, (2, 5)),), {"mask": torch.tensor([[False, True, False, False, True]] * 2)})
        self.assertEqual([i["dtype"] for i in net.inputs], ["int64", "bool"])
        self.assertIn("layer.norm2", net.modules)
        self.assertEqual(net.modules["layer"], "layer.norm2")

    def test_hidden(self):
        """A tensor that a call sets is no part of what it computes, and stays as it was; one that it reads too is refused."""
        module, x = Hidden(False), torch.randn(2, 4)
        net = refrun.describe(module, [x])
        self.assertTrue(torch.equal(module.hidden, torch.ones(2, 4)) and "hidden" in vars(module))
        self.assertNotIn("hidden", net.weights)
        self.assertEqual(refrun.check_kernel(net, [x], module(x).detach()).verdict, "PASS")
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "hidden: a tensor of Hidden that a call reads and changes"):
            refrun.describe(Hidden(True), [x])

    def test_recurrent(self):
        class First(nn.Module):
            def __init__(self, of):
                super().__init__()
                self.of = of

            def forward(self, *x):
                y = self.of(x[0], x[1:]) if len(x) > 2 else self.of(*x)
                return (y,) if isinstance(y, torch.Tensor) else y[:1]

        x, h, c = torch.randn(5, 4), torch.randn(5, 6), torch.randn(5, 6)
        for cell, of in ((nn.GRUCell(4, 6), (x, h)), (nn.RNNCell(4, 6), (x, h)), (nn.LSTMCell(4, 6), (x, h, c))):
            self.nearer(First(cell).eval(), of)
        for layer in (nn.GRU(4, 6, batch_first=True), nn.LSTM(4, 6, num_layers=2, bidirectional=True), nn.RNN(4, 6, nonlinearity="relu")):
            self.nearer(First(layer).eval(), (torch.randn(3, 5, 4),))

    def test_all_at_once(self):
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.fine = nn.Linear(4, 4)

            def forward(self, x):
                y = torch.masked_select(self.fine(x), x > 0).sum() + x
                return torch.special.bessel_j0(y) + torch.rand_like(x) + torch.special.bessel_j0(x)

        with self.assertRaises(refrun.Unsupported) as e:
            refrun.describe(M().eval(), (torch.randn(2, 3, 4),))
        self.assertEqual(len(e.exception.layers), 3, e.exception.layers)
        for line, part in zip(e.exception.layers, ("masked_select.default: a size that depends on numbers: want", "rand_like: rand_like.default: random numbers: want", "special_bessel_j0")):
            self.assertIn(part, line)

    def test_behind(self):
        """What follows an operation that is missing is asked for too, and all of it is counted."""
        class M(nn.Module):
            def forward(self, x):
                y = torch.special.bessel_j0(x)
                a, b = torch.frexp(torch.special.bessel_j1(y.reshape(-1) + 1))
                return torch.special.bessel_j1(a * b), torch.special.bessel_j1(y)

        with self.assertRaises(refrun.Unsupported) as e:
            refrun.describe(M().eval(), (torch.randn(2, 3),))
        self.assertEqual(len(e.exception.layers), 5, e.exception.layers)
        self.assertIn("(special_bessel_j1.default 3, special_bessel_j0.default 1, frexp.Tensor 1)", str(e.exception))

    def test_kept(self):
        """What a module keeps from its first call is of numbers afterwards, too."""
        class Grid(nn.Module):
            grid = None

            def forward(self, x):
                if self.grid is None:
                    self.grid = list(torch.meshgrid(torch.linspace(0, 1, x.shape[0]), torch.linspace(0, 2, x.shape[1]), indexing="ij"))
                return torch.cat([x, *self.grid])

        m, x = nn.Sequential(Grid()), torch.randn(5, 7)
        y = refrun.reference(m)(x)
        refrun.describe(m, (x,))
        self.assertTrue(torch.equal(y, m(x)))

    def test_refused(self):
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "training mode: want module.eval"):
            refrun.describe(nn.Sequential(nn.Dropout()), (torch.randn(2, 2),))
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "want sizes and branches that do not depend"):
            class M(nn.Module):
                def forward(self, x):
                    return x if x.sum() > 0 else -x
            refrun.describe(M(), (torch.randn(2, 2),))
        class Raises(nn.Module):
            def forward(self, x):
                raise ValueError("of its own " * 30)

        class Takes(nn.Module):
            def forward(self, o):
                return o.x

        class Object:
            x = torch.ones(2)

        with self.assertRaisesRegex(refrun.UnsupportedLayer, r"ValueError: of its own .* of \.\.\.\): want a call that it follows$"):
            refrun.describe(Raises(), (torch.randn(2),))
        with self.assertRaisesRegex(refrun.UnsupportedLayer, "input 0: an object of class Object: want tensors and numbers"):
            refrun.describe(Takes(), (Object(),))
        for script in (torch.jit.script(nn.ReLU()), torch.jit.trace(nn.ReLU(), torch.ones(2))):
            with self.assertRaisesRegex(refrun.UnsupportedLayer, "TorchScript: want the torch.nn.Module"):
                refrun.describe(script.eval(), (torch.randn(2),))
        many = refrun.Unsupported([f"block.{k}: lstm: a recurrent network" for k in range(89)] + ["head: fft: complex numbers"])
        self.assertEqual(len(many.layers), 90)
        self.assertEqual(str(many), "90 operations are not supported (lstm 89, fft 1):\n  block.0: lstm: a recurrent network (and 88 more like it)\n  head: fft: complex numbers")
        class Holds(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.jit.script(nn.ReLU())

            def forward(self, x):
                return self.inner(x)

        with self.assertRaisesRegex(refrun.UnsupportedLayer, "^inner: TorchScript: want"):
            refrun.describe(Holds().eval(), (torch.randn(2),))
        with self.assertRaisesRegex(refrun.CaseError, "want 1, as the network"):
            refrun.describe(nn.Linear(2, 2), (torch.randn(2, 2),)).feed((torch.ones(2), torch.ones(2)))

    def test_whole(self):
        """Functions are not taken apart beside operations that are: softshrink would take signs, which jump."""
        class M(nn.Module):
            def forward(self, x):
                return F.softshrink(F.interpolate(x.roll(1, 1), scale_factor=2, mode="linear"), 0.1)

        ops = [n["op"] for n in refrun.describe(M(), (torch.randn(2, 3, 8),)).nodes]
        self.assertIn("softshrink", ops)
        self.assertFalse({"sign", "where", "index"} & set(ops), ops)
        x = torch.randn(3, requires_grad=True)  # and torch's own gradients are as they were
        F.softshrink(x, 0.0).sum().backward()
        self.assertEqual(x.grad.tolist(), [1, 1, 1])

    def test_sampled(self):
        """A spatial transformer is PyTorch's, and one with other corners is not."""
        class M(nn.Module):
            def __init__(self, corners=False):
                super().__init__()
                self.corners = corners

            def forward(self, x, g):
                return F.grid_sample(x, g, padding_mode="border", align_corners=self.corners)

        x, g = torch.randn(2, 3, 9, 7), torch.rand(2, 12, 11, 2) * 2.4 - 1.2
        right = M()(x.double(), g.double()).float()
        self.assertTrue(torch.allclose(refrun.reference(M())(x, g), right, rtol=1e-6, atol=1e-7))
        refrun.assert_kernel(M(), (x, g), M()(x, g))
        self.assertEqual(refrun.check_kernel(M(), (x, g), M(True)(x, g)).fault_id, "kernel.corners-other")
        refrun.assert_kernel("grid_sampler", (x, g), M()(x, g), padding_mode="border")

    def test_transformer_of_space(self):
        """An image is sampled where a small network says: grids are as PyTorch makes them."""
        class Turned(nn.Module):
            def forward(self, x, theta):
                return F.grid_sample(x, F.affine_grid(theta, [2, 3, 8, 6], align_corners=False), align_corners=False)

        x, theta = torch.randn(2, 3, 8, 6), torch.eye(2, 3) + 0.2 * torch.randn(2, 2, 3)
        refrun.assert_kernel(Turned(), (x, theta), Turned()(x, theta))
        right = Turned()(x.double(), theta.double()).float()
        self.assertTrue(torch.allclose(refrun.reference(Turned())(x, theta), right, rtol=1e-4, atol=1e-5))

    def test_distances(self):
        """Distances of few points and of many, and bags of rows, are PyTorch's."""
        class Far(nn.Module):
            def forward(self, x, y):
                return torch.cdist(x, y)

        for n, m in ((5, 7), (40, 30)):
            x, y = torch.randn(2, n, 6), torch.randn(2, m, 6)
            refrun.assert_kernel(Far(), (x, y), Far()(x, y))
            self.assertTrue(torch.allclose(refrun.reference(Far())(x, y), torch.cdist(x.double(), y.double()).float(), rtol=1e-5))
        for mode in ("sum", "mean", "max"):
            bag = nn.EmbeddingBag(10, 16, mode=mode).eval()
            ids = torch.randint(0, 10, (12, 6))
            self.assertTrue(torch.allclose(refrun.reference(bag)(ids), bag(ids), rtol=1e-5, atol=1e-6))
            if mode != "max":
                refrun.assert_kernel(bag, (ids,), bag(ids).detach())

    def test_bins(self):
        """Whole numbers of rounded constants are constants, also where a logarithm of 0 is no number of theirs."""
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(8, 1)

            def forward(self, x):
                n = (torch.arange(6)[:, None] - torch.arange(6)).abs()
                far = 2 + (torch.log(n.float() / 2) * 2).long()
                return x + self.table(torch.where(n < 2, n, far.clamp(max=7))).squeeze(-1)

        m, x = M(), torch.randn(6, 6)
        self.assertLessEqual(len(refrun.describe(m, (x,)).nodes), 3)
        with torch.no_grad():
            self.assertTrue(torch.equal(refrun.reference(m)(x), m(x)))


class Traced(unittest.TestCase):
    """Kernels of a chain that torch.export follows, judged."""

    def test_numbers(self):
        """A number that is written in a function is float32's in a right kernel."""
        x = torch.randn(20, 30, generator=torch.Generator().manual_seed(1))
        for y, verdict in ((x * 0.1 + 0.7, "PASS"), (x * 0.1002 + 0.7, "FAIL")):
            self.assertEqual(refrun.check_kernel(lambda x: x * 0.1 + 0.7, [x.numpy()], y).verdict, verdict)

    def test_losses(self):
        x = torch.randn(2, 20, 30, generator=torch.Generator().manual_seed(2))
        for f in (F.mse_loss, F.huber_loss, F.smooth_l1_loss):
            for y, verdict in ((f(*x), "PASS"), (f(*x) * 1.001, "FAIL")):
                self.assertEqual(refrun.check_kernel(f, list(x), y).verdict, verdict)

    def test_composed(self):
        g = torch.Generator().manual_seed(3)
        x = torch.randn(3, 12, 30, generator=g)
        for f, given in ((F.cosine_similarity, x[:2]), (lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction="none"), x), (lambda a, b: F.poisson_nll_loss(a, b.abs(), reduction="none"), x[:2]),
                         (lambda a, b: F.cosine_embedding_loss(a, b, a.new_ones(12), reduction="none"), x[:2]), (lambda a: a.roll(3, 1), x[:1]), (lambda a: torch.rot90(a, 1, (0, 1)), x[:1]),
                         (lambda a, b: torch.linalg.cross(a[:, :3], b[:, :3]), x[:2]), (lambda m, a, b: torch.addr(m[:, :12], a[0, :12], b[0, :12]), x), (lambda a, b: torch.outer(a[0], b[0]), x[:2])):
            for half in (torch.float32, torch.bfloat16):
                ins = [t.to(half) for t in given]
                for y, verdict in ((f(*ins), "PASS"), (f(*ins) * 1.03, "FAIL")):
                    self.assertEqual(refrun.check_kernel(f, ins, y).verdict, verdict, f"{half}")

    def test_double(self):
        """A module in float64 is claimed as that, and one without parameters by its inputs."""
        torch.manual_seed(5)
        for module, shape in ((nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)), (12, 8)), (nn.Softmax(-1), (20, 30))):
            m, x = module.double(), torch.randn(*shape, dtype=torch.float64)
            with torch.no_grad():
                y, single = m(x), module.float()(x.float()).double()
            r = refrun.check_model(module.double(), x, y)
            self.assertEqual((r.ok, r.claim), (True, "float64"), str(r))
            self.assertEqual(refrun.check_model(module, x, single).diagnosis, "computed in float32")
            self.assertTrue(refrun.check_model(module.float(), x.float(), single.float(), precision="float32").ok)

    def test_composed_modules(self):
        """Modules with operations that torch composes in C++."""
        torch.manual_seed(4)
        two = torch.nn.Bilinear(8, 9, 10)
        normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 6))
        for module, given in ((two, (torch.randn(6, 8), torch.randn(6, 9))), (normed, (torch.randn(6, 8),)), (torch.nn.RReLU(), (torch.randn(6, 80),))):
            for half in (torch.float32, torch.bfloat16):
                m, ins = module.eval().to(half), [t.to(half) for t in given]
                with torch.no_grad():
                    y = m(*ins)
                name = str(half).split(".")[1]
                self.assertTrue(refrun.check_model(m, ins, y, precision=name).ok, f"{module}, {name}")
                self.assertFalse(refrun.check_model(m, ins, y * 1.03, precision=name).ok, f"{module}, {name}")


if __name__ == "__main__":
    unittest.main()
