"""Complex numbers, and moves and sums of windows: what torch computes, and verdicts on right and faulty results."""

import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import refrun

pairs = torch.view_as_real


def pair(*shape, seed):
    return torch.view_as_complex(torch.randn(*shape, 2, generator=torch.Generator().manual_seed(seed)))


def z(x):
    """[N,C,8,H] as complex numbers [N,C,4,H]."""
    return torch.complex(x[:, :, :4].contiguous(), x[:, :, 4:].contiguous())


W = pair(5, 6, seed=1)
R = torch.randn(5, 6, generator=torch.Generator().manual_seed(2))


def assigned(x):
    y = torch.zeros(*z(x).shape, dtype=z(x).dtype)
    y[:, :, 1:3, 2:] = z(x)[:, :, 1:3, 2:] * 2
    return pairs(y)


def grids(x):
    a, b = torch.meshgrid(x[0, 0, 0], x[0, 0, :, 0], indexing="xy")
    return a * b


def like(t, x):
    """A constant in the precision of x."""
    return t.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64) if t.is_complex() else t.to(x.dtype)


# Each of x [16,5,8,6].
FUNCTIONS = {
    "permute": lambda x: pairs(z(x).permute(0, 2, 1, 3)),
    "axes from the end": lambda x: pairs(z(x).transpose(-1, -2).unsqueeze(-1).flip(-2).squeeze(-1)),
    "roll": lambda x: pairs(torch.roll(z(x), (1, 2), (-1, -2))),
    "shifts": lambda x: pairs(torch.fft.ifftshift(torch.fft.fftshift(torch.fft.fft2(x), dim=(-2,)), dim=(-2, -1))),
    "forward norm": lambda x: torch.fft.irfftn(
        torch.fft.rfftn(x, dim=(-2, -1), norm="forward") * like(W, x)[0, 0], s=(9, 7), dim=(-2, -1), norm="forward"
    ),
    "ortho norm": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * like(W, x)[0, :4], norm="ortho"),
    "matmul": lambda x: pairs(z(x) @ like(W, x).T),
    "matmul of a real one": lambda x: pairs(torch.matmul(x.to(like(W, x).dtype), like(W, x).mH)),
    "bmm": lambda x: pairs(torch.bmm(z(x)[:, 0], z(x)[:, 1].transpose(1, 2))),
    "einsum, ellipsis": lambda x: pairs(torch.einsum("...ij,kj->...ik", z(x), like(W, x))),
    "einsum, no arrow": lambda x: pairs(torch.einsum("bcij,kj", z(x), like(W, x))),
    "einsum of three": lambda x: pairs(torch.einsum("bcij,kj,kl->bcil", z(x), like(W, x), like(W, x).conj())),
    "einsum of three real ones": lambda x: torch.einsum("bcij,kj,kl->bcil", x, like(R, x), like(R, x)),
    "einsum, no sum": lambda x: pairs(torch.einsum("bcij,cj->bcij", z(x), like(W, x))),
    "tensordot": lambda x: pairs(torch.tensordot(z(x), like(W, x), dims=([1, 3], [0, 1]))),
    "tensordot of real ones": lambda x: torch.tensordot(x, like(R, x), dims=([3], [1])),
    "linear": lambda x: pairs(F.linear(z(x), like(W, x), like(W, x)[:, 0])),
    "numbers": lambda x: pairs(z(x) * (1 + 2j) + 3 - (0.5 - 1j)),
    "quotient": lambda x: pairs(z(x) / 3 / (1 + x[:, :, :4] * x[:, :, :4])),
    "length": lambda x: z(x).abs(),
    "angle": lambda x: torch.angle(z(x)),
    "polar": lambda x: pairs(torch.polar(x.abs(), x) * like(W, x)[0]),
    "sums": lambda x: pairs(z(x).sum(-1) * z(x).mean()),
    "cat": lambda x: pairs(torch.cat([z(x), torch.zeros(16, 5, 4, 2, dtype=z(x).dtype), z(x).real], -1)),
    "stack": lambda x: pairs(torch.stack([z(x), like(W, x)[:, None].expand(16, 5, 4, 6)], -1)),
    "pad": lambda x: pairs(F.pad(z(x), (1, 2, 0, 1))),
    "split": lambda x: pairs(z(x).chunk(2, -1)[1] * z(x).split([2, 4], -1)[0][..., :1]),
    "slices that are assigned": assigned,
    "conjugate": lambda x: pairs((z(x).conj() * like(W, x)[0]).conj().resolve_conj()),
    "where": lambda x: pairs(torch.where(x[:, :, :4] > 0, z(x), 0j)),
    "parts": lambda x: z(x).real * z(x).imag,
    "meshgrid": grids,
    "outer": lambda x: torch.outer(x[0].flatten(), x[1].flatten()),
    "windows": lambda x: x.unfold(2, 3, 1).unfold(3, 2, 3),
    "im2col": lambda x: F.unfold(x, (2, 3), padding=(1, 0), stride=(2, 1), dilation=(1, 2)),
    "col2im": lambda x: F.fold(F.unfold(x, (2, 3), padding=(1, 1)), (8, 6), (2, 3), padding=(1, 1)),
    "std_mean": lambda x: torch.std_mean(x, dim=(1, 2), keepdim=True)[0] + x,
    "logaddexp": lambda x: torch.logaddexp(x, x[:, :1] * 2),
    "hypot": lambda x: torch.hypot(x, x[:, :1] * 2),
    "argsort": lambda x: x.argsort(-1) + x.argsort(1, descending=True),
    "linalg norm": lambda x: torch.linalg.norm(x, dim=-1) + torch.linalg.norm(x),
}


class All(nn.Module):
    def forward(self, x):
        return [f(x) for f in FUNCTIONS.values()]


class Complex(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.x = torch.randn(16, 5, 8, 6, generator=torch.Generator().manual_seed(3))

    def test_exact(self):
        """Each is as near to torch's float64 as float32 numbers of few operations can be."""
        exact = refrun.reference(All())(self.x)
        for (name, f), got in zip(FUNCTIONS.items(), exact):
            with self.subTest(name):
                want = f(self.x.double())
                self.assertEqual(got.shape, want.shape)
                self.assertLess(float((got.double() - want).abs().max() / want.abs().max()), 3e-7)

    def test_verdicts(self):
        """PyTorch's own results pass, and those with one number in a hundred that is its neighbour's do not."""
        for name in (
            "permute",
            "ortho norm",
            "matmul",
            "einsum of three",
            "conjugate",
            "quotient",
            "col2im",
            "logaddexp",
        ):
            with self.subTest(name):
                y = FUNCTIONS[name](self.x)
                wrong = y.flatten().clone()
                wrong[::100] = y.flatten().roll(7)[::100]
                self.assertEqual(refrun.check_kernel(FUNCTIONS[name], [self.x], y).verdict, "PASS")
                self.assertEqual(refrun.check_kernel(FUNCTIONS[name], [self.x], wrong.reshape(y.shape)).verdict, "FAIL")


class Tensors(unittest.TestCase):
    """Kernels that take and return complex tensors."""

    def test_kernels(self):
        for dtype in (torch.complex64, torch.complex128):
            g = torch.Generator().manual_seed(7)
            new = lambda *shape: torch.randn(*shape, generator=g, dtype=dtype)
            for f, ins in (
                (torch.fft.fft, [new(6, 21)]),
                (lambda x, w: torch.einsum("bixy,ioxy->boxy", x, w), [new(3, 4, 5, 6), new(4, 5, 5, 6)]),
                (lambda x: torch.exp(x).cumsum(-1), [new(9, 20)]),
                (lambda x: torch.fft.rfft(x), [new(8, 30).real.contiguous()]),
                (lambda x: torch.fft.irfft(x, n=30), [torch.fft.rfft(new(8, 30).real)]),
                ("matmul", [new(8, 30), new(30, 5)]),
            ):
                y = f(*ins) if callable(f) else torch.matmul(*ins)
                self.assertTrue(refrun.check_kernel(f, ins, y).ok, f"{f} {dtype}")
                wrong = [y * (1 + 1e-4)] + ([y.conj().resolve_conj(), y.real + 0j] if y.is_complex() else [])
                for bad in wrong:
                    self.assertFalse(refrun.check_kernel(f, ins, bad).ok, f"{f} {dtype}")

    def test_functions(self):
        """Quotients of both kinds that kernels make, powers and functions: off by little, conjugate or with one part off they fail."""
        new = lambda *shape: torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.complex64)

        def smith(x, y):
            first = y.real.abs() >= y.imag.abs()
            big, small = torch.where(first, y.real, y.imag), torch.where(first, y.imag, y.real)
            r = small / big
            below, p, q = big + small * r, torch.where(first, x.real, x.imag), torch.where(first, x.imag, x.real)
            return torch.complex((p + q * r) / below, torch.where(first, q - p * r, p * r - q) / below)

        div = lambda x, y: x / y
        given = [new(9, 20), new(20)]
        cases = [(div, given, div(*given)), (div, given, smith(*given)), (lambda x: (2 - 1j) / x, given[1:], (2 - 1j) / given[1])]
        for f in (torch.reciprocal, torch.square, lambda x: x**3, torch.sqrt, torch.log, torch.sin, torch.cos, torch.tanh):
            cases.append((f, given[:1], f(given[0])))
        for k, (f, ins, y) in enumerate(cases):
            self.assertTrue(refrun.check_kernel(f, ins, y).ok, k)
            one = y.clone()
            one.view(-1)[7] *= 1 + 0.001j
            for bad in (y * (1 + 1e-5), y.conj().resolve_conj(), one):
                self.assertEqual(refrun.check_kernel(f, ins, bad).verdict, "FAIL", k)
        with self.assertRaisesRegex(ValueError, "to the power of 0.3: want -1, 2 or 3"):
            refrun.check_kernel(lambda x: x**0.3, given[:1], given[0] ** 0.3)

    def test_arrays(self):
        """NumPy's arrays, and a module with complex weights."""
        x = torch.randn(5, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(8))
        layer = nn.Linear(6, 4, dtype=torch.complex64)
        with torch.no_grad():
            y = layer(x)
        self.assertTrue(refrun.check_kernel(layer, [x.numpy()], y.numpy()).ok)
        self.assertFalse(refrun.check_kernel(layer, [x.numpy()], y.conj().resolve_conj().numpy()).ok)
        with self.assertRaisesRegex(ValueError, "softmux: of complex numbers: want a function"):
            refrun.check_kernel("softmux", [x], x)


if __name__ == "__main__":
    unittest.main()
