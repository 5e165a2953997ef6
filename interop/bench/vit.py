"""Times ViT-B/16 at 224x224 in refrun and ONNX Runtime, float32, in turns, an input after another.

    python3 interop/bench/vit.py [--threads 2] [--rounds 9]

Needs go, torch, onnx, onnxruntime and safetensors. Weights are random. Prints the medians, their
ratio, the median of the ratios of neighbours, and how far the results lie apart.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

import onnxruntime
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768, eps=1e-6), nn.LayerNorm(768, eps=1e-6)
        self.qkv, self.proj = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
        self.fc1, self.fc2 = nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).reshape(1, 197, 3, 12, 64).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-2, -1) * 64**-0.5, -1) @ v
        x = x + self.proj(a.permute(0, 2, 1, 3).reshape(1, 197, 768))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 768, 16, 16)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, 768) * 0.02), nn.Parameter(torch.randn(1, 197, 768) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(12))
        self.norm, self.head = nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)

    def forward(self, x):
        x = torch.cat([self.cls, self.patch(x).flatten(2).transpose(1, 2)], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=9)
    o = p.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(1)
    net, inputs = ViT().eval(), [torch.randn(1, 3, 224, 224) for _ in range(3)]
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["go", "build", "-o", work + "/vit", "./interop/bench/vit"], cwd=here + "/../..", check=True)
        tensors = {k: v.detach().contiguous() for k, v in net.state_dict().items()}
        save_file({**tensors, **{f"input{i}": x for i, x in enumerate(inputs)}}, work + "/w.safetensors")
        torch.onnx.export(net, (inputs[0],), work + "/vit.onnx", input_names=["x"], output_names=["y"], opset_version=20, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = o.threads
        session = onnxruntime.InferenceSession(work + "/vit.onnx", options, providers=["CPUExecutionProvider"])
        child = subprocess.Popen([work + "/vit", work + "/w.safetensors", str(o.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ours(k, file=""):
            child.stdin.write(f"{k} {file}\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        def theirs(k):
            began = time.perf_counter()
            session.run(None, {"x": inputs[k].numpy()})
            return time.perf_counter() - began

        apart = 0.0
        for k in range(3):
            ours(k, work + "/y.safetensors")
            y = load_file(work + "/y.safetensors")["y"]
            want = torch.from_numpy(session.run(None, {"x": inputs[k].numpy()})[0])
            apart = max(apart, ((y - want).abs().max() / want.abs().max()).item())
        a, b = [], []
        for i in range(o.rounds):
            a.append(ours(i % 3))
            b.append(theirs(i % 3))
        child.stdin.close()
        child.wait()
    print(f"refrun {statistics.median(a):.4f} s, ONNX Runtime {onnxruntime.__version__} {statistics.median(b):.4f} s, {o.threads} threads, median of {o.rounds}")
    print(f"ratio {statistics.median(a) / statistics.median(b):.2f}, of neighbours {statistics.median(x / y for x, y in zip(a, b)):.2f}; results apart by {apart:.1e} of the greatest")


main()
