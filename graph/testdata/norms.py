"""Writes norms.json: norms of PyTorch's of float64 numbers that float32 has. It was run
with torch 2.9.1 on a CPU: python3 norms.py"""

import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(7)
cases = []


def number(*shape):
    return torch.randn(*shape).double()


def case(op, attributes, inputs, f):
    cases.append({
        "op": op, "attributes": attributes,
        "inputs": [{"shape": list(x.shape), "data": x.flatten().tolist()} for x in inputs],
        "output": f(*inputs).flatten().tolist(),
    })


for shape, last in [((2, 3, 7), (7,)), ((2, 3, 4), (3, 4)), ((5,), (5,)), ((2, 2, 3, 2, 2), (3, 2, 2))]:
    x, w, b = number(*shape), number(*last), number(*last)
    case("layer_norm", {"normalized_shape": last}, [x, w, b], lambda x, w, b: F.layer_norm(x, last, w, b))
    case("layer_norm", {"normalized_shape": last, "eps": 1e-3}, [x], lambda x: F.layer_norm(x, last, eps=1e-3))
    case("rms_norm", {"normalized_shape": last, "eps": 1e-6}, [x, w], lambda x, w: F.rms_norm(x, last, w, 1e-6))
    case("layer_norm", {"normalized_shape": last}, [x, w], lambda x, w: F.layer_norm(x, last, w))
for shape in [(3, 4), (2, 4, 5), (2, 4, 2, 3), (1, 4, 2, 2, 2)]:
    x, w, b, m, v = number(*shape), number(4), number(4), number(4), number(4).abs()
    case("group_norm", {"num_groups": 2}, [x, w, b], lambda x, w, b: F.group_norm(x, 2, w, b))
    case("group_norm", {"num_groups": 1, "eps": 0.1}, [x], lambda x: F.group_norm(x, 1, eps=0.1))
    case("batch_norm", {}, [x, w, b, m, v], lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b))
    case("batch_norm", {"eps": 0.01}, [x, m, v], lambda x, m, v: F.batch_norm(x, m, v, eps=0.01))
    case("batch_norm", {"training": True}, [x, w, b], lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))
    if len(shape) > 2:
        case("instance_norm", {}, [x, w, b], lambda x, w, b: F.instance_norm(x, weight=w, bias=b))
        case("instance_norm", {}, [x], lambda x: F.instance_norm(x))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "norms.json"), "w") as f:
    json.dump(cases, f)
    f.write("\n")
