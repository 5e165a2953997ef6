"""Tests of the zoo's device: python3 interop/zoo/test_device.py (numpy only).

The device is held to what PyTorch recorded (testdata of the repository), orders of
summation to float64 sums, and faults to doing something.
"""

import glob
import json
import math
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import numpy as np  # noqa: E402

import baselines  # noqa: E402
import cases  # noqa: E402
import cores  # noqa: E402
import family  # noqa: E402
import faults  # noqa: E402
import functions  # noqa: E402
import identity  # noqa: E402
import reference  # noqa: E402
import sums  # noqa: E402
import tensors  # noqa: E402
import variants  # noqa: E402
from device import Device, Operator  # noqa: E402
from formats import f32, half, half_truncated, significand, tf32, toward_zero, ulp  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata")


def recorded(pattern):
    """(folder, operator, case, states, tape per batch) of recorded cases with a tape or without noise."""
    for folder in sorted(glob.glob(os.path.join(DATA, pattern))):
        with open(os.path.join(folder, "case.json")) as f:
            c = json.load(f)
        path = lambda n: os.path.join(folder, n + ".safetensors")
        if not os.path.exists(path("weights")) or c["rollout"].get("normalization"):
            continue
        if c["operator"].get("noise_type") and not os.path.exists(path("noise")):
            continue
        op = Operator(c["operator"], c["rollout"], tensors.load(path("weights"))[0])
        states = f32(tensors.load(path("trajectory"))[0]["trajectory"])
        tape = tensors.load(path("noise"))[0] if os.path.exists(path("noise")) else {}
        yield folder, op, c, states, tape


def steps(op, c, states, tape, step, last=4):
    """(got, want) of single steps from the recorded states: step(x, draws, t)."""
    b = c["rollout"].get("engine_batch") or len(states)
    for t in range(1, min(last, states.shape[1])):
        for i in range(0, len(states), b):
            names = sorted(k for k in tape if k == f"batch{i // b}" or k.startswith(f"batch{i // b}."))
            x = states[i:i + b, t - 1]
            yield step(x, tuple(f32(tape[n][t - 1]) for n in names), t), states[i:i + b, t]


def distance(op, c, states, tape, step):
    d = [got - want for got, want in steps(op, c, states, tape, step)]
    return max(math.sqrt(np.mean(np.square(v, dtype=np.float64))) for v in d) / states.std()


class Numbers(unittest.TestCase):
    def test_files(self):
        r = np.random.default_rng(1)
        t = {"a": f32(r.normal(size=(2, 3))), "b": r.normal(size=4), "c": r.normal(size=3).astype(np.float16),
             "d": half(r.normal(size=(5, 1)), "bfloat16"), "e": np.array([7], np.int64)}
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.safetensors")
            tensors.save(path, t, bf16=("d",), meta={"step": 3})
            got, meta = tensors.load(path)
        self.assertEqual(meta, {"step": "3"})
        for k, v in t.items():
            np.testing.assert_array_equal(got[k], v)

    def test_rounding(self):
        e = 2.0 ** -8
        for x, want in ((1 + e, 1), (1 + 1.5 * e, 1 + 2 * e), (1 + 3 * e, 1 + 4 * e), (-1 - 3.1 * e, -1 - 4 * e)):
            self.assertEqual(half(np.float32([x]), "bfloat16")[0], want, x)
        x = np.ldexp(np.random.default_rng(0).normal(size=20000), np.random.default_rng(1).integers(-24, 12, 20000))
        x = f32(x)
        for kind in ("float16", "bfloat16"):
            n, z = half(x, kind), half_truncated(x, kind)
            self.assertTrue(np.all(np.abs(n - x) <= ulp(x, kind) / 2))
            self.assertTrue(np.all((np.abs(z) <= np.abs(x)) & (np.abs(z - x) < ulp(x, kind))))
        np.testing.assert_array_equal(tf32(f32([1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11])), f32([1, 1 + 2.0 ** -9]))
        np.testing.assert_array_equal(significand(f32([1 + 2.0 ** -11]), 11, "away"), f32([1 + 2.0 ** -10]))
        np.testing.assert_array_equal(toward_zero(np.array([1 + 2.0 ** -24 * 1.9, -1 - 2.0 ** -24 * 1.9])), f32([1, -1]))

    def test_erf(self):
        for x in np.linspace(-6, 20, 1301):
            self.assertLess(abs(functions.erfc(x) - math.erfc(x)), 1e-13 * math.erfc(x))
            self.assertLess(abs(functions.erf(x) - math.erf(x)), 1e-13 * abs(math.erf(x)) + 1e-300)


class Sums(unittest.TestCase):
    def test_orders(self):
        r = np.random.default_rng(2)
        x, w = f32(r.normal(size=(72, 50))), f32(r.normal(size=(5, 72)))
        exact = w.astype(np.float64) @ x
        scale = np.abs(w).astype(np.float64) @ np.abs(x)
        orders = {"sequential": sums.sequential, "fma": lambda a, b: sums.sequential(a, b, True), "reverse": sums.reverse, "pairwise": sums.pairwise,
                  "split": lambda a, b: sums.split(a, b, 4), "blocked": sums.blocked, "truncated": sums.truncated, "kahan": sums.kahan}
        got = {}
        for name, f in orders.items():
            y = got[name] = f(x, w)
            self.assertEqual(y.dtype, np.float32)
            self.assertLess(np.max(np.abs(y - exact) / scale), 74 * 2.0 ** (-23 if name == "truncated" else -24), name)
            self.assertGreater(np.sum(y != f32(exact)), 0 if name != "kahan" else -1, name)
        for a in got:
            self.assertTrue(all(a == b or not np.array_equal(got[a], got[b]) for b in got), a)
        # an order is what it says: terms that cancel only in one of them
        x, w = f32([[1], [2.0 ** 25], [-2.0 ** 25]]), f32([[1, 1, 1]])
        self.assertEqual((sums.sequential(x, w)[0, 0], sums.reverse(x, w)[0, 0], sums.blocked(x, w)[0, 0]), (0, 1, 1))

    def test_winograd(self):
        r = np.random.default_rng(3)
        x, w = f32(r.normal(size=(2, 4, 9, 14))), f32(r.normal(size=(3, 4, 3, 3)))
        want = reference.conv(x.astype(np.float64), w)
        for order, form, limit in (("winograd2", sums.F2, 5e-6), ("winograd4", sums.F4, 5e-5)):
            y = sums.winograd(x, w, form)
            self.assertLess(np.abs(y - want).max(), limit)
            device = Device(None, "float32", variants.Kernels(order=order))
            np.testing.assert_array_equal(device.total(x, w), y)


class Recorded(unittest.TestCase):
    """Against PyTorch: single steps from its own states."""

    def test_float64(self):
        n = 0
        for folder, op, c, states, tape in recorded("rollouts/*"):
            path = os.path.join(folder, "one_step_f64.safetensors")
            if c["rollout"]["precision"] != "float32" or not os.path.exists(path):
                continue
            want = tensors.load(path)[0]["one_step"]
            b = c["rollout"].get("engine_batch") or len(states)
            names = sorted(k for k in tape if k.split(".")[0] == "batch0")
            got = reference.step(op, states[:b, 0], tuple(tape[k][0] for k in names))
            self.assertLess(np.abs(got - want[:b, 0]).max(), 1e-12 * states.std() * 100, folder)
            n += 1
        self.assertGreaterEqual(n, 3)

    def test_float32(self):
        n = 0
        for folder, op, c, states, tape in recorded("rollouts/*"):
            if c["rollout"]["precision"] == "float32":
                d = distance(op, c, states, tape, Device(op, "float32").step)
                self.assertLess(d, 1e-6, folder)      # PyTorch's own distance from float64 is up to 4e-7
                n += 1
        self.assertGreaterEqual(n, 3)

    def test_half(self):
        """A step's difference is a few roundings that float32 decides otherwise."""
        n = 0
        for mode, limit in (("float16", 3e-4), ("bfloat16", 2e-3)):
            for folder, op, c, states, tape in recorded(f"autocast/2.9-{mode}/rollouts/*"):
                d = distance(op, c, states, tape, Device(op, mode, autocast="cpu").step)
                self.assertLess(d, limit, folder)
                n += 1
                if op.config["normalization"] == "none":       # and CUDA's rule for biases is another
                    self.assertGreater(distance(op, c, states, tape, Device(op, mode, autocast="cuda").step), 3 * d)
        self.assertGreaterEqual(n, 12)

    def test_layers(self):
        """Every module of one forward pass has the recorded type, and nearly all elements its bits."""
        for mode in ("float16", "bfloat16"):
            for folder in sorted(glob.glob(os.path.join(DATA, f"autocast/2.9-{mode}/rollouts/*/layers.safetensors"))):
                with open(os.path.join(os.path.dirname(folder), "case.json")) as f:
                    c = json.load(f)
                weights = os.path.join(os.path.dirname(folder), "weights.safetensors")
                if not os.path.exists(weights):
                    continue
                want, _ = tensors.load(folder)
                d = Device(Operator(c["operator"], c["rollout"], tensors.load(weights)[0]), mode, autocast="cpu")
                d.taps = {}
                d.forward(f32(want["input"]), [f32(v) for k, v in sorted(want.items()) if k.startswith("stochastic_block.draw")])
                for name, (v, is_half) in d.taps.items():
                    if name in want:
                        self.assertEqual(is_half, name != "input", name)
                        self.assertLess(np.sqrt(np.mean((v - want[name]) ** 2)), (4e-3 if mode == "bfloat16" else 8e-4) * max(1, v.std()), (folder, name))


class Cases(unittest.TestCase):
    def test_same_seed_same_case(self):
        for subject, mode in (("P15", "float16"), ("R04", "float32"), ("like-cuda", "bfloat16")):
            a, b, other = (cases.make(subject, mode, s, small=True) for s in (5, 5, 6))
            np.testing.assert_array_equal(a.states, b.states)
            self.assertEqual(a.truth, b.truth)
            self.assertFalse(np.array_equal(a.x0, other.x0))

    def test_folder(self):
        """What is written is what was computed, in the device's type: half states where the policy keeps none."""
        for mode, half_type in (("float16", "F16"), ("bfloat16", "BF16"), ("float32", "F32")):
            for policy in ("autoregressive", "convex"):
                m = next(m for m in (cases.make("sequential", mode, s, steps=4) for s in range(99)) if m.operator.rollout["policy_type"] == policy)
                with tempfile.TemporaryDirectory() as d:
                    cases.write(m, d)
                    path = os.path.join(d, "trajectory.safetensors")
                    np.testing.assert_array_equal(f32(tensors.load(path)[0]["trajectory"]), m.states)
                    with open(path, "rb") as f:
                        self.assertIn(f'"trajectory":{{"dtype":"{half_type if policy == "autoregressive" else "F32"}"'.encode(), f.read(300))
                    layers, meta = tensors.load(os.path.join(d, "layers.step0002.safetensors"))
                    with open(os.path.join(d, "case.json")) as f:
                        self.assertEqual(json.load(f)["rollout"]["precision"], mode)
                self.assertEqual(meta["step"], "2")
                np.testing.assert_array_equal(f32(layers["input"]), m.states[:, 1])
                conv = m.operator.modules()[0][1]
                self.assertEqual(str(layers[conv].dtype) == "float16", mode == "float16")
                np.testing.assert_array_equal(f32(layers[conv]), m.taps[2][conv][0])

    def test_wants_are_met(self):
        for f in faults.load().values():
            op, _, _ = family.draw(3, f.modes[0], f.need)
            for k, v in f.need.items():
                if isinstance(v, list) and (k != "alpha" or op.rollout["policy_type"] == "convex"):
                    self.assertIn(op.config.get(k, op.rollout.get(k)), v, (f.id, k))

    def test_fixtures(self):
        """The committed set is complete, and none of its faults is an identity."""
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata")
        with open(os.path.join(folder, "index.json")) as f:
            index = json.load(f)
        self.assertEqual([sum(r["expect"] == e for r in index) for e in ("pass", "fail")], [10, 19])
        for r in index:
            self.assertIsNone(r.get("identity"), r["case"])
            self.assertTrue(os.path.exists(os.path.join(folder, r["case"], "trajectory.safetensors")), r["case"])


class Zoo(unittest.TestCase):
    def test_variants_are_correct(self):
        """Each is another device, and as close to float64 as the plain one (roundings left out: closer)."""
        for mode in faults.ALL:
            for name in variants.of_mode(mode):
                other = 0
                for seed in (21, 22, 23):
                    m = cases.make(name, mode, seed, steps=3, small=True)
                    with np.errstate(all="ignore"):
                        plain = m.device.other()
                        plain.k = variants.kernels("sequential")
                        x, draws = m.states[:, 0], tuple(d[0] for d in m.tape)
                        truth = reference.step(m.operator, x, draws)
                        got, base = (np.sqrt(np.mean((v - truth) ** 2)) for v in (m.states[:, 1], plain.step(x, draws, 1)))
                        other += not np.array_equal(m.states[:, 1], plain.step(x, draws, 1))
                    allowed = {"winograd4": 8, "tf32-truncate": 16}.get(name, 2)
                    self.assertLess(got, allowed * base + 2e-7 * truth.std(), (name, mode, seed))
                if name not in ("sequential", "flush-float32"):
                    self.assertTrue(other or mode in faults.HALF, (name, mode))  # a few half steps may agree

    def test_faults_act(self):
        """Every fault changes something that is stored, in each of its modes."""
        quiet = []
        for f in faults.load().values():
            for mode in f.modes:
                m = None
                for seed in range(30, 38):
                    m = cases.make(f.id, mode, seed, steps=4, small=True)
                    if m.truth["first_step"]:
                        break
                else:
                    quiet.append((f.id, mode))
                self.assertIn(m.truth["family"], faults.FAMILIES)
        # on ordinary data these have nothing to do
        self.assertLessEqual({i for i, _ in quiet}, {"P18", "P29", "I30"}, quiet)

    def test_amplitudes(self):
        """Less of a fault is less of it."""
        for subject, mode in (("P15", "float32"), ("I06", "float16"), ("R06", "float32"), ("S16", "float32"), ("P03", "bfloat16")):
            sizes = []
            for a in (1.0, .25, .0625):
                m = cases.make(subject, mode, 40, a, steps=3, small=True)
                plain = m.device.other()
                sizes.append(np.mean((m.states[:, 2] - plain.step(m.states[:, 1], tuple(d[1] for d in m.tape), 2)) ** 2))
            self.assertTrue(sizes[0] > sizes[1] > sizes[2] > 0, (subject, sizes))

    def test_identity(self):
        """A legal device taken for a faulty one has no gain; a fault has."""
        m = cases.make("split2", "float32", 51, steps=4, small=True)
        m.device.k, m.truth["first_step"] = variants.kernels("sequential"), 1
        legal = identity.judge(m)
        bad = identity.judge(cases.make("P07", "float32", 51, steps=4, small=True))
        self.assertLess(legal["strength"], 2, legal)
        self.assertGreater(bad["strength"], 3 * legal["strength"], bad)
        self.assertIsNone(bad["identity"])
        self.assertEqual(bad["first_visible"], 2)      # an odd seed: not from the first step
        for shift in (-1, 1):                          # too small is as visible as too large
            m = cases.make("sequential", "float32", 52, steps=3, small=True)
            m.states[:, 2] += np.float32(shift)
            m.truth["first_step"] = 2
            got = identity.judge(m)
            self.assertEqual((got["identity"], got["outside"], got["first_visible"]), (None, m.states[:, 2].size, 2))

    def test_baselines(self):
        good = baselines.judge(cases.make("pairwise", "float32", 60, steps=3, small=True))
        bad = baselines.judge(cases.make("I06", "float32", 60, steps=3, small=True))
        self.assertFalse(any(good.values()), good)
        self.assertTrue(all(v for k, v in bad.items() if k != "cosine 0.997"), bad)


class Cores(unittest.TestCase):
    """The models of matrix units are what such devices returned (tensorcore/testdata)."""

    def test_recorded(self):
        where, seen = os.path.join(DATA, "..", "tensorcore", "testdata"), 0
        for device in ("V100", "A100", "H100"):
            for kind, mode in (("fp16", "float16"), ("bf16", "bfloat16"), ("tf32", "tf32")):
                path = os.path.join(where, f"{device}_{kind}.safetensors")
                if not os.path.exists(path):
                    continue
                t, _ = tensors.load(path)
                a, b, c = (np.asarray(t[k], np.float32) for k in ("a", "b", "c"))
                if mode == "tf32":
                    a, b = tf32(a, "truncate"), tf32(b, "truncate")
                rule = cores.NVIDIA[device.lower(), mode]
                for row in range(len(c)):
                    if not np.isfinite(t["d_fp32"][row]):
                        continue
                    got = cores.nvidia(a[row][:, None], b[row][None], rule, -14 if mode == "float16" else -126, start=c[row].reshape(1, 1))
                    self.assertEqual(got[0, 0], t["d_fp32"][row], (device, kind, row))
                    seen += 1
        self.assertGreater(seen, 500)


if __name__ == "__main__":
    unittest.main()
