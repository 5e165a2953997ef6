"""A device in numpy, from its arrays to a verdict. Needs the refrun binary, and no torch."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import refrun

OPERATOR = {"input_channels": 2, "nodes": [
    {"op": "conv", "name": "a", "out_channels": 4, "kernel_size": 3, "bias": True},
    {"op": "act", "name": "r", "activation": "relu"},
    {"op": "noise", "name": "n", "noise_type": "gaussian", "noise_scale": 0.125},
    {"op": "conv", "name": "b", "out_channels": 2, "kernel_size": 1, "bias": True}]}


def weights():
    rng = np.random.default_rng(3)
    return {"a.weight": rng.normal(size=(4, 2, 3, 3)).astype(np.float32) / 4, "a.bias": rng.normal(size=4).astype(np.float32),
            "n.noise_scale": np.array([0.125], np.float32),
            "b.weight": rng.normal(size=(2, 4, 1, 1)).astype(np.float32) / 2, "b.bias": rng.normal(size=2).astype(np.float32)}


def conv(x, w, b):
    k = w.shape[2] // 2
    p = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (k, k), (k, k)))
    h, v = x.shape[2:]
    y = sum(np.einsum("nchw,oc->nohw", p[:, :, i:i + h, j:j + v], w[:, :, i, j].astype(np.float64)) for i in range(w.shape[2]) for j in range(w.shape[3]))
    return (y + b[None, :, None, None]).astype(np.float32)


def rollout(path, mutate=lambda w: w, steps=3):
    """Rolls out and writes the case, whose weights are the unmutated ones."""
    w = weights()
    m = mutate({k: v.copy() for k, v in w.items()})
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 2, 24, 20)).astype(np.float32)
    states, tape = [x], []
    for _ in range(steps):
        n = rng.normal(size=(2, 4, 24, 20)).astype(np.float32)
        y = np.maximum(conv(x, m["a.weight"], m["a.bias"]), 0)
        y = conv(y + n * np.float32(0.125), m["b.weight"], m["b.bias"])
        x = np.float32(0.5) * x + np.float32(0.5) * y
        tape.append(n)
        states.append(x)
    case = refrun.Case(path, OPERATOR, policy_type="convex", alpha=0.5, precision="float32")
    case.weights(w)
    case.states(np.stack(states, 1))
    case.noise([np.stack(tape)])
    case.close()


class Package(unittest.TestCase):
    def test_dir(self):
        self.assertEqual(set(dir(refrun)), {*refrun.__all__, "__version__"})
        for name in set(refrun.__all__) - set(refrun._TORCH):
            self.assertTrue(getattr(refrun, name).__doc__, name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            refrun.nothing


class Reports(unittest.TestCase):
    def test_attributes(self):
        """Every attribute that the class names is there, whatever the JSON has."""
        r = refrun.Report({"verdict": "NO-POWER", "reason": "<why>", "layers": None}, "text")
        for name in refrun.Report.__annotations__:
            getattr(r, name)
        self.assertEqual((r.first_step, r.layers, r.horizon, r.ok), (-1, [], None, False))
        self.assertIn("&lt;why&gt;", r._repr_html_())

    def test_plot(self):
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install matplotlib"):
                refrun.Report({"verdict": "PASS"}, "").plot()
            return
        matplotlib.use("agg")
        with tempfile.TemporaryDirectory() as folder:
            rollout(folder, lambda w: {**w, "a.bias": w["a.bias"] + 1})
            r = refrun.check(folder)
        ax = r.plot()
        self.assertEqual((len(ax.lines[0].get_xdata()), ax.get_title()), (3, r.verdict))
        self.assertEqual(list(ax.lines[2].get_xdata()), [s["step"] for s in r.steps if s["violation"]])


class Folders(unittest.TestCase):
    """What is in a folder that was never a case stays; nothing is written through a link."""

    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

    def test_of_somebody(self):
        names = ["SHA256SUMS", "weights.safetensors", "trajectory.safetensors", "noise.safetensors", "layers.safetensors", "layers.step0003.safetensors", "one_step_f64.safetensors"]
        texts = [None, b"", b"{}", b"[1, 2]", b"not JSON", b'{"operator": {}}', b"\xff\xfe"]
        for k, (name, text) in enumerate([(n, None) for n in names] + [(None, t) for t in texts[1:]] + [(n, t) for n in names for t in texts[1:]]):
            folder = self.dir / f"somebody{k}"
            folder.mkdir()
            held = {n: t for n, t in ((name, b"mine"), ("case.json", text)) if n and t is not None}
            for n, t in held.items():
                (folder / n).write_bytes(t)
            with self.assertRaises(refrun.CaseError) as said:
                refrun.Case(folder, OPERATOR, policy_type="convex", alpha=0.5)
            self.assertNotIn("\n", str(said.exception))
            self.assertEqual({f.name: f.read_bytes() for f in folder.iterdir()}, held)

    def test_own(self):
        """A folder that is new, empty, a case's, or one that a case was begun in, is taken; other files in it stay."""
        folder = self.dir / "deep" / "case"
        for unfinished in (False, True, True, False, False):
            case = refrun.Case(folder, OPERATOR, policy_type="convex", alpha=0.5, precision="float32")
            self.assertEqual(sorted(f.name for f in folder.iterdir()), ["case.json", "notes.txt"] if (folder / "notes.txt").exists() else ["case.json"])
            (folder / "notes.txt").write_text("mine")
            case.states(np.ones((2, 3, 2, 4, 4), np.float32))
            case.weights(weights())
            if not unfinished:
                case.close()
        self.assertEqual((folder / "notes.txt").read_text(), "mine")

    def test_not_a_folder(self):
        file, link = self.dir / "file", self.dir / "link"
        file.write_text("mine")
        link.symlink_to(self.dir / "nowhere")
        for path in (file, link):
            with self.assertRaises(refrun.CaseError):
                refrun.Case(path, OPERATOR, policy_type="convex")
        self.assertEqual(file.read_text(), "mine")

    def test_links(self):
        outside = self.dir / "outside"
        outside.write_text("mine")
        for name in ("case.json", "SHA256SUMS", "weights.safetensors", "weights.safetensors.partial", "case.json.partial", "trajectory.safetensors"):
            folder = self.dir / ("case of " + name)
            case = refrun.Case(folder, OPERATOR, policy_type="convex", alpha=0.5, precision="float32")
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(outside)
            case.weights(weights())
            case.states(np.ones((2, 3, 2, 4, 4), np.float32))
            case.close()
            self.assertEqual(outside.read_text(), "mine", name)


class Check(unittest.TestCase):
    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = Path(d.name)

    def test_right(self):
        rollout(self.dir / "case")
        r = refrun.assert_pass(self.dir / "case")
        self.assertTrue(r.ok)
        self.assertEqual(r.verdict, "PASS-CONFORMING")
        self.assertIn(r.verdict, str(r))
        self.assertLess(r.one_step["max_abs"], 1e-6)

    def test_flipped(self):
        def flip(w):
            w["a.weight"] = w["a.weight"][:, :, ::-1, ::-1]
            return w

        rollout(self.dir / "case", flip)
        r = refrun.check(self.dir / "case", report=str(self.dir / "r.html"), junit=str(self.dir / "r.xml"))
        self.assertFalse(r.ok)
        self.assertEqual((r.verdict, r.first_step), ("FAIL-LOGIC", 1))
        self.assertTrue((self.dir / "r.html").stat().st_size > 0 and (self.dir / "r.xml").stat().st_size > 0)
        with self.assertRaisesRegex(AssertionError, "FAIL-LOGIC"):
            refrun.assert_pass(self.dir / "case")

    def test_start_of_normalized_states(self):
        def tensors(rollout, **more):
            case = refrun.Case(self.dir / "case", OPERATOR, policy_type="convex", **rollout)
            case.states(np.ones((2, 3, 2, 4, 4), np.float32), **more)
            data = (self.dir / "case" / "trajectory.safetensors").read_bytes()
            return sorted(json.loads(data[8:8 + int.from_bytes(data[:8], "little")]))

        self.assertEqual(tensors({}), ["initial_condition", "trajectory"])
        for post in ({"normalization": "zscore"}, {"clamp_range": [0, 1]}):  # state 0 is not what the rollout began with
            self.assertEqual(tensors(post), ["trajectory"])
            self.assertEqual(tensors(post, start=np.zeros((2, 4, 4), np.float32)), ["initial_condition", "trajectory"])

    def rewrite(self, doc):
        """Another case.json, of which no hashes speak."""
        (self.dir / "case" / "SHA256SUMS").unlink()
        (self.dir / "case" / "case.json").write_text(json.dumps(doc))

    def test_hashes(self):
        rollout(self.dir / "case")
        lines = (self.dir / "case" / "SHA256SUMS").read_text().splitlines()
        names = sorted(p.name for p in (self.dir / "case").iterdir() if p.name != "SHA256SUMS")
        self.assertEqual([line[66:] for line in lines], names)
        for name in names:
            old = (self.dir / "case" / name).read_bytes()
            (self.dir / "case" / name).write_bytes(old[:-3] + bytes([old[-3] ^ 1]) + old[-2:])
            with self.assertRaisesRegex(ValueError, name + ".*SHA256SUMS|case.json"):
                refrun.check(self.dir / "case")
            (self.dir / "case" / name).write_bytes(old)
        refrun.check(self.dir / "case")

    def test_incomplete(self):
        rollout(self.dir / "case")
        doc = json.loads((self.dir / "case" / "case.json").read_text())
        doc["incomplete"] = "stopped after step 3: KeyboardInterrupt"
        self.rewrite(doc)
        self.assertIn("the case is incomplete: stopped after step 3: KeyboardInterrupt", refrun.check(self.dir / "case").notes)

    def test_bad_input(self):
        with self.assertRaisesRegex(ValueError, "case.json"):
            refrun.check(self.dir / "nothing")
        rollout(self.dir / "case")
        with self.assertRaisesRegex(ValueError, "float12"):
            refrun.check(self.dir / "case", claim="float12")
        # float32 numbers under the claim of a float16 autoregressive rollout: another type than claimed
        doc = json.loads((self.dir / "case" / "case.json").read_text())
        doc["rollout"].update(policy_type="autoregressive", precision="float16", autocast="cuda")
        doc["rollout"].pop("alpha")
        self.rewrite(doc)
        try:
            self.assertFalse(refrun.check(self.dir / "case").ok)
        except ValueError as e:
            self.assertIn("float16", str(e))

    def test_noise_that_was_not_recorded(self):
        rollout(self.dir / "case")
        (self.dir / "case" / "noise.safetensors").unlink()
        doc = json.loads((self.dir / "case" / "case.json").read_text())
        doc["sha256"].pop("noise.safetensors")
        doc["noise"] = "unknown"
        self.rewrite(doc)
        self.assertEqual(refrun.check(self.dir / "case").noise["stream"], "unknown")
        self.assertEqual(refrun.check(self.dir / "case", noise="counter").verdict, "FAIL-RNG")

    def test_without_torch(self):
        code = "import sys; sys.modules['torch'] = None; import refrun; refrun.{}"
        for name in ("record", "export", "describe"):
            done = subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
            self.assertEqual(done.stderr.splitlines()[-1], f"ImportError: refrun.{name} needs torch, which is not installed: pip install torch")

    def test_old_binary(self):
        for answer, text in (('{"contract": "0", "version": "0.0.1"}', "contract '0': want '1'"), ("hello", "does not answer"),
                             ('{"contract": "1", "version": "0.0.1"}', "version 0.0.1 has no `check`: want a newer binary")):
            old = self.dir / "old"
            old.write_text(f"#!/bin/sh\necho '{answer}'\n[ $1 != check ]\n")
            old.chmod(old.stat().st_mode | stat.S_IXUSR)
            refrun.binary.cache_clear()
            with mock.patch.dict(os.environ, {"REFRUN_BIN": str(old)}), self.assertRaisesRegex(refrun.BinaryError, text):
                refrun.binary()
        refrun.binary.cache_clear()


if __name__ == "__main__":
    unittest.main()
