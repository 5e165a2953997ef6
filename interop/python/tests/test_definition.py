"""Solutions of definitions as FlashInfer-Bench and SOL-ExecBench write them, right and wrong, run here or recorded."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import save_file

import refrun
from refrun.definition import main

NORM = {
    "name": "rmsnorm_h96",
    "axes": {"batch": {"type": "var"}, "half": {"type": "const", "value": 48}, "hidden": {"type": "expr", "expression": "2 * half"}},
    "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}, "weight": {"shape": ["hidden"], "dtype": "bfloat16"}, "eps": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
    "reference": """
import torch

@torch.no_grad()
def run(x, weight, eps):
    assert x.shape[1] == 96
    wide = x.to(torch.float32)
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)
""",
}
SOLUTION = """
import torch

def run(x, weight, eps, y):
    wide = x.float()
    y.copy_(wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight)
"""
WORKLOADS = [
    {"uuid": f"w{n}", "axes": {"batch": n}, "inputs": {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 0.05}}}
    for n in (2, 33)
]
PAGED = {
    "axes": {"batch": {"type": "const", "value": 3}, "dim": {"type": "const", "value": 16}, "pages": {"type": "var"}, "ends": {"type": "var"}},
    "inputs": {"q": {"shape": ["batch", "dim"], "dtype": "bfloat16"}, "k": {"shape": ["pages", "dim"], "dtype": "bfloat16"}, "v": {"shape": ["pages", "dim"], "dtype": "bfloat16"},
               "ends": {"shape": ["ends"], "dtype": "int32"}, "table": {"shape": ["pages"], "dtype": "int32"}},
    "outputs": {"y": {"shape": ["batch", "dim"], "dtype": "bfloat16"}, "lse": {"shape": ["batch"], "dtype": "float32"}},
    "custom_inputs_entrypoint": "tables",
    "reference": """
import torch

def tables(sizes, device):
    ends = torch.tensor([0, 9, 9, sizes["pages"]], dtype=torch.int32, device=device)
    return {"ends": ends, "table": torch.randperm(sizes["pages"], device=device).to(torch.int32)}

def run(q, k, v, ends, table):
    y, lse = torch.zeros_like(q), torch.full((3,), -float("inf"))
    for b in range(3):
        if ends[b] < ends[b + 1]:
            at = table[int(ends[b]):int(ends[b + 1])].long()
            scores = k[at].float() @ q[b].float() / 4
            lse[b] = torch.logsumexp(scores, 0)
            y[b] = (torch.softmax(scores, 0) @ v[at].float()).to(y.dtype)
    return y, lse
""",
}


class Definition(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "definition.json").write_text(json.dumps(NORM))
        (self.folder / "workload.jsonl").write_text("".join(json.dumps({"definition": "rmsnorm_h96", "workload": w}) + "\n" for w in WORKLOADS))

    def solution(self, code, **spec):
        spec = {"languages": ["pytorch"], "entry_point": "kernel.py::run", **spec}
        (self.folder / "solution.json").write_text(json.dumps({"spec": spec, "sources": [{"path": "kernel.py", "content": code}]}))

    def judge(self, solution="solution.json", *flags):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(self.folder / n) for n in ("definition.json", "workload.jsonl", solution)] + list(flags))
        return code, out.getvalue(), err.getvalue()

    def test_solution(self):
        """A solution that writes its output passes; an eps that is as good as none is named; what is left as it was fails."""
        self.solution(SOLUTION.replace("EPS", "eps"))
        code, out, err = self.judge()
        self.assertEqual((code, out.count("PASS")), (0, 2), out + err)
        self.solution(SOLUTION.replace("EPS", "1e-5"))
        code, out, _ = self.judge("solution.json", "--json", "--most", "1")
        self.assertEqual((code, out.count("\n")), (1, 1))
        row = json.loads(out)
        self.assertEqual((row["workload"], row["verdict"]), ("w2", "FAIL"))
        self.assertEqual(row["diagnosis"], "a term is not added")
        self.solution(SOLUTION.replace("EPS", "eps").replace("y.copy_(", "y[:, 1:].copy_((").replace("weight)", "weight)[:, 1:])"))
        self.assertEqual(self.judge()[0], 1)

    def test_returned(self):
        self.solution(SOLUTION.replace("EPS", "eps").replace(", y):", "):").replace("y.copy_(", "return dict(y=").replace("* weight)", "* weight.float())"), destination_passing_style=False)
        code, out, err = self.judge()
        self.assertEqual(code, 1)
        self.assertIn("y: float32 [2, 96]: want bfloat16 [2, 96]", out, err)

    def test_recorded(self):
        """What a device was given and returned is judged by its own inputs."""
        for w in WORKLOADS:
            x, weight = torch.randn(w["axes"]["batch"], 96).bfloat16(), torch.rand(96).bfloat16()
            y = torch.nn.functional.rms_norm(x.float(), [96], weight.float(), 0.05).bfloat16()
            save_file({"x": x, "weight": weight, "y": y}, self.folder / f"{w['uuid']}.safetensors")
        self.assertEqual(self.judge("")[0], 0)
        save_file({"x": x, "weight": weight, "y": y.roll(1, 0)}, self.folder / "w2.safetensors")
        self.assertEqual(self.judge("")[0], 2)  # of another batch
        y[5] = y[4]
        save_file({"x": x, "weight": weight, "y": y}, self.folder / "w33.safetensors")
        save_file({"x": x[:2].clone(), "weight": weight, "y": y[:2].clone()}, self.folder / "w2.safetensors")
        code, out, _ = self.judge("")
        self.assertEqual((code, out.count("PASS"), out.count("FAIL")), (1, 1, 1), out)

    def test_paged(self):
        """A reference whose page tables say what it computes, with two outputs."""
        space = {}
        exec(PAGED["reference"], space)
        workload = {"uuid": "p", "axes": {"pages": 24, "ends": 4}, "inputs": {n: {"type": "custom" if n in ("ends", "table") else "random"} for n in PAGED["inputs"]}}

        def wrong(q, k, v, ends, table):
            return space["run"](q, k, v, ends, table.index_put((torch.tensor([12]),), table[13]))

        def first(q, k, v, ends, table):
            return space["run"](q, k, v, ends, table.index_put((torch.tensor([3]),), table[13]))

        for kernel, want in ((space["run"], "PASS"), (wrong, "FAIL"), (first, "FAIL")):
            (name, report), = refrun.check_definition(PAGED, [workload], kernel, seed=5)
            self.assertEqual((name, report.verdict), ("p", want), report)

    def test_raised(self):
        self.solution("def run(*_):\n    raise IndexError('no such row')\n")
        code, out, _ = self.judge()
        self.assertEqual((code, out.count("FAIL  it raised IndexError: no such row")), (1, 2))

    def test_refused(self):
        self.solution("", languages=["cuda_cpp"])
        code, _, err = self.judge()
        self.assertEqual(code, 2)
        self.assertIn("want Python or Triton, or a folder", err)
        self.solution(SOLUTION)
        data = json.loads((self.folder / "solution.json").read_text())
        data["sources"][0]["path"] = "../kernel.py"
        (self.folder / "solution.json").write_text(json.dumps(data))
        self.assertIn("outside of the solution", self.judge()[2])


if __name__ == "__main__":
    unittest.main()
