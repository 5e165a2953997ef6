"""Times ResNet-18 and ViT-B/16 at 224x224, as ONNX files, in refrun and its peers, float32, in
turns, an input after another.

    python3 interop/bench/networks.py [--threads 2] [--rounds 9] [--models resnet18,vit] [--cpu]

Needs go, torch, onnx, onnxruntime, numpy and safetensors; OpenVINO and PyTorch are timed as well
where they are there. Weights are random. With --cpu, which needs Linux, times are of the processor, of all
threads together: for one thread, where other programs run. Prints medians with the least and the greatest, their
ratios to refrun's, the median of the ratios of neighbours, and how far results lie apart.
"""

import argparse
import glob
import os
import statistics
import subprocess
import tempfile
import time
import warnings

import onnxruntime
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


class Basic(nn.Module):
    """ResNet's block of two convolutions (He and others, 2015)."""

    def __init__(self, c, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if c != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))


def resnet18():
    blocks = [Basic(64 << max(0, s - (b == 0 and s > 0)), 64 << s, 1 + (b == 0 and s > 0)) for s in range(4) for b in range(2)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Layer(nn.Module):
    """A layer of ViT-B (Dosovitskiy and others, 2021)."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768, eps=1e-6), nn.LayerNorm(768, eps=1e-6)
        self.qkv, self.proj = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
        self.fc1, self.fc2 = nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x):
        qkv = self.qkv(self.norm1(x)).reshape(1, 197, 3, 12, 64).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        a = torch.softmax(q @ k.transpose(-2, -1) * 64**-0.5, -1) @ v
        x = x + self.proj(a.permute(0, 2, 1, 3).reshape(1, 197, 768))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 768, 16, 16)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, 768) * 0.02), nn.Parameter(torch.randn(1, 197, 768) * 0.02)
        self.layers = nn.Sequential(*(Layer() for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)

    def forward(self, x):
        x = torch.cat([self.cls, self.patch(x).flatten(2).transpose(1, 2)], 1) + self.pos
        return self.head(self.norm(self.layers(x))[:, 0])


# The threads of ONNX Runtime and of OpenMP go on spinning after a call, in wait for the next, and
# would take a processor from whoever is timed then.
PAUSE = 0.5

MODELS = {"resnet18": resnet18, "vit": ViT}


def timed(f, clock):
    def g(k):
        began = clock()
        f(k)
        return clock() - began

    return g


def processor_time(pid):
    """The seconds that the threads of a process have run."""
    return sum(int(open(f).read().split()[0]) for f in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def peers(path, net, inputs, threads, clock):
    """The names of peers with what evaluates the k-th input and returns the seconds, and the first one's results."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = [x.numpy() for x in inputs]
    all = {f"ONNX Runtime {onnxruntime.__version__}": timed(lambda k: session.run(None, {"x": arrays[k]}), clock)}
    try:
        import openvino

        request = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}).create_infer_request()
        all[f"OpenVINO {openvino.__version__[:9]}"] = timed(lambda k: request.infer({"x": arrays[k]}), clock)
    except ImportError:
        pass
    torch.set_num_threads(threads)
    all[f"PyTorch {torch.__version__}"] = timed(lambda k: net(inputs[k]), clock)
    return all, lambda k: torch.from_numpy(session.run(None, {"x": arrays[k]})[0])


def measure(name, o, work):
    torch.manual_seed(1)
    net, inputs = MODELS[name]().eval(), [torch.randn(1, 3, 224, 224) for _ in range(3)]
    path = f"{work}/{name}.onnx"
    torch.onnx.export(net, (inputs[0],), path, input_names=["x"], output_names=["y"], opset_version=20, dynamo=False)
    save_file({f"x {k}": x for k, x in enumerate(inputs)}, f"{work}/{name}.safetensors")
    child = subprocess.Popen([f"{work}/network", path, str(o.threads), f"{work}/{name}.safetensors"] + ["fast"] * (o.arith == "fast"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ours(k, file=""):
        began = processor_time(child.pid) if o.cpu else 0
        child.stdin.write(f"{k} {file}\n")
        child.stdin.flush()
        took = float(child.stdout.readline())
        return processor_time(child.pid) - began if o.cpu else took

    others, results = peers(path, net, inputs, o.threads, time.process_time if o.cpu else time.perf_counter)
    apart = 0.0
    for k in range(3):
        ours(k, f"{work}/y.safetensors")
        y, want = load_file(f"{work}/y.safetensors")["y"], results(k)
        apart = max(apart, ((y - want).abs().max() / want.abs().max()).item())
        for other in others.values():
            other(k)
    all = {"refrun": ours, **others}
    times = {p: [] for p in all}
    for i in range(o.rounds):
        for p, f in all.items():
            time.sleep(PAUSE)
            times[p].append(f(i % 3))
    child.stdin.close()
    child.wait()
    print(f"{name}, {o.threads} threads, {o.rounds} rounds; results apart by {apart:.1e} of the greatest")
    for p, t in times.items():
        beside = "" if p == "refrun" else f"   refrun takes {statistics.median(times['refrun']) / statistics.median(t):.2f} times that, {statistics.median(a / b for a, b in zip(times['refrun'], t)):.2f} by neighbours"
        print(f"  {p:22} {1e3 * statistics.median(t):8.1f} ms ({1e3 * min(t):.1f} to {1e3 * max(t):.1f}){beside}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--arith", choices=["exact", "fast"], default="exact", help="of refrun")
    p.add_argument("--cpu", action="store_true", help="processor time, not time")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--models", default="resnet18,vit")
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        subprocess.run(["go", "build", "-o", work + "/network", "./interop/bench/network"], cwd=here + "/../..", check=True)
        for name in o.models.split(","):
            measure(name, o, work)


main()
