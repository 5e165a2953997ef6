"""Rollouts of networks of many kinds: right devices (PyTorch on a CPU) must pass, and faults fail at their step.

    python rollouts.py [--steps 8] [--seeds 1] [--size 32] [--device cuda] [NAME ...]

Each network is stepped by a convex policy in float32 (on a GPU also in TF32) and under autocast to bfloat16 and float16, recorded by
refrun.record and judged by refrun.check. A fault begins at step 3. One line a network and mode: right ones that
passed, faults that failed, those at their step, seconds of a check.
"""

import argparse
import copy
import shutil
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import refrun

FIRST = 3  # the step at which a fault begins


class UNet(nn.Module):
    """Max pooling, transposed convolutions, group norms."""

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.a, self.an = nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width)
        self.b, self.bn = nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width)
        self.c = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up, self.d, self.out = nn.ConvTranspose2d(2 * width, width, 2, stride=2), nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(width, 3, 1)
        self.act, self.skip = nn.GELU(), skip

    def forward(self, x):
        h = self.act(self.an(self.a(x)))
        y = self.act(self.c(self.act(self.bn(self.b(F.max_pool2d(h, 2))))))
        u = self.up(y)
        return self.out(self.act(self.d(torch.cat([u, h if self.skip else 0 * h], 1))))


class Dilated(nn.Module):
    """A residual network of dilated convolutions."""

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=d, dilation=d) for d in (1, 2, 4, 2, 1))
        self.act, self.skip = nn.ReLU(), skip

    def forward(self, x):
        h = self.first(x)
        for k, conv in enumerate(self.body):
            y = self.act(conv(h))
            h = y if k == 2 and not self.skip else h + y
        return self.last(h)


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.low, self.high = (nn.Parameter(torch.randn(width, width, modes, modes, 2) / width) for _ in range(2))

    def forward(self, x):
        m, dtype = self.modes, x.dtype
        f = torch.fft.rfft2(x.float())
        mix = lambda part, w: torch.einsum("bixy,ioxy->boxy", part, torch.view_as_complex(w))
        low, high = mix(f[:, :, :m, :m], self.low), mix(f[:, :, -m:, :m], self.high)
        rest = torch.zeros(x.shape[0], low.shape[1], x.shape[2] - 2 * m, m, dtype=low.dtype, device=x.device)
        g = F.pad(torch.view_as_real(torch.cat([low, rest, high], 2)), (0, 0, 0, x.shape[3] // 2 + 1 - m))
        return torch.fft.irfft2(torch.view_as_complex(g.contiguous()), s=x.shape[-2:]).to(dtype)


class FNO(nn.Module):
    """Spectral convolutions beside pointwise ones."""

    def __init__(self, width=12, skip=True):
        super().__init__()
        self.lift, self.proj = nn.Conv2d(3, width, 1), nn.Conv2d(width, 3, 3, padding=1)
        self.far = nn.ModuleList(Spectral(width, 5) for _ in range(2))
        self.near = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.act, self.skip = nn.GELU(), skip

    def forward(self, x):
        h = self.lift(x)
        for k, (far, near) in enumerate(zip(self.far, self.near)):
            h = self.act(far(h) + near(h)) if self.skip or k else self.act(far(h))
        return self.proj(h)


class ConvNeXt(nn.Module):
    """A U-Net of ConvNeXt blocks: depthwise 7 x 7 convolutions, layer norms over channels, strided convolutions."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.dw, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
            self.up, self.down, self.act = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.GELU()
            self.gamma, self.skip = nn.Parameter(.5 * torch.ones(width)), True

        def forward(self, x):
            h = self.norm(self.dw(x).permute(0, 2, 3, 1))
            h = (self.gamma * self.down(self.act(self.up(h)))).permute(0, 3, 1, 2)
            return x + h if self.skip else h

    def __init__(self, width=12, skip=True):
        super().__init__()
        self.stem, self.one = nn.Conv2d(3, width, 3, padding=1), self.Block(width)
        self.small, self.two = nn.Conv2d(width, 2 * width, 2, stride=2), self.Block(2 * width)
        self.back, self.out = nn.Conv2d(2 * width, width, 1), nn.Conv2d(2 * width, 3, 3, padding=1)
        self.two.skip = skip

    def forward(self, x):
        h = self.one(self.stem(x))
        y = F.interpolate(self.back(self.two(self.small(h))), scale_factor=2, mode="nearest")
        return self.out(torch.cat([h, y], 1))


class Patches(nn.Module):
    """A vision transformer on patches."""

    def __init__(self, width=32, patch=4, size=32, skip=True):
        super().__init__()
        self.embed, self.head = nn.Conv2d(3, width, patch, stride=patch), nn.ConvTranspose2d(width, 3, patch, stride=patch)
        self.place = nn.Parameter(.1 * torch.randn(1, (size // patch) ** 2, width))
        self.n1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.act, self.skip, self.smooth = nn.GELU(), skip, nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        e = self.embed(x)
        n, d, h, w = e.shape
        t = e.flatten(2).transpose(1, 2) + self.place
        q, k, v = self.qkv(self.n1(t)).reshape(n, h * w, 3, 4, d // 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, d))
        t = t + a if self.skip else a
        t = t + self.down(self.act(self.up(self.n2(t))))
        return self.smooth(self.head(t.transpose(1, 2).reshape(n, d, h, w)))


class Gate(nn.Module):
    """Softmax gates, squeeze and excitation, instance norms, average pooling, bilinear interpolation."""

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.a, self.g, self.n = nn.Conv2d(3, width, 5, padding=2), nn.Conv2d(3, width, 1), nn.InstanceNorm2d(width, affine=True)
        self.down, self.up, self.out = nn.Linear(width, 4), nn.Linear(4, width), nn.Conv2d(width, 3, 3, padding=1)
        self.act, self.skip = nn.SiLU(), skip

    def forward(self, x):
        y = self.n(self.a(x))
        y = torch.softmax(self.g(x), 1) * y if self.skip else y
        y = y * torch.sigmoid(self.up(self.act(self.down(y.mean((2, 3))))))[:, :, None, None]
        y = F.interpolate(F.avg_pool2d(y, 2), scale_factor=2, mode="bilinear", align_corners=False)
        return torch.tanh(self.out(y))


class Grouped(nn.Module):
    """Grouped convolutions, circular padding, batch norms with statistics, strides and pixel shuffle."""

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.a = nn.Conv2d(3, width, 3, padding=1, padding_mode="circular")
        self.b, self.bn = nn.Conv2d(width, width, 3, padding=1, groups=4, padding_mode="circular"), nn.BatchNorm2d(width)
        self.c, self.cn = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width)
        self.d, self.out = nn.Conv2d(2 * width, 4 * width, 1, groups=2), nn.Conv2d(width, 3, 3, padding=1)
        self.act, self.skip = nn.ReLU(), skip
        for n in (self.bn, self.cn):
            nn.init.normal_(n.running_mean, 0, .2)
            nn.init.uniform_(n.running_var, .5, 1.5)

    def forward(self, x):
        h = self.act(self.bn(self.b(self.a(x))))
        y = F.pixel_shuffle(self.d(self.act(self.cn(self.c(h)))), 2)
        return self.out(h + y if self.skip else y)


class ConvLSTM(nn.Module):
    """A cell whose state is the image, its hidden state and its memory, as channels."""

    def __init__(self, width=8, skip=True):
        super().__init__()
        self.width, self.gates, self.out = width, nn.Conv2d(3 + width, 4 * width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.act, self.skip = nn.Tanh(), skip

    def forward(self, s):
        x, h, c = s.split([3, self.width, self.width], 1)
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * self.act(g) if self.skip else torch.sigmoid(i) * self.act(g)
        h = torch.sigmoid(o) * self.act(c)
        return torch.cat([self.out(h), h, c], 1)


class Axial(nn.Module):
    """Attention along the rows and then along the columns of an image of patches, as AViT has."""

    class Line(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm, self.qkv, self.proj, self.heads = nn.InstanceNorm2d(width, affine=True), nn.Linear(width, 3 * width), nn.Linear(width, width), heads

        def forward(self, x, rows):
            t = self.norm(x).permute((0, 2, 3, 1) if rows else (0, 3, 2, 1))
            n, a, b, d = t.shape
            q, k, v = self.qkv(t).reshape(n, a, b, 3, self.heads, d // self.heads).permute(3, 0, 1, 4, 2, 5).unbind(0)
            y = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, a, b, d))
            return y.permute((0, 3, 1, 2) if rows else (0, 3, 2, 1))

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.embed, self.head = nn.Conv2d(3, width, 2, stride=2), nn.ConvTranspose2d(width, 3, 2, stride=2)
        self.rows, self.columns = self.Line(width, 1), self.Line(width, 2)
        self.up, self.down = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, width, 1)
        self.act, self.skip, self.smooth = nn.GELU(), skip, nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        h = self.embed(x)
        y = self.rows(h, True)
        h = h + y if self.skip else y
        h = h + self.columns(h, False)
        return self.smooth(self.head(h + self.down(self.act(self.up(h)))))


class Denoiser(nn.Module):
    """A U-Net of diffusion: the features of one time scale and shift what norms return, and pixels attend to each other."""

    def __init__(self, width=16, time=.3, skip=True):
        super().__init__()
        self.first, self.n1, self.n2 = nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.GroupNorm(4, 2 * width)
        self.down, self.mix = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.qkv, self.proj, self.back = nn.Linear(2 * width, 6 * width), nn.Linear(2 * width, 2 * width), nn.Conv2d(2 * width, width, 1)
        self.embed, self.film, self.out = nn.Linear(8, 16), nn.Linear(16, 2 * width), nn.Conv2d(2 * width, 3, 3, padding=1)
        self.act, self.skip = nn.SiLU(), skip
        angles = time * 10. ** torch.arange(4)
        self.register_buffer("time", torch.cat([angles.sin(), angles.cos()])[None])

    def forward(self, x):
        scale, shift = self.film(self.act(self.embed(self.time)))[:, :, None, None].chunk(2, 1)
        h = self.act(self.n1(self.first(x)) * (1 + scale) + shift)
        y = self.down(h)
        n, d, a, b = y.shape
        q, k, v = self.qkv(self.n2(y).flatten(2).transpose(1, 2)).reshape(n, a * b, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        t = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, a * b, d)).transpose(1, 2).reshape(n, d, a, b)
        y = self.mix(y + t if self.skip else t)
        return self.out(torch.cat([h, F.interpolate(self.back(y), scale_factor=2, mode="nearest")], 1))


class Gated(nn.Module):
    """A residual network of gated convolutions and batch norms with statistics."""

    def __init__(self, width=16, skip=True):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.both = nn.ModuleList(nn.Conv2d(width, 2 * width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.act, self.skip = nn.SiLU(), skip
        for n in self.norms:
            nn.init.normal_(n.running_mean, 0, .2)
            nn.init.uniform_(n.running_var, .5, 1.5)

    def forward(self, x):
        h = self.first(x)
        for k, (both, norm) in enumerate(zip(self.both, self.norms)):
            a, g = both(self.act(norm(h))).chunk(2, 1)
            y = a * torch.sigmoid(g)
            h = h + y if self.skip or k else y
        return self.last(h)


NETWORKS = {"unet": UNet, "dilated": Dilated, "fno": FNO, "convnext": ConvNeXt, "patches": Patches, "gate": Gate, "grouped": Grouped, "convlstm": ConvLSTM,
            "axial": Axial, "denoiser": Denoiser, "gated": Gated}
CHANNELS = {"convlstm": 19}
NORMS = (nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm2d, nn.BatchNorm2d)


def build(name, seed):
    torch.manual_seed(seed)
    m = NETWORKS[name]().eval()
    for p in m.parameters():
        if p.dim() == 1 and p.numel() > 3:
            nn.init.normal_(p, float(p.detach().mean()), .2)
    return m


def some(m, kind, which=0):
    of = [x for x in m.modules() if isinstance(x, kind)]
    return of[which] if of else None


class HalfSums(nn.Module):
    """A convolution or a linear layer whose sums are kept in bfloat16: of two parts of its inputs, each stored."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x):
        cut = x.shape[1] // 2
        mask = torch.zeros_like(x)
        mask[:, :cut] = 1
        bias = self.of.bias[None, :, None, None]
        one, two = (self.of(part) - bias for part in (x * mask, x * (1 - mask)))
        y = (one.bfloat16() + two.bfloat16()).bfloat16().float() + bias
        return y.to(one.dtype)


def swap(m, old, new):
    for parent in m.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
                return True
    return False


def eps(m):
    for n in m.modules():
        if isinstance(n, NORMS):
            n.eps = 1e-3
    return some(m, NORMS) is not None


def activation(m):
    a = some(m, (nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh))
    other = {nn.GELU: nn.GELU("tanh"), nn.ReLU: nn.LeakyReLU(.01), nn.SiLU: nn.Hardswish(), nn.Tanh: nn.Hardtanh()}[type(a)]
    return all([swap(m, a, other)])


def padding(m):
    c = [c for c in m.modules() if isinstance(c, nn.Conv2d) and c.kernel_size[0] > 1 and c.stride == (1, 1)][-1]
    c.padding_mode = "replicate" if c.padding_mode != "replicate" else "zeros"
    c._reversed_padding_repeated_twice = [p for p in reversed(c.padding) for _ in range(2)]
    return True


def skip(m):
    for b in m.modules():
        if getattr(b, "skip", None) is True:
            b.skip = False
            return True
    return False


def transposed(m):
    c = [c for c in m.modules() if isinstance(c, nn.Conv2d) and c.kernel_size[0] > 1][0]
    c.weight = nn.Parameter(c.weight.transpose(2, 3).contiguous())
    return True


def bias(m):
    c = [c for c in m.modules() if isinstance(c, nn.Conv2d)][-1]
    c.bias = nn.Parameter(c.bias * 0)
    return True


def sums(m):
    c = [c for c in m.modules() if isinstance(c, nn.Conv2d) and c.groups == 1 and c.in_channels > 3]
    return bool(c) and swap(m, c[-1], HalfSums(c[-1]))


FAULTS = {"eps": eps, "activation": activation, "padding": padding, "skip": skip, "transposed": transposed, "bias": bias, "half sums": sums}
ROLLOUT = ("stale state", "alpha")


def roll(folder, right, name, precision, fault, steps, size, samples, seed, device="cpu", compiled=False):
    """Records a rollout, with a fault from step FIRST on. None where the network cannot have it."""
    wrong = copy.deepcopy(right)
    if fault in FAULTS and not FAULTS[fault](wrong):
        return None
    torch.manual_seed(1000 + seed)
    x = torch.randn(samples, CHANNELS.get(name, 3), size, size).to(device)
    before, half = x, precision in ("bfloat16", "float16")
    torch._dynamo.reset()
    module = Device(torch.compile(right) if compiled else right)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    with warnings.catch_warnings(), torch.no_grad(), refrun.record(folder, module, like=right if compiled else None, alpha=.5, precision=precision, autocast=device if half else None) as rec:
        for t in range(1, steps + 1):
            bad = fault is not None and t >= FIRST
            module.now = wrong if bad and fault in FAULTS else None
            given = before if bad and fault == "stale state" else x
            rec.state(x)
            with torch.autocast(device, getattr(torch, precision) if half else None, enabled=half):
                y = module(given)
            alpha = .51 if bad and fault == "alpha" else .5
            before, x = x, alpha * x + (1 - alpha) * y
        rec.finish(x)
    return folder


class Device(nn.Module):
    """What a device runs: the module, or one with a fault in its place, which nobody sees who looks at the module.

    With PyTorch's cache of compiled graphs (2.9 and 2.11; AOTAutograd's, whose key says whether there is an autocast and
    not to what) a module that was compiled under autocast to bfloat16 runs in bfloat16 under autocast to float16, too.
    """

    def __init__(self, right):
        super().__init__()
        self.right = right
        object.__setattr__(self, "now", None)

    def forward(self, x):
        return (self.now or self.right)(x)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value) if name == "now" else super().__setattr__(name, value)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("names", nargs="*")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--samples", type=int, default=2)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--first", type=int, default=0, help="the first seed")
    p.add_argument("--precisions", default="float32,bfloat16,float16")
    p.add_argument("--device", default="cpu")
    p.add_argument("--compiled", action="store_true", help="torch.compile's kernels, without faults")
    p.add_argument("--keep", help="a folder for the cases that are judged wrongly")
    p.add_argument("-v", action="store_true")
    o = p.parse_args()
    torch.set_num_threads(1)
    torch.compiler.config.force_disable_caches = True  # which hold no type of autocast: see Device
    total = [0, 0, 0, 0, 0]
    for name in o.names or NETWORKS:
        for precision in o.precisions.split(","):
            counts, taken, checks = [0, 0, 0, 0, 0], 0.0, 0
            for seed in range(o.first, o.first + o.seeds):
                net = build(name, seed).to(o.device)
                for fault in (None,) if o.compiled else (None, *FAULTS, *ROLLOUT):
                    with tempfile.TemporaryDirectory() as d:
                        if roll(d + "/case", net, name, precision, fault, o.steps, o.size, o.samples, seed, o.device, o.compiled) is None:
                            continue
                        began = time.time()
                        try:
                            r = refrun.check(d + "/case")
                        except ValueError as e:
                            print(f"   {name} {precision} {fault}: {e}", flush=True)
                            continue
                        took = time.time() - began
                        if o.keep and (r.ok if fault else not r.ok):
                            shutil.copytree(d + "/case", f"{o.keep}/{name}-{precision}-{seed}-{fault}".replace(" ", "-"))
                        taken, checks = taken + took, checks + 1
                    if fault is None:
                        counts[0] += 1
                        counts[1] += r.ok
                    else:
                        counts[2] += 1
                        counts[3] += r.verdict.startswith("FAIL")
                        counts[4] += r.verdict.startswith("FAIL") and r.first_step == FIRST
                    if o.v or (fault is None and not r.ok) or (fault is not None and (not r.verdict.startswith("FAIL") or r.first_step != FIRST)):
                        print(f"   {name} {precision} seed {seed} {fault}: {r.verdict} step {r.first_step} {r.slice} | {r.diagnosis} | {r.contract} | {took:.1f} s {[round(float(s['re']), 2) for s in r.steps]}", flush=True)
            total = [a + b for a, b in zip(total, counts)]
            print(f"{name:10} {precision:9} right {counts[1]} of {counts[0]}; faults {counts[3]} of {counts[2]}, at their step {counts[4]}; {taken / max(1, checks):.1f} s", flush=True)
    print(f"all: right {total[1]} of {total[0]}; faults {total[3]} of {total[2]}, at their step {total[4]}")


if __name__ == "__main__":
    main()
