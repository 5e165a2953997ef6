"""Five networks of the kinds that people run, with weights from a seed: each is a module and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """A small ResNet: strided convolutions, batch norms with statistics, a pool, skips."""

    def __init__(self, width=12):
        super().__init__()
        self.stem, self.norm, self.pool = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
        self.a, self.an = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.b, self.bn = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.down, self.dn = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False), nn.BatchNorm2d(2 * width)
        self.skip = nn.Conv2d(width, 2 * width, 1, 2)
        self.mean, self.head = nn.AvgPool2d(3, 2, 1), nn.Linear(2 * width, 10)
        self.act = nn.ReLU()

    def forward(self, x):
        x = self.pool(self.act(self.norm(self.stem(x))))
        x = self.act(self.bn(self.b(self.act(self.an(self.a(x))))) + x)
        x = self.act(self.dn(self.down(x)) + self.skip(x))
        return self.head(self.mean(x).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out, self.softmax = heads, nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Softmax(-1)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        p = self.softmax(q @ k.transpose(-2, -1) * (w // self.heads) ** -0.5)
        return self.out((p @ v).transpose(1, 2).reshape(b, n, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width, eps=1e-6), Attention(width, heads), nn.LayerNorm(width, eps=1e-6)
        self.up, self.act, self.down = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Vision(nn.Module):
    """A small vision transformer."""

    def __init__(self, width=48, heads=3, depth=2):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.randn(1, 1, width) * 0.5)
        self.place = nn.Parameter(torch.randn(1, 26, width) * 0.5)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


class UNet(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.one, self.norm1, self.act1 = nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(2, width), nn.SiLU()
        self.pool, self.two, self.norm2, self.act2 = nn.AvgPool2d(3, 2, 1), nn.Conv2d(width, 2 * width, 3, padding=2, dilation=2), nn.InstanceNorm2d(2 * width, affine=True), nn.GELU()
        self.up, self.three = nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(2 * width, width, 3, padding=1, groups=2)
        self.large = nn.Upsample(scale_factor=2, mode="bilinear")
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        a = self.act1(self.norm1(self.one(x)))
        b = self.act2(self.norm2(self.two(self.pool(a))))
        y = F.leaky_relu(self.three(torch.cat([self.up(b), a], 1)), 0.1)
        return torch.sigmoid(self.out(y)) + self.large(b)[:, :3] * 0.25


class Spectral(nn.Module):
    """The product with weights of the lowest modes of a spectrum, in real numbers."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.real, self.imag = nn.Parameter(torch.randn(width, width, modes, modes) * 0.1), nn.Parameter(torch.randn(width, width, modes, modes) * 0.1)

    def forward(self, x):
        h, w, m = *x.shape[2:], self.modes
        s = torch.view_as_real(torch.fft.rfft2(x, norm="ortho"))[:, :, :m, :m]
        r, i = s[..., 0], s[..., 1]
        pad = (0, w // 2 + 1 - m, 0, h - m)
        re = F.pad(torch.einsum("bixy,ioxy->boxy", r, self.real) - torch.einsum("bixy,ioxy->boxy", i, self.imag), pad)
        im = F.pad(torch.einsum("bixy,ioxy->boxy", r, self.imag) + torch.einsum("bixy,ioxy->boxy", i, self.real), pad)
        return torch.fft.irfft2(torch.view_as_complex(torch.stack([re, im], -1)), s=(h, w), norm="ortho")


class FNO(nn.Module):
    def __init__(self, width=8, modes=5):
        super().__init__()
        self.lift, self.project, self.act = nn.Conv2d(2, width, 1), nn.Conv2d(width, 2, 1), nn.GELU()
        self.spectral = nn.ModuleList([Spectral(width, modes) for _ in range(2)])
        self.local = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(2)])

    def forward(self, x):
        x = self.lift(x)
        for s, l in zip(self.spectral, self.local):
            x = self.act(s(x) + l(x))
        return self.project(x)


class Filter(nn.Module):
    """Radial functions sin(n pi r/rc)/r and the cosine cutoff."""

    def __init__(self, count, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("n", torch.arange(1, count + 1).float())

    def forward(self, d):
        basis = torch.sin(self.n * (torch.pi / self.cutoff) * d[:, None]) / d[:, None]
        return basis, (0.5 * (torch.cos(d * (torch.pi / self.cutoff)) + 1) * (d < self.cutoff).to(d.dtype))[:, None]


class Message(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.width, self.filter, self.one, self.act, self.two = width, nn.Linear(count, 3 * width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 3 * width)

    def forward(self, q, v, basis, cut, u, i, j):
        a, b, c = torch.split(self.two(self.act(self.one(q)))[j] * (self.filter(basis) * cut), self.width, -1)
        q = q + torch.zeros_like(q).index_add(0, i, a)
        return q, v + torch.zeros_like(v).index_add(0, i, u[:, :, None] * b[:, None, :] + v[j] * c[:, None, :])


class PaiNN(nn.Module):
    """Energies of atoms, with two rounds of messages of vectors."""

    def __init__(self, width=16, count=8, cutoff=4.5):
        super().__init__()
        self.table, self.radial = nn.Embedding(20, width), Filter(count, cutoff)
        self.messages = nn.ModuleList([Message(width, count) for _ in range(2)])
        self.mix, self.update = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width)
        self.act, self.out = nn.SiLU(), nn.Linear(width, 1)

    def forward(self, z, positions, edges):
        i, j = edges[0], edges[1]
        r = positions[j] - positions[i]
        d = torch.sqrt((r * r).sum(-1))
        basis, cut = self.radial(d)
        q = self.table(z)
        v = torch.zeros(z.shape[0], 3, q.shape[1], dtype=q.dtype, device=q.device)
        for m in self.messages:
            q, v = m(q, v, basis, cut, r / d[:, None], i, j)
        length = torch.sqrt((self.mix(v) ** 2).sum(1) + 1e-8)
        return self.out(self.act(self.update(torch.cat([q, length], -1))))


def _molecule(n=12):
    p = torch.randn(n, 3) * 1.8
    e = [(i, j) for i in range(n) for j in range(n) if i != j and (p[i] - p[j]).norm() < 4.5]
    return torch.randint(1, 19, (n,)), p, torch.tensor(e).t().contiguous()


def _image():
    return (torch.randn(1, 3, 224, 224),)


def _torchvision(name):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return make


# torchvision's own, as people run them.
LARGE = {name: _torchvision(name) for name in ("resnet18", "vit_b_16")}


def build(name, seed=0):
    """The module in evaluation mode, and its inputs. Norms have parameters and statistics of their own."""
    torch.manual_seed(seed)
    module = {"resnet": Residual, "vit": Vision, "unet": UNet, "fno": FNO, "painn": PaiNN, **LARGE}[name]().eval()
    for m in module.modules():
        if getattr(m, "running_mean", None) is not None:
            m.running_mean.normal_(0, 0.3), m.running_var.uniform_(0.02, 0.5)
        if isinstance(m, (nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm)):
            m.weight.data.uniform_(0.5, 1.5), m.bias.data.normal_(0, 0.3)
    inputs = {"resnet": lambda: (torch.randn(2, 3, 64, 64),), "vit": lambda: (torch.randn(2, 3, 40, 40),), "unet": lambda: (torch.randn(2, 3, 32, 32),),
              "fno": lambda: (torch.randn(2, 2, 16, 16),), "painn": _molecule, "resnet18": _image, "vit_b_16": _image}[name]()
    return module, inputs


NAMES = ("resnet", "vit", "unet", "fno", "painn")
