"""A device: Spinlock's CNN operator and rollout in numpy, as hardware runs it.

Every arithmetic operation is a float32 one (products of half numbers are exact in
float32), in an order that the device's Kernels name, and results are rounded to
the half type where autocast stores them. Nothing here is shared with refrun.

A tensor travels as (values, half): values is a float32 array, half says whether
its type is the mode's half type, as autocast decides. Each operation runs through
Device.node, where a fault may replace its result.
"""

from dataclasses import dataclass, field, replace

import numpy as np

import cores
import functions
import sums
from formats import f32, half, tf32

EPS = 1e-5
POINTS = frozenset("conv bias norm act sum draw product noise out share".split())


@dataclass(frozen=True)
class Kernels:
    """How a correct device computes what the contract leaves open."""

    order: str = "sequential"      # of convolution sums, see Device.total
    statistics: str = "two-pass"   # one-pass, welford, sequential, float64
    affine: str = "direct"         # ((x-m) s) g + b, or "folded": x a + (b - m a)
    root: int = 0                  # ulps by which 1/sqrt(var+eps) is off
    activation: str = "exact"      # kernel, erff, fast, or off:N
    fuse: bool = False             # noise and policies by fused multiply-add
    draw_ulp: int = 0              # float32 ulps by which draws are off
    rounding: str = "even"         # of TF32 operands
    stores: frozenset = POINTS     # where half tensors are rounded to their type
    flush: bool = False            # float32 subnormals to zero
    fold: bool = False             # batch norm folded into the convolution
    wide: frozenset = frozenset()  # "state", "inner": convolutions whose input is not rounded to an operand
    constants: bool = False        # the noise's scale, and dt or 1-alpha beside a half output, are half numbers
    split: bool = False            # a half norm is rounded before it is scaled and shifted
    apart: bool = False            # biases are added to the rounded sum, as CUDA's autocast does
    parameters: bool = False       # all parameters are half numbers, and PyTorch's CPU keeps statistics of instance norms so


@dataclass
class Operator:
    """An operator and how it is rolled out: case.json's two objects, and weights."""

    config: dict
    rollout: dict
    weights: dict
    blocks: list = field(default_factory=list)

    def __post_init__(self):
        c, self.blocks = self.config, []
        width = [c["base_channels"] * 2 ** min(i, 2) for i in range(c["num_layers"])]
        ins = [c.get("input_channels", 3), c["base_channels"]] + width
        for i, (a, b) in enumerate(zip(ins, [c["base_channels"]] + width)):
            kind = "residual" if i > 0 and c["num_layers"] > 3 else "plain"
            self.blocks.append((f"conv_blocks.{i}", kind, a, b))

    def convs(self):
        """The names of its convolutions that a norm follows, in order of execution."""
        return [n[:-2] + ".0" for n in self.norms()]

    def norms(self):
        out = []
        for name, kind, _, _ in self.blocks:
            out += [f"{name}.block.1"] if kind == "plain" else [f"{name}.blocks.{j}.block.1" for j in (0, 1)]
        return out

    def modules(self):
        """Names of all modules that a forward pass goes through, in order, by kind."""
        out = []
        for name, kind, a, b in self.blocks:
            inner = [name] if kind == "plain" else [f"{name}.blocks.0", f"{name}.blocks.1"]
            for p in inner:
                out.append(("conv", f"{p}.block.0"))
                if self.config["normalization"] != "none":
                    out.append(("norm", f"{p}.block.1"))
                act = 2 if self.config["normalization"] != "none" else 1
                if self.config["activation"] != "none":
                    out.append(("act", f"{p}.block.{act}"))
            if kind == "residual":
                if a != b:
                    out.append(("point", f"{name}.projection"))
                out.append(("sum", name))
        if self.noise:
            out.append(("noise", "stochastic_block"))
        out.append(("out", "output_layer.conv"))
        return out

    @property
    def noise(self):
        c = self.config
        return c.get("noise_type") if c.get("noise_scale") is not None else None

    def width(self):
        return self.blocks[-1][3]


class Device:
    """Runs an operator in a mode with some kernels and perhaps a fault."""

    def __init__(self, operator, mode, kernels=Kernels(), fault=None, autocast="cuda"):
        self.op, self.mode, self.k, self.fault, self.autocast = operator, mode, kernels, fault, autocast
        self.half_mode = mode in ("float16", "bfloat16")
        self.t, self.taps, self.first = 0, None, None
        self.memory, self.narrow = {}, False

    # Formats.

    def half(self, x):
        return half(x, self.mode)

    def store(self, v, is_half, point):
        v = f32(v)
        if is_half and (point == "state" or point in self.k.stores):
            v = self.half(v)
        if self.k.flush:
            v = np.where(np.abs(v) < np.float32(2.0 ** -126), np.float32(0), v)
        return v

    def operand(self, x):
        """x as a convolution multiplies it."""
        if self.half_mode:
            return self.half(x)
        return tf32(x, self.k.rounding) if self.mode == "tf32" else x

    def node(self, kind, name, is_half, point, compute, *args):
        """Runs one operation; a fault may take its place. Returns what is stored."""
        f = self.fault
        if f is not None and f.acts(self, kind, name):
            v = self.store(f.run(self, kind, name, is_half, point, compute, args), is_half, point)
            if self.first is None and not np.array_equal(v, self.store(compute(*args), is_half, point), equal_nan=True):
                self.first = (self.t, name)
        else:
            v = self.store(compute(*args), is_half, point)
        if self.taps is not None and (not is_half or point == "state" or point in self.k.stores):
            self.taps[name] = (v, is_half)
        return v, is_half

    # Operations. Each `_name` returns the float32 values before they are stored.

    def total(self, x, w):
        """Convolution sums of operands x [N,C,H,W], w [O,C,k,k], as [N,O,H,W] in float32."""
        o, _, k, _ = w.shape
        n, _, h, wd = x.shape
        order = self.k.order
        if order.startswith("winograd"):
            if k == 3:
                return sums.winograd(x, w, sums.F2 if order == "winograd2" else sums.F4)
            order = "sequential"
        cols, m = sums.columns(x, k), w.reshape(o, -1)
        if order in ("nhwc", "nhwc-fma"):
            i = sums.channels_last(k * k, m)
            y = sums.sequential(cols[i], m[:, i], order == "nhwc-fma")
        elif order.startswith("split"):
            y = sums.split(cols, m, int(order[5:]))
        elif order == "three":
            y = self.three(cols, m)
        elif order.startswith("unit:"):     # k with the channels innermost, as implicit GEMM has it
            i = sums.channels_last(k * k, m)
            y = cores.total(order[5:], self.mode, cols[i], m[:, i])
        else:
            y = {"sequential": sums.sequential, "fma": lambda a, b: sums.sequential(a, b, True), "reverse": sums.reverse,
                 "pairwise": sums.pairwise, "blocked": sums.blocked, "truncated": sums.truncated,
                 "kahan": sums.kahan, "wide": sums.wide}[order](cols, m)
        return y.reshape(o, n, h, wd).transpose(1, 0, 2, 3)

    def three(self, x, w):
        """3xTF32: the two small products first, then the large one, into one accumulator."""
        xh, wh = tf32(x), tf32(w)
        xl, wl = tf32(x - xh), tf32(w - wh)
        return sums.sequential(xh, wh, start=sums.sequential(xl, wh, start=sums.sequential(xh, wl)))

    def _conv(self, x, w, b, total=None, raw=False):
        """x, w, b as stored; total may replace the sums; a raw x is multiplied as it is."""
        y = (total or self.total)(x if raw else self.operand(x), self.operand(w))
        return y if b is None else self.add_bias(y, b)

    def add_bias(self, y, b):
        b = b[:, None, None]
        if self.half_mode:
            b = self.half(b)
            if (self.autocast == "cuda" or self.k.apart) and "bias" in self.k.stores:
                y = self.half(y)     # CUDA adds the bias by an operation of its own
        return y + b

    def conv(self, name, t, kind="conv"):
        wt = self.op.weights
        w, b = wt[name + ".weight"], wt.get(name + ".bias")
        if self.k.fold and kind == "conv":
            p = name[:-1] + "1"
            a = wt[p + ".weight"] / np.sqrt(wt[p + ".running_var"] + np.float32(EPS))
            w, b = w * a[:, None, None, None], wt[p + ".bias"] - wt[p + ".running_mean"] * a
        raw = ("state" if name.startswith("conv_blocks.0.") else "inner") in self.k.wide
        compute = (lambda x, w, b, total=None: self._conv(x, w, b, total, True)) if raw else self._conv
        point = {"out": "out", "point": "point" if "point" in self.k.stores else "conv"}.get(kind, "conv")
        return self.node(kind, name, self.half_mode, point, compute, t[0], w, b)

    def groups(self, channels):
        kind = self.op.config["normalization"]
        return {"instance": channels, "group": min(32, channels), "layer": 1, "batch": channels}[kind]

    def mean(self, x):
        """Means over the last axis, in float32 by the kernel's way of adding."""
        return f32(self.add_up(x) / np.float32(x.shape[-1]))

    def add_up(self, x):
        if self.k.statistics == "float64":
            return f32(np.sum(x, axis=-1, dtype=np.float64, keepdims=True))
        if self.k.statistics == "sequential":
            return np.add.accumulate(x, axis=-1, dtype=np.float32)[..., -1:]
        while x.shape[-1] > 1:          # a tree of halves
            n = x.shape[-1] // 2
            x = np.concatenate([x[..., :n] + x[..., n:2 * n], x[..., 2 * n:]], axis=-1)
        return x

    def moments(self, x):
        """Mean and biased variance over the last axis."""
        if self.k.statistics == "welford":
            return self.welford(x)
        m = self.mean(x)
        if self.k.statistics == "one-pass":
            v = np.maximum(self.mean(x * x) - m * m, np.float32(0))
            d = x - m                    # legal up to means of ten standard deviations
            return m, np.where(m * m > 99 * v, self.mean(d * d), v)
        if self.k.statistics == "float64":
            return m, f32(np.var(x, axis=-1, dtype=np.float64, keepdims=True))
        d = x - m
        return m, self.mean(d * d)

    def welford(self, x, lanes=32):
        """Welford's recurrence in 32 lanes, merged in pairs, as GPU kernels do."""
        n = x.shape[-1]
        m, q, count = np.zeros(x.shape[:-1] + (lanes,), np.float32), 0, np.zeros(lanes, np.float32)
        q = np.zeros_like(m)
        for i in range(0, n, lanes):
            v = x[..., i:i + lanes]
            k = v.shape[-1]
            count[:k] += 1
            d = v - m[..., :k]
            m[..., :k] += d / count[:k]
            q[..., :k] += d * (v - m[..., :k])
        while lanes > 1:
            lanes //= 2
            a, b = count[:lanes], count[lanes:2 * lanes]
            f = np.where(a + b > 0, 1 / np.maximum(a + b, 1), 0).astype(np.float32)
            d = m[..., lanes:2 * lanes] - m[..., :lanes]
            q = q[..., :lanes] + q[..., lanes:2 * lanes] + d * d * (a * b * f)
            m = m[..., :lanes] + d * (b * f)
            count = a + b
        return m, f32(q / np.float32(n))

    def inverse(self, var, eps=EPS):
        s = f32(1 / np.sqrt((var + np.float32(eps)).astype(np.float64)))
        return s if not self.k.root else (s.view(np.int32) + np.int32(self.k.root)).view(np.float32)

    def narrow_inverse(self, var, n):
        """1/sqrt(var+eps) as PyTorch's CPU keeps it in a half type: in bfloat16 of a sum of squares that was rounded."""
        if self.mode == "bfloat16":
            var = self.half(self.half(var * np.float32(n)) / self.half(np.float32(n)))
        return self.half(self.inverse(var))

    def _norm(self, x, p, groups=None, moments=None, inverse=None):
        """Group normalization of x with parameters p; the functions may be replaced."""
        n, c, h, w = x.shape
        if self.op.config["normalization"] == "batch" and moments is None:
            m, v = p["running_mean"][None, :, None], p["running_var"][None, :, None]
            x = x.reshape(n, c, h * w)
        else:
            groups = groups or self.groups(c)
            x = x.reshape(n, groups, -1)
            m, v = (moments or self.moments)(x)
        s = (inverse or self.inverse)(v)
        per = lambda a: np.broadcast_to(a, x.shape[:2] + (1,)).repeat(c // x.shape[1], 1) if a.shape[1] != c else a
        x, m, s = x.reshape(n, c, h * w), per(m), per(s)
        g, b = p["weight"][None, :, None], p["bias"][None, :, None]
        if self.k.parameters and moments is None and self.op.config["normalization"] == "instance":
            m, a = self.half(m), self.narrow_inverse(v, h * w) * g
            y = x * a + (b - m * a)
        elif self.narrow:
            y = self.half((x - m) * s) * g + b
        elif self.k.affine == "folded":
            a = s * g
            y = x * a + (b - m * a)
        else:
            y = (x - m) * s * g + b
        return y.reshape(n, c, h, w)

    def norm(self, name, t):
        kind = self.op.config["normalization"]
        if kind == "none" or self.k.fold:
            return t
        p = {k[len(name) + 1:]: v for k, v in self.op.weights.items() if k.startswith(name + ".")}
        is_half = t[1] and (kind in ("instance", "batch") or self.autocast == "cpu")
        self.narrow = is_half and self.k.split and kind != "batch"
        return self.node("norm", name, is_half, "norm", self._norm, t[0], p)

    def _act(self, x, how=None):
        name, how = self.op.config["activation"], how or self.k.activation
        with np.errstate(over="ignore", invalid="ignore"):
            if how == "kernel":
                return functions.kernel(name, x)
            if how == "fast" and name == "silu":
                return functions.silu_fast(x)
            if how == "erff":
                return functions.erff(name, x)
            if how.startswith("off"):
                return functions.off(name, x, int(how[4:]))
            return functions.exact(name, x)

    def act(self, name, t):
        if self.op.config["activation"] == "none":
            return t
        return self.node("act", name, t[1], "act", self._act, t[0])

    def block(self, prefix, t):
        with_norm = self.op.config["normalization"] != "none"
        t = self.conv(prefix + ".block.0", t)
        t = self.norm(prefix + ".block.1", t)
        return self.act(prefix + (".block.2" if with_norm else ".block.1"), t)

    def residual(self, name, t, a, b):
        r = self.block(name + ".blocks.1", self.block(name + ".blocks.0", t))
        skip = t if a == b else self.conv(name + ".projection", t, "point")
        is_half = r[1] and skip[1]
        return self.node("sum", name, is_half, "sum", lambda r, s: r + s, r[0], skip[0])

    def draw(self, d, is_half):
        """A draw in the type of the tensor it is added to."""
        if self.k.draw_ulp:
            d = np.where(d != 0, (f32(d).view(np.int32) + np.int32(self.k.draw_ulp)).view(np.float32), d)
        return self.half(d) if is_half and "draw" in self.k.stores else f32(d)

    def _noise(self, x, draws, scale, is_half):
        """x with noise; draws is the tuple of primitive draws."""
        kind, d = self.op.noise, [self.draw(v, is_half) for v in draws]
        keep = lambda v: self.half(v) if is_half and "product" in self.k.stores else v
        if kind == "dropout":
            p = np.float32(scale)
            k = f32(1 / (1 - np.float64(p)))
            return x * np.where(draws[0].reshape(draws[0].shape[:2] + (1, 1)) > 0, self.half(k) if is_half else k, np.float32(0))
        n = d[0] if kind != "laplace" else d[0] * np.sign(d[1])
        s = np.float32(scale)
        if self.k.constants and is_half:
            s = self.half(s)
        if kind == "multiplicative":
            return x * keep(np.float32(1) + keep(n * s))
        if self.k.fuse and "product" not in self.k.stores or self.k.fuse and not is_half:
            return f32(n.astype(np.float64) * s + x)
        return x + keep(n * s)

    def noise(self, t, draws):
        if not self.op.noise:
            return t
        scale = self.op.weights["stochastic_block.noise_scale"].reshape(-1)[0]
        return self.node("noise", "stochastic_block", t[1], "noise", self._noise, t[0], draws, scale, t[1])

    def forward(self, x, draws, is_half=False):
        """The operator on a batch [N,C,H,W] with the draws of its stochastic block."""
        t = self.node("input", "input", is_half, "state", lambda v: v, x)
        for name, kind, a, b in self.op.blocks:
            t = self.block(name, t) if kind == "plain" else self.residual(name, t, a, b)
        return self.conv("output_layer.conv", self.noise(t, draws), "out")

    # The rollout.

    def _policy(self, x, o, is_half):
        """The next state. A half share of O rounds to half; the sum is float32."""
        r = self.op.rollout
        share = lambda v: self.half(f32(v)) if is_half and "share" in self.k.stores else f32(v)
        if r["policy_type"] == "autoregressive":
            return o
        if r["policy_type"] == "residual":
            dt = np.float32(r["dt"])
            if self.k.constants and is_half:
                dt = self.half(dt)
            if self.k.fuse and not (is_half and "share" in self.k.stores):
                return f32(np.float64(dt) * o + x)
            return x + share(dt * o)
        a, c = np.float32(r["alpha"]), np.float32(1 - r["alpha"])
        if self.k.constants and is_half:
            c = self.half(c)
        q = share(c * o)
        return f32(np.float64(a) * x + q) if self.k.fuse else a * x + q

    def _post(self, x):
        r = self.op.rollout
        if r.get("normalization") == "minmax":
            lo, hi = x.min(axis=(1, 2, 3), keepdims=True), x.max(axis=(1, 2, 3), keepdims=True)
            x = np.where(hi - lo > 1e-8, (x - lo) / np.maximum(hi - lo, np.float32(1e-8)), x)
        if r.get("clamp_range"):
            x = np.clip(x, *np.float32(r["clamp_range"]))
        return x

    def step(self, x, draws, t, taps=None):
        """The state at t from the state x [M,C,H,W] at t-1."""
        self.t, self.taps = t, taps
        self.memory["this_draws"] = draws
        state_half = self.half_mode and self.op.rollout["policy_type"] == "autoregressive"
        o, o_half = self.forward(x, draws, state_half and t > 1)
        if taps is not None:
            taps["output"] = (o, o_half and "out" in self.k.stores)
        self.taps = None
        y, _ = self.node("policy", "policy", state_half, "state", self._policy, x, o, o_half)
        y, _ = self.node("post", "post", state_half, "state", self._post, y)
        return y

    def run(self, x0, tape, steps, taps_at=()):
        """States [M,T,C,H,W] from x0 [M,C,H,W]; tape[i] is [T-1,M,...]. Also {t: taps}."""
        self.t, self.memory, self.first = 0, {}, None
        x, taps = self._post(f32(x0)), {}
        states = [x]
        for t in range(1, steps):
            taps_t = {} if t in taps_at else None
            x = states[-1]
            x = self.step(x, tuple(a[t - 1] for a in tape), t, taps_t)
            states.append(x)
            if taps_t is not None:
                taps[t] = taps_t
        states = np.stack(states, axis=1)
        if self.fault is not None:
            states = self.fault.record(self, states)
        return states, taps

    def other(self, **changes):
        """The same device with other kernels and no fault."""
        return Device(self.op, self.mode, replace(self.k, **changes), None, self.autocast)
