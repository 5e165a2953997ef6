"""What a fault is, and how one is put into a device.

A fault is a function that takes the place of an operation of a correct device. Its
amplitude says how much of it there is: 1 as it occurs, 1/4 and 1/16 by blending
with the correct value, or by touching fewer elements. A fault of a case is bound to
it: which modules it sits in and at which steps it acts follow from the seed.
"""

import zlib
from dataclasses import dataclass, field

import numpy as np

from formats import f32

ALL = ("float32", "tf32", "float16", "bfloat16")
HALF = ("float16", "bfloat16")
CONVS = ("conv", "point", "out")

# What an operator must be like.
STATS = {"normalization": ["instance", "group", "layer"]}
NORMED = {"normalization": ["instance", "group", "layer", "batch"]}

FAMILIES = ("logic", "precision", "rng", "rollout", "rare")

CATALOGUE = {}


@dataclass(frozen=True)
class Fault:
    id: str
    family: str
    kinds: tuple               # of the nodes it may sit in; "record" for the finished trajectory
    what: str
    run: object = field(repr=False, compare=False, default=None)
    modes: tuple = ALL
    need: dict = field(default_factory=dict, hash=False)   # what the operator must be like
    where: str = "all"         # or "one": a single module, chosen by the seed
    when: str = "from"         # from a step on, "once" at one step, "start" from step 1
    history: bool = False      # sees the last step's value
    known: bool = False        # a fault only against a known noise
    accept: tuple = ()         # further families that are no wrong diagnosis


def fault(id, family, kinds, what, **options):
    """Enters the decorated function into the catalogue."""
    def enter(f):
        k = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        assert id not in CATALOGUE, id
        CATALOGUE[id] = Fault(id, family, k, what, f, **options)
        return f
    return enter


class Bound:
    """A fault in one case."""

    def __init__(self, fault, amplitude, seed, operator, steps):
        self.fault, self.a, self.seed = fault, amplitude, seed
        self.rng = self.stream(0)
        places = [n for k, n in operator.modules() if k in fault.kinds]
        self.place = places[self.rng.integers(len(places))] if fault.where == "one" and places else None
        late = 1 + int(self.rng.integers(1, steps - 1)) if steps > 2 else 1
        self.start = 1 if fault.when == "start" or (fault.when == "from" and seed % 2 == 0) else late
        self.only = fault.when == "once"

    def stream(self, n):
        return np.random.default_rng([self.seed, zlib.crc32(self.fault.id.encode()), n])

    def active(self, t):
        return t == self.start if self.only else t >= self.start

    def acts(self, device, kind, name):
        if kind not in self.fault.kinds or self.place not in (None, name):
            return False
        return self.fault.history or self.active(device.t)

    def run(self, device, kind, name, is_half, point, compute, args):
        c = Call(self, device, kind, name, is_half, point, compute, args)
        if self.fault.history:
            key = (kind, name)
            c.before = device.memory.get(key)
            if c.before is None:
                c.before = np.zeros_like(c.good())
            device.memory[key] = c.good()
            if not self.active(device.t):
                return c.good()
        with np.errstate(all="ignore"):
            return f32(self.fault.run(c))

    def record(self, device, states):
        """The trajectory as this device writes it."""
        if "record" not in self.fault.kinds:
            return states
        c = Call(self, device, "record", "record", False, "state", lambda v: v, (states,))
        with np.errstate(all="ignore"):
            out = f32(self.fault.run(c))
        for t in range(states.shape[1]):
            if not np.array_equal(out[:, t], states[:, t], equal_nan=True):
                device.first = device.first or (t, "record")
                break
        return out


class Call:
    """One execution of an operation by a faulty device."""

    def __init__(self, bound, device, kind, name, is_half, point, compute, args):
        self.bound, self.dev, self.kind, self.name = bound, device, kind, name
        self.is_half, self.point, self.compute, self.args = is_half, point, compute, args
        self.a, self.t, self.op, self.seed = bound.a, device.t, device.op, bound.seed
        self.rng = bound.stream(1)           # the same at every step and in every layer
        self.rng_t = bound.stream(2 + device.t)
        self._good = None

    def good(self):
        if self._good is None:
            self._good = f32(self.compute(*self.args))
        return self._good

    def stored(self, v):
        return self.dev.store(v, self.is_half, self.point)

    # Ways of having less of a fault.

    def mix(self, bad):
        """Between the correct value and the faulty one."""
        if self.a == 1:
            return f32(bad)
        good = self.good()
        return f32(good + self.a * (f32(bad).astype(np.float64) - good))

    def between(self, good, bad):
        """A parameter on its way from good to bad."""
        return good + self.a * (bad - good)

    def some(self, good, bad, rng=None):
        """A share of the elements, as large as the amplitude."""
        if self.a == 1:
            return bad
        return np.where((rng or self.rng_t).random(np.shape(good)) < self.a, bad, good)

    def count(self, n):
        return max(1, int(round(n * self.a)))

    def tile(self, v, bad, size=8):
        """One square of one channel of one sample: its side shrinks with the amplitude."""
        n, c, h, w = v.shape
        s = max(1, int(round(size * self.a ** .5)))
        i, j, y, x = (int(self.rng.integers(k)) for k in (n, c, max(1, h - s), max(1, w - s)))
        out = v.copy()
        out[i, j, y:y + s, x:x + s] = bad[i, j, y:y + s, x:x + s]
        return out

    def element(self, v):
        return tuple(int(self.rng.integers(k)) for k in v.shape)

    # The operation with something replaced.

    def conv(self, x=None, w=None, b=0, total=None):
        x0, w0, b0 = self.args
        return self.dev._conv(x0 if x is None else x, w0 if w is None else w, b0 if isinstance(b, int) else b, total)

    def norm(self, x=None, p=None, **how):
        x0, p0 = self.args
        return self.dev._norm(x0 if x is None else x, p0 if p is None else {**p0, **p}, **how)

    def noise(self, x=None, draws=None, scale=None):
        x0, d0, s0, is_half = self.args
        return self.dev._noise(x0 if x is None else x, d0 if draws is None else draws, s0 if scale is None else scale, is_half)
