"""What a search for wrong inputs finds, and what it names it."""

import json
import shlex
import subprocess
import tempfile
import unittest

import refrun
import torch


def softmax(x):
    return torch.softmax(x, -1)


class Cached:
    """Keeps its answers by where the input lies, or by its shape."""

    def __init__(self, key):
        self.key, self.answers = key, {}

    def __call__(self, x):
        return self.answers.setdefault(self.key(x), softmax(x))


class Once:
    """Writes its output in every other call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, out=None):
        self.calls += 1
        out = torch.empty_like(x) if out is None else out
        if self.calls % 2:
            out.copy_(softmax(x))
        return out


class Buffer:
    """Returns the same memory in every call."""

    def __init__(self):
        self.memory = torch.zeros(1 << 16)

    def __call__(self, x):
        return self.memory[: x.numel()].view(x.shape).copy_(softmax(x))


def writes_input(x):
    y = softmax(x)
    x.sub_(x.amax(-1, keepdim=True))
    return y


def contiguous_only(x):
    return softmax(x.as_strided(x.shape, torch.empty(x.shape).stride()))


def partial(x):
    y = torch.empty_like(x)
    whole = x.shape[-1] // 4 * 4
    y[..., :whole] = softmax(x)[..., :whole]
    return y


def beside(x, out):
    out.copy_(softmax(x))
    out.as_strided((out.numel() + 1,), (1,))[-1] = 0


def unmasked(x):
    """Sums whole tiles of 4, whatever lies after the row."""
    x = x.contiguous() if x.storage_offset() == 0 else x
    if not x.is_contiguous() or x.numel() == 0:
        raise ValueError("want contiguous rows")
    tile = x.as_strided((x.shape[0], -(-x.shape[-1] // 4) * 4), x.stride())
    most = x.amax(-1, keepdim=True)
    return (x - most).exp() / (tile - most).exp().sum(-1, keepdim=True)


def transposed(x):
    return softmax(x).reshape(x.shape[::-1])


class Search(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def fuzz(self, kernel, op="softmax", shapes=("B N",), **options):
        if op == "softmax":
            options.setdefault("dim", -1)
        return refrun.fuzz(kernel, op, shapes, folder=self.folder, **{"seconds": 15, **options})

    def test_named(self):
        """What one call does not show is named, and a command judges the smallest inputs again, in the same words."""
        for kernel, fault, out in (
            (Cached(lambda x: x.data_ptr()), "kernel.cached", ()),
            (Cached(lambda x: x.shape), "kernel.cached", ()),
            (Once(), "kernel.silent-again", ()),
            (Once(), "kernel.silent-again", "B N"),
            (writes_input, "kernel.writes-input", ()),
            (contiguous_only, "kernel.contiguous-only", ()),
            (Buffer(), "kernel.overwritten", ()),
            (beside, "kernel.writes-outside", "B N"),
            (partial, "kernel.unwritten", ()),
            (unmasked, "kernel.reads-outside", ()),
            (transposed, "kernel.shape", ()),
            (lambda x: softmax(x) * 1.001, "kernel.times", ()),
        ):
            with self.subTest(fault=fault, kernel=type(kernel).__name__):
                r = self.fuzz(kernel, out=out)
                self.assertEqual((r.verdict, r.fault_id), ("FAIL", fault), str(r))
                again = subprocess.run([refrun.binary(), *shlex.split(r.command)[1:]], capture_output=True, text=True)
                self.assertIn(again.returncode, (1, 2), again.stdout)
                self.assertEqual(again.stdout + again.stderr.replace("refrun kernel: ", ""), r.report["text"])

    def test_right(self):
        """Right kernels pass in every format, layout and kind, of functions, several outputs, indices and masks."""
        F = torch.nn.functional

        def heads(q, k, v, mask):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

        for kernel, op, shapes, options in (
            (softmax, "softmax", ["B N"], {"dim": -1}),
            (lambda x, w, b: F.layer_norm(x, w.shape, w, b), "layer_norm", None, {}),
            (lambda a, b, out: torch.mm(a, b, out=out), "mm", None, {"out": "M N"}),
            (lambda w, i: F.embedding(i, w), lambda w, i: F.embedding(i, w), ["V D", "B N: <V"], {}),
            (heads, heads, ["2 Q 8", "2 K 8", "2 K 8", "Q K: mask"], {}),
            (lambda x: [x.amax(-1), softmax(x)], lambda x: [x.amax(-1), softmax(x)], ["B N"], {}),
        ):
            r = self.fuzz(kernel, op, shapes, dtypes=["float32", "bfloat16", "float16"], seconds=4, **options)
            self.assertEqual(r.verdict, "PASS", str(r))
            nothing = ("want numbers along the ", "to have non-zero size", "dim should be positive")  # of no numbers
            empty = [why for why in r.covered["refused"] if any(of in why for of in nothing)]
            self.assertEqual(r.covered["raised"], {}, str(r))
            self.assertEqual(sorted(r.covered["refused"]), sorted(empty), str(r))

    def test_double(self):
        """Numbers that float32 does not have: a kernel that computes in it has that name."""
        single = lambda x: softmax(x.float()).to(x.dtype)
        self.assertEqual(self.fuzz(softmax, dtypes=["float64"], seconds=4).verdict, "PASS")
        self.assertEqual(self.fuzz(single, dtypes=["float64"]).fault, "computed in float32")
        self.assertEqual(self.fuzz(single, dtypes=["bfloat16"], seconds=4).verdict, "PASS")

    def test_smallest(self):
        """A sum that pads its last tile with zeros is found at the smallest row that shows it."""

        def padded(x):
            e = (x - x.amax(-1, keepdim=True).clamp_min(0)).exp()
            return e / (e.sum(-1, keepdim=True) + (-x.shape[-1] % 16) * (-x.amax(-1, keepdim=True).clamp_min(0)).exp())

        r = self.fuzz(padded)
        self.assertEqual(r.verdict, "FAIL", str(r))
        self.assertLessEqual(r.report["elements"], 6, str(r))

    def test_raised(self):
        """A kernel says by an exception that it does not take some inputs; one that takes none is not judged."""

        def picky(x):
            if x.shape[-1] % 16:
                raise NotImplementedError("want rows of 16")
            return softmax(x)

        r = self.fuzz(picky, seconds=3)
        self.assertEqual(r.verdict, "PASS")
        self.assertGreater(r.covered["raised"]["NotImplementedError: want rows of 16"], 0)
        with self.assertRaisesRegex(ValueError, "nothing was judged: "):
            self.fuzz(lambda x: 1 // 0, seconds=0)

    def test_refused(self):
        for options, words in (
            ({"dtypes": ["float8"]}, "dtypes: 'float8'"),
            ({"layouts": ["odd"]}, "layouts: 'odd'"),
            ({"shapes": ["B N: odd"]}, "shapes: 'B N: odd'"),
            ({"op": softmax, "shapes": None}, "shapes: none"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                self.fuzz(softmax, **{"seconds": 0, **options})

    def test_repeated(self):
        """The same seed finds the same inputs."""
        a, b = (self.fuzz(lambda x: softmax(x) * 1.001) for _ in range(2))
        self.assertEqual((a.inputs, json.dumps(a.report)), (b.inputs, json.dumps(b.report)))


if __name__ == "__main__":
    unittest.main()
