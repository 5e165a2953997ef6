"""What PyTorch's grid_sample makes of float64 numbers, written to pytorch.json beside this script.

    python3 make.py

Positions are on numbers, halves and quarters of images, far outside of them and anywhere.
"""
import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_num_threads(1)


def grid(sizes, corners, out):
    """Positions as numbers of a grid that are float32 numbers."""
    axes = []
    for n in reversed(sizes):
        p = torch.randint(-16, 4 * n + 16, out) / 4
        p = torch.where(torch.rand(out) < 0.3, 3 * n * torch.rand(out) - n, p)
        axes.append(2 * p / max(1, n - 1) - 1 if corners else (2 * p + 1) / n - 1)
    g = torch.stack(axes, -1)
    return g.float().double()[None]


cases = []
for sizes, out in (([4, 4], [3, 8]), ([1, 5], [2, 6]), ([2, 3, 4], [2, 2, 6])):
    x = torch.randn(1, 2, *sizes).float().double()
    for mode in ("bilinear", "nearest", "bicubic")[: 5 - len(sizes)]:
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                g = grid(sizes, corners, out)
                y = F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=corners)
                cases.append({
                    "mode": mode, "padding_mode": padding, "align_corners": corners, "sizes": sizes, "out": out,
                    "x": x.flatten().tolist(), "grid": g.flatten().tolist(), "y": y.flatten().tolist(),
                })

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch.json"), "w") as f:
    json.dump({"torch": torch.__version__, "cases": cases}, f)
    f.write("\n")
