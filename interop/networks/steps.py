"""Rollouts whose step is a graph: several states, past ones, forcing, noise, static fields, images of any number of axes.

    python steps.py [--steps 8] [--seeds 1] [--precisions float64,float32,bfloat16,float16] [NAME ...]

Each step is run by PyTorch in float32 and under autocast, recorded by refrun.record and judged by
refrun.check. Right devices must pass, and faults, which begin at step 3, fail there. One line a step and precision:
right ones that passed, faults that failed, those at their step, seconds of a check.
"""

import argparse
import shutil
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import refrun

FIRST = 3  # the step at which a fault begins


class Step:
    """A step with what it is given. A fault changes how step t is called, or the function itself."""

    forcing = noise = static = None
    past = ()

    def faults(self):
        """By name: (function, or None for the right one; how its arguments change, given those of the step before)."""
        raise NotImplementedError


def conv(i, o, k=3, dims=2, **more):
    return (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](i, o, k, padding=k // 2, **more)


class ConvLSTM(Step):
    """An image of prime sides, a hidden state and a memory."""

    def __init__(self, steps):
        self.state = {"x": torch.randn(2, 3, 23, 17), "h": .5 * torch.randn(2, 8, 23, 17), "c": .5 * torch.randn(2, 8, 23, 17)}
        self.gates, self.out = conv(11, 32), conv(8, 3)

    def step(self, s, forget=True):
        i, f, o, g = self.gates(torch.cat([s["x"], s["h"]], 1)).chunk(4, 1)
        c = torch.sigmoid(i) * torch.tanh(g)
        c = torch.sigmoid(f) * s["c"] + c if forget else c
        h = torch.sigmoid(o) * torch.tanh(c)
        return {"x": self.out(h), "h": h, "c": c}

    def faults(self):
        return {"stale hidden state": (None, lambda a, b: ({**a[0], "h": b[0]["h"]},)), "stale memory": (None, lambda a, b: ({**a[0], "c": b[0]["c"]},)),
                "nothing is forgotten": (lambda s: self.step(s, False), None), "stale state": (None, lambda a, b: (b[0],))}


class Decoder(Step):
    """A decoder with a cache of keys and values, and the place of the token given for each step."""

    def __init__(self, steps, width=48, length=32):
        self.n1, self.n2, self.qkv, self.proj = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.width = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), width
        self.state = {"x": torch.randn(8, width), "k": .3 * torch.randn(8, length, width), "v": .3 * torch.randn(8, length, width)}
        at = torch.arange(steps) + 3
        self.forcing = {"here": F.one_hot(at, length).float()[:, None, :, None], "mask": torch.where(torch.arange(length) <= at[:, None], 0., -1e4)[:, None, None]}

    def step(self, s, here, mask, lost=0):
        q, k, v = self.qkv(self.n1(s["x"])).chunk(3, 1)
        keys = s["k"] * (1 - here) + k[:, None] * here
        values = s["v"] * (1 - here) + v[:, None] * here
        a = torch.softmax(torch.matmul(q[:, None], keys.transpose(1, 2)) * self.width ** -.5 + mask, -1)
        x = s["x"] + self.proj(torch.matmul(a, values)[:, 0])
        return {"x": x + self.down(F.gelu(self.up(self.n2(x)))), "k": keys, "v": values}

    def faults(self):
        other = lambda name: lambda a, b: (*a[:-1], {**a[-1], name: b[-1][name]})
        return {"cache off by one": (None, other("here")), "mask off by one": (None, other("mask")),
                "stale cache": (None, lambda a, b: ({**a[0], "v": b[0]["v"]}, *a[1:]))}


class GRU(Step):
    """A recurrent cell of tokens that are given."""

    def __init__(self, steps, width=64):
        self.read, self.keep, self.state, self.forcing = nn.Linear(24, 3 * width), nn.Linear(width, 3 * width), torch.randn(96, width), torch.randn(steps, 96, 24)

    def step(self, h, x):
        (r, z, n), (a, b, c) = self.read(x).chunk(3, 1), self.keep(h).chunk(3, 1)
        z = torch.sigmoid(z + b)
        return (1 - z) * torch.tanh(n + torch.sigmoid(r + a) * c) + z * h

    def faults(self):
        return {"forcing of the step before": (None, lambda a, b: (a[0], b[1])), "stale hidden state": (None, lambda a, b: (b[0], a[1]))}


class Heun(Step):
    """A neural ODE of a periodic network of one axis, forced at both ends of a step."""

    def __init__(self, steps):
        self.net = nn.Sequential(conv(3, 16, 5, 1, padding_mode="circular"), nn.Tanh(), conv(16, 3, 5, 1, padding_mode="circular"))
        self.state, self.forcing = torch.randn(2, 3, 331), {"now": .3 * torch.randn(steps, 3, 331), "then": .3 * torch.randn(steps, 3, 331)}

    def step(self, x, now, then, dt=.1, second=True):
        k = self.net(x) + now
        return x + .5 * dt * (k + self.net(x + dt * k) + then) if second else x + dt * k

    def faults(self):
        return {"wrong dt": (lambda *a, **k: self.step(*a, **k, dt=.101), None), "Euler": (lambda *a, **k: self.step(*a, **k, second=False), None),
                "forcing of the step before": (None, lambda a, b: (a[0], b[1])), "stale state": (None, lambda a, b: (b[0], a[1]))}


class RungeKutta(Step):
    """A neural ODE of a volume, without an axis of samples, of the fourth order."""

    def __init__(self, steps):
        self.net = nn.Sequential(conv(2, 8, 3, 3), nn.SiLU(), conv(8, 2, 3, 3))
        self.state = torch.randn(2, 11, 13, 17)

    def step(self, x, dt=.2, last=True):
        f = lambda x: self.net(x[None])[0]
        a = f(x)
        b = f(x + .5 * dt * a)
        c = f(x + .5 * dt * b)
        return x + dt / 6 * (a + 2 * b + 2 * c + f(x + dt * c if last else x))

    def faults(self):
        return {"wrong dt": (lambda x: self.step(x, .202), None), "last stage": (lambda x: self.step(x, last=False), None), "stale state": (None, lambda a, b: (b[0],))}


class FNO(Step):
    """A Fourier layer on a line, of the last two states and of where a number stands."""

    def __init__(self, steps, width=12, modes=9):
        self.lift, self.near, self.proj, self.modes = conv(5, width, 1, 1), conv(width, width, 1, 1), conv(width, 2, 1, 1), modes
        self.weight = torch.randn(width, width, modes, 2) / width
        self.state, self.past, self.static = torch.randn(2, 2, 250), (torch.randn(2, 2, 250),), {"grid": torch.linspace(0, 1, 250).expand(2, 1, 250).contiguous()}

    def step(self, x, before, grid, keep=0):
        h = self.lift(torch.cat([x, before, grid.to(x.dtype)], 1))
        f = torch.fft.rfft(h.to(self.weight.dtype))[..., : self.modes - keep]
        y = torch.einsum("bim,iom->bom", f, torch.view_as_complex(self.weight)[..., : self.modes - keep])
        return x + .3 * self.proj(F.gelu(torch.fft.irfft(y, n=h.shape[-1]).to(h.dtype) + self.near(h)))

    def faults(self):
        return {"history swapped": (None, lambda a, b: (a[1], a[0], *a[2:])), "one mode less": (lambda *a, **k: self.step(*a, **k, keep=1), None),
                "stale history": (None, lambda a, b: (a[0], b[1], *a[2:]))}


class Mesh(Step):
    """A step of MeshGraphNet: messages along edges, summed at nodes, features [nodes, features]."""

    def __init__(self, steps, nodes=97, width=32):
        self.edge, self.node, self.norm = nn.Linear(2 * width + 2, width), nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.out = nn.Linear(width, width)
        self.state = torch.randn(nodes, width)
        self.static = {"senders": torch.randint(nodes, (4 * nodes,)), "receivers": torch.randint(nodes, (4 * nodes,)), "length": torch.randn(4 * nodes, 2)}

    def step(self, x, senders, receivers, length, edges=None):
        m = F.relu(self.edge(torch.cat([x[senders], x[receivers], length.to(x.dtype)], 1)))
        to = receivers if edges is None else receivers[:edges]
        total = m.new_zeros(x.shape[0], m.shape[1]).index_add(0, to, m[: len(to)])
        return x + self.out(self.norm(F.relu(self.node(torch.cat([x, total.to(x.dtype)], 1)))))

    def faults(self):
        edge = lambda *a, **k: self.step(*a, **k, edges=-1)
        return {"an edge dropped": (edge, None), "stale state": (None, lambda a, b: (b[0], *a[1:])),
                "senders and receivers": (lambda x, senders, receivers, length: self.step(x, receivers, senders, length), None)}


class BEiT(Step):
    """Two blocks of attention with a bias for each pair of tokens, and residuals that are scaled by a tenth."""

    def __init__(self, steps, width=8, heads=2, side=8, patch=4):
        tokens = (side // patch) ** 2 + 1
        self.embed, self.first, self.norm = nn.Conv2d(3, width, patch, patch), torch.randn(1, 1, width), nn.LayerNorm(width)
        self.heads, self.head, self.state = heads, nn.Linear(width, 3 * side * side), torch.randn(2, 3, side, side)
        layer = lambda: (nn.LayerNorm(width), nn.Linear(width, 3 * width), torch.randn(1, heads, tokens, tokens) / 2, nn.Linear(width, width),
                         nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width))
        self.blocks = [layer(), layer()]

    def step(self, x, biased=True, scale=.1):
        y = torch.cat([self.first.expand(len(x), -1, -1), self.embed(x).flatten(2).transpose(1, 2)], 1)
        for norm, qkv, bias, proj, norm2, fc1, fc2 in self.blocks:
            q, k, v = qkv(norm(y)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias if biased else None)
            y = y + scale * proj(a.transpose(1, 2).flatten(2)).float()
            y = y + .1 * fc2(F.gelu(fc1(norm2(y)))).float()
        return x + .1 * self.head(self.norm(y[:, 1:].mean(1))).reshape(x.shape).to(x.dtype)

    def faults(self):
        return {"no bias": (lambda x: self.step(x, False), None), "scaled by 0.12": (lambda x: self.step(x, scale=.12), None),
                "stale state": (None, lambda a, b: (b[0],))}


class Stochastic(Step):
    """Additive and multiplicative noise."""

    def __init__(self, steps):
        self.net, self.state = nn.Sequential(conv(3, 12), nn.GELU(), conv(12, 3)), torch.randn(2, 3, 19, 29)
        self.noise = {"add": torch.randn(steps, 2, 3, 19, 29), "times": torch.randn(steps, 2, 3, 19, 29)}

    def step(self, x, add, times, sign=1):
        return .9 * x + .2 * self.net(x) * (1 + .1 * times) + sign * .05 * add

    def faults(self):
        other = lambda name: lambda a, b: (*a[:-1], {**a[-1], name: b[-1][name]})
        return {"noise sign": (lambda *a, **k: self.step(*a, **k, sign=-1), None), "additive noise of the step before": (None, other("add")),
                "multiplicative noise of the step before": (None, other("times")), "noises swapped": (lambda x, add, times: self.step(x, times, add), None),
                "stale state": (None, lambda a, b: (b[0], *a[1:]))}


STEPS = {"convlstm": ConvLSTM, "decoder": Decoder, "gru": GRU, "heun": Heun, "runge-kutta": RungeKutta, "fno": FNO, "mesh": Mesh, "beit": BEiT, "stochastic": Stochastic}


class Device:
    """What a device runs: the step, or one with a fault from step FIRST on."""

    def __init__(self, right, fault):
        self.right, (self.other, self.change) = right, fault
        self.t, self.before = 0, None

    def __call__(self, *args, **kwargs):
        self.t += 1
        now, bad = ((*args, kwargs) if kwargs else args), self.t >= FIRST
        changed = self.change(now, self.before) if bad and self.change else now
        if kwargs:
            *args, kwargs = changed
        else:
            args = changed
        self.before = now
        return (self.other if bad and self.other else self.right)(*args, **kwargs)


def moved(s, device):
    """A step with all that it has on a device."""
    put = lambda v: {k: put(x) for k, x in v.items()} if isinstance(v, dict) else [put(x) for x in v] if isinstance(v, (list, tuple)) else v.to(device) if hasattr(v, "to") else v
    for k, v in vars(s).items():
        setattr(s, k, put(v))
    return s


def main():
    p = argparse.ArgumentParser()
    p.add_argument("names", nargs="*")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--first", type=int, default=0, help="the first seed")
    p.add_argument("--precisions", default="float32,bfloat16,float16")
    p.add_argument("--device", default="cpu")
    p.add_argument("--keep", help="a folder for the cases that are judged wrongly")
    p.add_argument("-v", action="store_true")
    o = p.parse_args()
    torch.set_num_threads(1)
    total = [0] * 5
    for name in o.names or STEPS:
        for precision in o.precisions.split(","):
            counts, taken, checks = [0] * 5, 0.0, 0
            for seed in range(o.first, o.first + o.seeds):
                torch.manual_seed(seed)
                torch.set_default_dtype(torch.float64 if precision == "float64" else torch.float32)
                s = moved(STEPS[name](o.steps), o.device)
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
                for fault, what in {None: (None, None), **s.faults()}.items():
                    with tempfile.TemporaryDirectory() as d, warnings.catch_warnings(), torch.autocast(o.device, getattr(torch, precision, None), enabled=precision in ("bfloat16", "float16")):
                        refrun.record(d + "/case", Device(s.step, what), s.state, like=s.step, steps=o.steps, static=s.static, forcing=s.forcing, noise=s.noise, past=s.past, precision="tf32" if precision == "tf32" else None)
                        began = time.time()
                        r = refrun.check(d + "/case")
                        taken, checks = taken + time.time() - began, checks + 1
                        if o.keep and (r.ok if fault else not r.ok):
                            shutil.copytree(d + "/case", f"{o.keep}/{name}-{precision}-{seed}-{fault}".replace(" ", "-"))
                    if fault is None:
                        counts[0] += 1
                        counts[1] += r.ok
                    else:
                        counts[2] += 1
                        counts[3] += r.verdict.startswith("FAIL")
                        counts[4] += r.verdict.startswith("FAIL") and r.first_step == FIRST
                    if o.v or fault is None and not r.ok or fault and not (r.verdict.startswith("FAIL") and r.first_step == FIRST):
                        print(f"   {name} {precision} {seed} {fault}: {r.verdict} at step {r.first_step}: {r.diagnosis or r.reason[:160]}", flush=True)
            print(f"{name:12} {precision:9} right {counts[1]}/{counts[0]}   faults {counts[3]}/{counts[2]}, at their step {counts[4]}   {taken / max(1, checks):.1f} s a check", flush=True)
            total = [a + b for a, b in zip(total, counts)]
    print(f"right ones that passed {total[1]} of {total[0]}; faults that failed {total[3]} of {total[2]}, at their step {total[4]}")


if __name__ == "__main__":
    main()
