"""The exact operator as a function, without torch: its values, and the process behind it."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

import refrun
from test_case import OPERATOR, conv, rollout, weights

SRC = str(Path(refrun.__file__).parents[1])


def started(code):
    """A Python that runs the code, after what makes an operator `r` and an input `x`."""
    begin = f"import sys, os, time, numpy as np; sys.path[:0] = [{SRC!r}, {str(Path(__file__).parent)!r}]; import refrun; from test_case import OPERATOR, weights\n"
    begin += "r = refrun.reference(OPERATOR, weights=weights(), noise='none'); x = np.ones((1, 2, 8, 8), np.float32); pid = r._server.process.pid\n"
    return subprocess.Popen([sys.executable, "-c", begin + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def gone(pid, seconds=5.0):
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


class Values(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(1).normal(size=(2, 2, 12, 10)).astype(np.float32)

    def test_apply(self):
        """The values are those of numpy in float64, rounded; draws are added where they are given."""
        w = weights()
        z = np.random.default_rng(2).normal(size=(2, 4, 12, 10)).astype(np.float32)
        with refrun.reference(OPERATOR, weights=w, noise="none") as r:
            for draws, scale in ((None, 0), (z, np.float32(0.125))):
                want = conv(np.maximum(conv(self.x, w["a.weight"], w["a.bias"]), 0) + z * scale, w["b.weight"], w["b.bias"])
                y = r(self.x, draws=draws)
                self.assertEqual((y.dtype, y.shape), (np.float32, want.shape))
                np.testing.assert_allclose(y, want, atol=4e-7 * abs(want).max())
            self.assertEqual(r.mode, "float32/state-float32/noise-none")
            self.assertGreater(r.seconds, 0)
            y[:] = 0  # the memory is the caller's
            self.assertNotEqual(abs(r(self.x)).max(), 0)

    def test_batches(self):
        with refrun.reference(OPERATOR, weights=weights(), noise="none", threads=1) as r:
            np.testing.assert_array_equal(r(self.x)[1:], r(self.x[1:]))
            transposed = np.asfortranarray(self.x)
            np.testing.assert_array_equal(r(self.x), r(transposed))
            np.testing.assert_array_equal(r(self.x), pickle.loads(pickle.dumps(r))(self.x))

    def test_half(self):
        with refrun.reference(OPERATOR, weights=weights(), noise="none", precision="float16") as r, refrun.reference(OPERATOR, weights=weights(), noise="none") as exact:
            y = r(self.x)
            self.assertEqual(y.dtype, np.float16)
            self.assertEqual(r.mode, "float16/autocast-cuda/state-float32/noise-none")
            np.testing.assert_allclose(y, exact(self.x), atol=0.02)

    def test_refused(self):
        with refrun.reference(OPERATOR, weights=weights(), noise="none") as r:
            for x, text in ((self.x.astype(np.float64), "input: F64 numbers: want float32"), (self.x[0], r"input: shape \[2 12 10\]: want \[N,C,H,W\]"),
                            (self.x.transpose(0, 2, 3, 1), "these look like"), (self.x.astype(np.int32), "input: I32 numbers: want float32")):
                with self.assertRaisesRegex(refrun.CaseError, text):
                    r(x)
            r(self.x)
        for options, text in (({"precision": "quarter"}, 'precision: unknown number format "quarter"'), ({"noise": "torch"}, "want a torch module"), ({"noise": "white"}, 'noise: "white"')):
            with self.assertRaisesRegex(refrun.CaseError, text):
                refrun.reference(OPERATOR, weights=weights(), **options)
        with self.assertRaisesRegex(refrun.CaseError, "weights: missing"):
            refrun.reference(OPERATOR)
        with self.assertRaisesRegex(refrun.CaseError, "int: want a torch.nn.Module, a case's folder"):
            refrun.reference(3)
        with self.assertRaisesRegex(refrun.CaseError, "want a case's folder"):
            refrun.reference("/nowhere")


class Run(unittest.TestCase):
    def test_command(self):
        """A rollout has the digest that the command prints, of a case and of arrays."""
        with tempfile.TemporaryDirectory() as folder:
            rollout(folder)
            said = json.loads(subprocess.run([refrun.binary(), "run", "--case", folder, "--json"], capture_output=True, check=True).stdout)
            r = refrun.run(folder)
            self.assertEqual((r.digest, r.mode, r.noise), (said["digest"], said["mode"], "tape"))
            self.assertEqual(r.states.shape, tuple(said["shape"]))
            again = refrun.run(folder, steps=2)
            np.testing.assert_array_equal(again.states, r.states[:, :3])
        x0 = r.states[:, 0]
        draws = np.random.default_rng(5)
        draws.normal(size=x0.shape)
        tape = np.stack([draws.normal(size=(2, 4, 24, 20)).astype(np.float32) for _ in range(3)])
        same = refrun.run(OPERATOR, x0, steps=3, weights=weights(), draws=tape)
        self.assertEqual(same.digest, r.digest)
        self.assertNotEqual(refrun.run(OPERATOR, x0, steps=3, weights=weights(), draws=tape[::-1]).digest, r.digest)

    def test_options(self):
        x0 = np.random.default_rng(1).normal(size=(2, 8, 8)).astype(np.float32)
        run = lambda **options: refrun.run(OPERATOR, x0, steps=2, weights=weights(), **options)
        digests = {run(**o).digest for o in ({}, {"seed": 1}, {"policy": "residual", "dt": 0.5}, {"policy": "autoregressive"}, {"alpha": 0.25}, {"clamp": (-0.5, 0.5)},
                                            {"realizations": 2}, {"noise": "none"}, {"normalization": "zscore"}, {"noise": "torch-cpu:2.x"}, {"precision": "bfloat16"})}
        self.assertEqual(len(digests), 11)
        self.assertEqual(run(realizations=3).states.shape, (3, 3, 2, 8, 8))
        with self.assertRaisesRegex(refrun.CaseError, "steps: 0: want 1 or more"):
            refrun.run(OPERATOR, x0, steps=0, weights=weights())
        with self.assertRaisesRegex(refrun.CaseError, "x0: missing"):
            refrun.run(OPERATOR, steps=1, weights=weights())


class Same(unittest.TestCase):
    def test_same(self):
        """What numpy computes passes; one wrong tile does not, and the report names the place."""
        w = weights()
        x = np.random.default_rng(1).normal(size=(2, 2, 40, 40)).astype(np.float32)
        z = np.random.default_rng(2).normal(size=(2, 4, 40, 40)).astype(np.float32)
        y = conv(np.maximum(conv(x, w["a.weight"], w["a.bias"]), 0) + z * np.float32(0.125), w["b.weight"], w["b.bias"])
        self.assertTrue(refrun.assert_same(OPERATOR, x, y, weights=w, draws=z).ok)
        y[0, 0, 8:16, 8:16] = 0
        with self.assertRaisesRegex(AssertionError, "VERDICT  FAIL"):
            refrun.assert_same(OPERATOR, x, y, weights=w, draws=z)
        with self.assertRaisesRegex(refrun.CaseError, "y: shape"):
            refrun.assert_same(OPERATOR, x, y[:, :, 1:], weights=w, draws=z)


@unittest.skipUnless(sys.platform == "linux", "looks at /proc")
class Process(unittest.TestCase):
    def test_ends_with_parent(self):
        for how in ("os._exit(0)", "os.kill(os.getpid(), 9)", "pass"):
            p = started(f"print(pid, flush=True); {how}")
            pid = int(p.communicate(timeout=60)[0])
            self.assertTrue(gone(pid), how)

    def test_outlives_no_fork(self):
        """A fork that holds the pipes keeps no process alive, and starts its own when it needs one."""
        p = started("print(pid, flush=True)\nif os.fork() == 0:\n    print(r(x).shape, r._server.process.pid != pid, flush=True); time.sleep(30); os._exit(0)\nos.wait() if False else time.sleep(1); print('parent', r(x).shape, flush=True); os._exit(0)")
        pid = int(p.stdout.readline())
        lines = {p.stdout.readline(), p.stdout.readline()}
        self.assertEqual(lines, {"(1, 2, 8, 8) True\n", "parent (1, 2, 8, 8)\n"})
        self.assertTrue(gone(pid))
        p.wait()
        for pipe in (p.stdout, p.stderr):
            pipe.close()

    def test_interrupt(self):
        """Ctrl-C in a long rollout is a KeyboardInterrupt at once; the next call works."""
        p = started("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background would ignore\nprint(pid, flush=True)\ntry:\n    r.run(np.ones((2, 64, 64), np.float32), steps=100000)\nexcept KeyboardInterrupt:\n    print('interrupted', r(x).shape, flush=True)")
        pid = int(p.stdout.readline())
        time.sleep(0.3)
        os.kill(p.pid, signal.SIGINT)
        os.kill(pid, signal.SIGINT)  # a terminal sends it to both
        out, err = p.communicate(timeout=60)
        self.assertEqual((out, err), ("interrupted (1, 2, 8, 8)\n", ""))
        self.assertTrue(gone(pid))

    def test_killed(self):
        """A process that was killed is said, and replaced."""
        r = refrun.reference(OPERATOR, weights=weights(), noise="none")
        x = np.ones((1, 2, 8, 8), np.float32)
        r._server.process.kill()
        r._server.process.wait()
        self.assertEqual(r(x).shape, x.shape)
        r.close()
        r.close()
        self.assertEqual(r(x).shape, x.shape)
        r.close()

    def test_many(self):
        """Sixteen at once give the same bits."""
        code = "import hashlib; print(hashlib.sha256(r(x).tobytes()).hexdigest())"
        several = [started(code) for _ in range(16)]
        self.assertEqual(len({p.communicate(timeout=120)[0] for p in several}), 1)


if __name__ == "__main__":
    unittest.main()
