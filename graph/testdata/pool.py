"""Writes pool.safetensors and pool_shapes.json: what PyTorch's CPU pooling and resizing
return in float64 (of "pair" in float32), and the shapes of many more.

    pip install torch==2.9.1
    python pool.py
"""
import itertools
import json
import random
import struct

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
torch.manual_seed(11)
random.seed(12)
inputs = {
    "line": torch.randn(1, 1, 11, dtype=torch.float64),
    "plane": torch.randn(1, 1, 6, 7, dtype=torch.float64),
    "volume": torch.randn(1, 1, 3, 4, 3, dtype=torch.float64),
    "pair": torch.tensor([[[1.0, 2.0]]], dtype=torch.float32),
    "equal": torch.randint(-2, 3, (1, 1, 6, 7)).double(),
    "nine": torch.tensor([0.0, 0, 0, 0, nan, 0, 0, 0, 0], dtype=torch.float64)[None, None, None],
    "special": torch.tensor([[nan, 1, -inf, -inf, 2, nan], [3, nan, -inf, -inf, inf, 5],
                             [-0.0, 0.0, 1, 1, 0.0, -0.0], [-1, -2, 1, 1, -0.0, 0.0]], dtype=torch.float64)[None, None],
}
cases = []


def case(op, name, **attributes):
    cases.append((op, name, attributes))


for name, n in ("line", 1), ("plane", 2), ("volume", 3):
    axes = f"{n}d"
    case("max_pool" + axes, name, kernel_size=2)
    case("max_pool" + axes, name, kernel_size=3, stride=2, padding=1, return_indices=True)
    case("max_pool" + axes, name, kernel_size=2, stride=1, dilation=2, return_indices=True)
    case("max_pool" + axes, name, kernel_size=3, stride=2, padding=1, ceil_mode=True, return_indices=True)
    case("avg_pool" + axes, name, kernel_size=3)
    for ceil, count in itertools.product([False, True], repeat=2):
        case("avg_pool" + axes, name, kernel_size=3, stride=2, padding=1, ceil_mode=ceil, count_include_pad=count)
    case("avg_pool" + axes, name, kernel_size=2, stride=3, padding=0, ceil_mode=True)
    if n > 1:
        case("avg_pool" + axes, name, kernel_size=2, padding=1, divisor_override=7)
        case("max_pool" + axes, name, kernel_size=[3, 2, 2][:n], stride=[1, 2, 1][:n], padding=[1, 0, 1][:n])
        case("avg_pool" + axes, name, kernel_size=[3, 2, 2][:n], stride=[1, 2, 1][:n], padding=[1, 0, 1][:n])
    for size in 1, 5, [4, 3, 2][:n]:
        case("adaptive_avg_pool" + axes, name, output_size=size)
        case("adaptive_max_pool" + axes, name, output_size=size, return_indices=True)
for name in "equal", "special":
    case("max_pool2d", name, kernel_size=2, stride=1, return_indices=True)
    case("max_pool2d", name, kernel_size=3, padding=1, return_indices=True)
    case("adaptive_max_pool2d", name, output_size=3, return_indices=True)
    case("avg_pool2d", name, kernel_size=2, stride=1)
linear = {"line": "linear", "plane": "bilinear", "volume": "trilinear"}
for name, n in ("line", 1), ("plane", 2), ("volume", 3):
    for attributes in ({"scale_factor": 2.0}, {"size": [10, 4, 7][:n]}, {"scale_factor": 1.7}, {"scale_factor": 0.6},
                       {"scale_factor": 1.7, "recompute_scale_factor": True}):
        for mode in "nearest", "nearest-exact", "area":
            case("interpolate", name, mode=mode, **attributes)
        for corners in False, True:
            case("interpolate", name, mode=linear[name], align_corners=corners, **attributes)
            if n == 2:
                case("interpolate", name, mode="bicubic", align_corners=corners, **attributes)
                for mode in "bilinear", "bicubic":
                    case("interpolate", name, mode=mode, align_corners=corners, antialias=True, **attributes)
for corners in False, True:
    case("interpolate", "plane", mode="bilinear", align_corners=corners, antialias=True, size=[1, 3])
    case("interpolate", "nine", mode="bilinear", align_corners=corners, antialias=True, size=[1, 3])
case("interpolate", "pair", size=82)
case("interpolate", "special", mode="nearest", scale_factor=2.0)
case("interpolate", "special", mode="bilinear", size=[3, 4])

out = dict(inputs)
for op, name, attributes in cases:
    y = getattr(F, op)(inputs[name], **attributes)
    for k, t in enumerate(y if isinstance(y, tuple) else (y,)):
        out[f"{op} {json.dumps(attributes)} {name} {k}"] = t.double()
header, data = {"__metadata__": {"torch": torch.__version__}}, b""
for name, t in out.items():
    raw = t.double().contiguous().numpy().tobytes()
    header[name] = {"dtype": "F64", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("pool.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)


def several(n, pick):
    return [pick() for _ in range(n)] if random.random() < 0.3 else pick()


rows = []
for _ in range(350):
    n = random.randint(1, 3)
    kind = random.choice(["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "interpolate"])
    shape = [2] * random.randint(1, 2) + [random.randint(1, 12) for _ in range(n)]
    if kind == "interpolate":
        shape = [1, 2] + shape[-n:]
        attributes = {"mode": random.choice(["nearest", "nearest-exact", "area", ["linear", "bilinear", "trilinear"][n - 1]])}
        if random.random() < 0.4:
            attributes["size"] = several(n, lambda: random.randint(0, 12))
        else:
            attributes["scale_factor"] = several(n, lambda: random.choice([0.1, 0.3, 1 / 3, 0.7, 1.0, 1.1, 2.0, 2.5, 3.3]))
    elif kind.startswith("adaptive"):
        attributes = {"output_size": several(n, lambda: random.randint(0, 12))}
    else:
        attributes = {"kernel_size": several(n, lambda: random.randint(1, 5)), "padding": several(n, lambda: random.randint(0, 2)),
                      "ceil_mode": random.random() < 0.5}
        if random.random() < 0.7:
            attributes["stride"] = several(n, lambda: random.randint(1, 4))
        if kind == "max_pool" and random.random() < 0.4:
            attributes["dilation"] = several(n, lambda: random.randint(1, 3))
    op = kind if kind == "interpolate" else f"{kind}{n}d"
    try:
        result = list(getattr(F, op)(torch.zeros(shape), **attributes).shape)
    except Exception as e:
        result = str(e).splitlines()[0][:60]
    rows.append([op, attributes, shape, result])
with open("pool_shapes.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
