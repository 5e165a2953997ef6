"""Times `refrun.reference(module)(x)` beside the module itself in PyTorch, on the same processors, in turns.

    python interop/bench/reference.py [--threads 2] [--rounds 15]

Three operators: two CNNs, and a block of attention. "overhead" is the way to refrun's process and back,
which the call takes beyond the engine's own time: its median, and its least, which other programs on
the machine disturb less. Each output is compared, bit for bit, with what the
command `refrun run --graph` writes for the same module and input. Needs torch and refrun.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

import refrun
from operators import Operator


class Attention(nn.Module):
    """A block of a vision transformer: attention of 8 heads and a perceptron, each after a layer norm."""

    def __init__(self, width=256, heads=8):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c)
        x = x + self.out(y)
        return x + self.mlp(self.second(x))


def by_command(module, x, threads):
    """What the command gives for the module."""
    net = refrun.describe(module, (x,))
    with tempfile.TemporaryDirectory() as d:
        net.save(Path(d) / "net.json")
        save_file({k: v.contiguous() for k, v in net.feed((x,)).items()}, f"{d}/in.safetensors")
        subprocess.run([refrun.binary(), "run", "--graph", f"{d}/net.json", "--input", f"{d}/in.safetensors", "-o", f"{d}/out.safetensors", "--threads", str(threads)],
                       check=True, capture_output=True)
        return load_file(f"{d}/out.safetensors")[net.outputs[0]]


def timed(f, x):
    began = time.perf_counter()
    y = f(x)
    return time.perf_counter() - began, y


def measure(name, module, x, args):
    exact = refrun.reference(module, threads=args.threads)
    eager, whole, engine = [], [], []
    with torch.inference_mode():
        for _ in range(2):  # prepares weights, and warms both
            module(x), exact(x)
        for _ in range(args.rounds):
            eager.append(timed(module, x)[0])
            seconds, y = timed(exact, x)
            whole.append(seconds)
            engine.append(exact.seconds)
    same = torch.equal(y.view(torch.int32), by_command(module, x, args.threads).view(torch.int32))
    e, w = statistics.median(eager), statistics.median(whole)
    ways = [a - b for a, b in zip(whole, engine)]
    over = statistics.median(ways)
    print(f"| {name} | {e * 1e3:.1f} | {w * 1e3:.1f} | {w / e:.2f} | {over * 1e3:.2f} ms, {100 * over / w:.1f} %; least {min(ways) * 1e3:.2f} ms | {'yes' if same else 'NO'} |", flush=True)
    exact.close()
    return same


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--threads", type=int, default=2, help="of each (default 2)")
    a.add_argument("--rounds", type=int, default=15, help="timed calls of each (default 15)")
    args = a.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {args.threads} threads; median milliseconds of {args.rounds} calls\n")
    print("| operator | PyTorch eager | refrun.reference | ratio | overhead of a call | bits of the command |\n|---|---|---|---|---|---|")
    ok = [measure(name, module.eval(), x, args) for name, module, x in (
        ("CNN, base 64, 1 x 128x128", Operator(64, 3), torch.randn(1, 3, 128, 128)),
        ("CNN, base 32, 5 x 64x64", Operator(32, 3), torch.randn(5, 3, 64, 64)),
        ("attention block, 256 wide, 256 tokens", Attention(), torch.randn(1, 256, 256)))]
    return 0 if all(ok) else 1


if __name__ == "__main__":
    raise SystemExit(main())
