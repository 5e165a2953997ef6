"""Every block of Python in a document is run, in the document's order, with the names that the text around it
speaks of. What it prints is held to the comment or the block that says so. "cuda" is read as "cpu".
`Plain` has the documents that need numpy alone, `Torch` all others."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import OrderedDict
from pathlib import Path

import refrun

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"(?ms)^```python\n(.*?)^```\n?")
PLAIN = ("docs/NOISE.md", "docs/NUMERICS.md")
OPERATOR = {"weights_seed": 0, "operator": {"num_layers": 0, "base_channels": 4, "grid_size": 16}, "rollout": {"num_timesteps": 3, "num_realizations": 2}}
SPEC = {"name": "small", "operators": 18, "seed": 3, "operator": {"num_layers": 0, "base_channels": 2, "grid_size": 8}, "rollout": {"num_timesteps": 2, "num_realizations": 1},
        "space": {"operator.noise_scale": {"log": [0.001, 0.1]}}}


def documents():
    """name: text, of each document with a block of Python."""
    paths = [p for pattern in ("*.md", "docs/**/*.md", "interop/**/*.md", "examples/**/*.md", "internal/**/*.md") for p in sorted(ROOT.glob(pattern))]
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths if "```python" in p.read_text(encoding="utf-8")}


def run(name, text):
    """Runs a document's blocks in a folder of their own; returns how many there were."""
    blocks, here = list(BLOCK.finditer(text)), os.getcwd()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            digest = roll_out()
            space = {} if name in PLAIN else given(name)
            for block in blocks:
                line = text[: block.start()].count("\n") + 1
                code, out = block[1].replace('"cuda"', '"cpu"'), io.StringIO()
                # The one line that stands for the reader's own loop.
                code = re.sub(r"^( +)\.\.\. +# your loop: (x = .*), under autocast$", r"\1for _ in range(4):\n\1    with torch.no_grad(), torch.autocast('cpu', torch.float16):\n\1        \2", code, flags=re.M)
                code = code.replace("\nstates, noise =", "\nmodel.noise = Noise(0.01)\nstates, noise =")  # the reader's model has that class
                if "os.makedirs" in code:
                    shutil.rmtree("case", ignore_errors=True)  # it was made with the package, and is made without it now
                with contextlib.redirect_stdout(out):
                    exec(compile("\n" * line + code, name, "exec"), space)  # so that an error names the document's line
                    for test in [k for k in space if k.startswith("test_")]:
                        space.pop(test)()
                    if "case/noise.safetensors" in code:
                        check(text[block.end():])
                said(name, line, block[1], text[block.end():], out.getvalue(), digest)
        finally:
            os.chdir(here)
    return len(blocks)


def said(name, line, code, after, out, digest):
    """What was printed is what the document says."""
    words, comments = out.split(), re.findall(r"(?m)^# (.*)$", code)
    if comments and out:
        want = comments[-1].replace(",", " ").split()
        assert words == want, f"{name}:{line} prints {words}, and says {want}"
    elif 'Path("out.safetensors")' in code:
        assert out.strip() == digest, f"{name}:{line} prints {out}, and the run {digest}"
    follows = re.match(r"(?s)\n(?:It prints[^`]*)?```\n(.*?)```", after)
    if follows and out:
        text = " ".join(words)
        for want in follows[1].splitlines():
            assert " ".join(want.removesuffix("...").split()) in text, f"{name}:{line} does not print {want!r}, but {out}"


def roll_out():
    """Leaves out.safetensors in the present folder, with digests, and returns the digest that the run printed."""
    Path("op.json").write_text(json.dumps(OPERATOR))
    printed = subprocess.run([refrun.binary(), "run", "--config", "op.json", "--x0", "white:7", "-o", "out.safetensors", "--quiet"], check=True, capture_output=True, text=True).stdout
    return re.search("(?m)^digest ([0-9a-f]{64})$", printed)[1]


def check(after):
    """The files of docs/validate-your-gpu.md and the case.json below them are a case that passes."""
    claim = re.search(r"(?ms)^```json\n(.*?)^```", after)[1].replace('"cuda"', '"cpu"')
    Path("case/case.json").write_text(claim)
    refrun.assert_pass("case")


def given(name):
    """What the text before the first block made, or says that its reader has."""
    import zlib

    import safetensors.numpy
    import torch
    from safetensors.torch import save_file
    from small import operator
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(0)
    x = torch.randn(2, 3, 32, 32)
    space = {"refrun": refrun, "torch": torch, "operator": operator(), "module": operator(), "x": x, "x0": x}
    Path("spec.yaml").write_text(json.dumps(SPEC))
    if name == "docs/FORMATS.md":
        os.mkdir("case")
        space |= {"zlib": zlib, "safetensors": safetensors, "save_file": save_file, "model": nn.Conv2d(3, 3, 1), "m": 1, "s": 2}
    elif name == "docs/KERNELS.md":
        gate, up = torch.randn(2, 64, 100)
        space |= {"my_softmax": lambda x: torch.softmax(x, -1), "gate": gate, "up": up, "my_fused_kernel": lambda x, y: F.silu(x) * y,
                  "my_kernel": lambda **inputs: F.layer_norm(normalized_shape=[1000], **inputs)}
    elif name == "docs/networks.md":
        space |= {"module": nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), "x": torch.randn(2, 8)}
    elif name == "docs/validate-your-gpu.md":
        parts = [("conv1", nn.Conv2d(3, 16, 3, padding=1)), ("norm1", nn.InstanceNorm2d(16, affine=True)), ("act1", nn.GELU()), ("noise", nn.Identity()), ("out", nn.Conv2d(16, 3, 1))]
        space["model"] = nn.Sequential(OrderedDict(parts)).eval()
    elif name == "interop/python/README.md":
        a, b = (torch.randint(-8, 9, s).half() for s in ((16, 64), (64, 8)))  # sums that every unit of matrices has exactly
        space |= {"a": a, "b": b, "w": torch.randn(3, 3, 3, 3), "draws": torch.randn(10, 2, 3, 32, 32), "trajectory": torch.randn(2, 11, 3, 32, 32)}
    if name in ("docs/ROLLOUTS.md", "interop/python/README.md"):  # a step with a hidden state
        size = 48 if name == "interop/python/README.md" else 8  # that of the images of the blocks before it
        inner, head, x = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 1), torch.randn(2, 3, size, size)
        space |= {"cell": lambda y, h: torch.tanh(inner(y) + h), "head": head, "h": torch.zeros(2, 4, size, size), "x": x, "f": torch.randn(8 if size == 48 else 100, *x.shape)}
    if name == "interop/zoo/README.md":
        import numpy as np

        sys.path.insert(0, str(ROOT / "interop/zoo"))
        import catalogue
        import functions

        space |= {"fault": catalogue.fault, "functions": functions, "np": np}
    return space


class Plain(unittest.TestCase):
    def test_blocks(self):
        texts = documents()
        self.assertGreaterEqual(sum(run(name, texts[name]) for name in PLAIN), 12)

    def test_said(self):
        """What is not what a document says is seen."""
        for code, after, out in (("print(1)\n# 2\n", "", "1\n"), ("print(1)\n", "\nIt prints\n\n```\n2\n```\n", "1\n"), ('Path("out.safetensors")\n', "", "1\n")):
            with self.assertRaises(AssertionError):
                said("x.md", 1, code, after, out, "2")


class Torch(unittest.TestCase):
    def test_blocks(self):
        ran = 0
        for name, text in documents().items():
            if name not in PLAIN:
                with self.subTest(document=name):
                    ran += run(name, text)
        self.assertGreaterEqual(ran, 17)


class Faults(unittest.TestCase):
    def test_steps(self):
        """Each rollout of docs/steps.md fails, if from step 3 on rows of a weight are shifted by one, or the state is 1 % too large."""
        import torch
        from refrun import step as graphs

        record, here = refrun.record, os.getcwd()

        def wrong(step):
            plain, calls = graphs.plain(step), [0]
            module = plain if isinstance(plain, torch.nn.Module) else graphs.Function(plain)
            weights = [p for p in module.parameters() if p.dim() > 1 and p.shape[0] > 1]

            def call(*args, **kwargs):
                calls[0] += 1
                by = int(calls[0] >= 3)
                with torch.no_grad():
                    for w in weights[-1:]:
                        w.copy_(w.roll(by, 0))
                    made = step(*args, **kwargs)
                    for w in weights[-1:]:
                        w.copy_(w.roll(-by, 0))
                    if by and not weights:
                        next(iter(graphs.named(made).values())).mul_(1.01)
                return made

            return call

        before, *blocks = [b[1].replace('"cuda"', '"cpu"') for b in BLOCK.finditer(documents()["docs/steps.md"])]
        self.assertGreaterEqual(len(blocks), 38)
        torch.set_autocast_cache_enabled(False)  # which has the weights as they were
        self.addCleanup(torch.set_autocast_cache_enabled, True)
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            self.addCleanup(os.chdir, here)
            torch.manual_seed(0)
            space = {}
            exec(before, space)
            for block in blocks:
                self.assertLessEqual(block.count("\n"), 15)
                if "torch.compile" in block:
                    continue  # it has constants of its own
                refrun.record = lambda path, step, **k: record(path, wrong(step), like=graphs.plain(step), **k)
                try:
                    with self.subTest(block=block), self.assertRaisesRegex(AssertionError, "VERDICT  FAIL"), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        exec(block, dict(space))
                finally:
                    refrun.record = record


if __name__ == "__main__":
    unittest.main()
