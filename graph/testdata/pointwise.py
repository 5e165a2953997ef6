"""Writes pointwise.json: operations of each number of PyTorch's CPU, of float16 numbers and of
the same in float64. It was run with torch 2.9.1: python3 pointwise.py"""

import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(9)
cases = []
NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.int64: "int64", torch.bool: "bool"}


def case(op, f, *inputs, **attributes):
    y = f(*inputs)
    real = y.dtype.is_floating_point
    wide = f(*[x if x.dtype == torch.bool or x.dtype == torch.int64 and not real else x.double() for x in inputs])
    cases.append({
        "op": op, "attributes": attributes,
        "inputs": [{"shape": list(x.shape), "type": NAMES[x.dtype], "data": [float(v) for v in x.flatten()]} for x in inputs],
        "type": NAMES[y.dtype], "shape": list(y.shape),
        "output": [float(v) for v in y.flatten()], "wide": [float(v) for v in wide.flatten()],
    })


half = lambda *shape: (2 * torch.randn(*shape)).half()
positive = lambda *shape: (torch.rand(*shape) + 0.1).half()
x, p = half(3, 7), positive(3, 7)
for name in "exp exp2 expm1 square sin cos tan atan erf abs neg sign floor ceil trunc round reciprocal sigmoid logical_not selu".split():
    case(name, getattr(torch, name), x)
for name in "log log2 log1p sqrt rsqrt".split():
    case(name, getattr(torch, name), p)
for name in "relu6 hardsigmoid hardswish softsign mish softplus elu celu leaky_relu hardtanh".split():
    case(name, getattr(F, name), x)
case("elu", lambda x: F.elu(x, 0.5), x, alpha=0.5)
case("celu", lambda x: F.celu(x, 0.5), x, alpha=0.5)
case("leaky_relu", lambda x: F.leaky_relu(x, 0.25), x, negative_slope=0.25)
case("softplus", lambda x: F.softplus(x, 2, 5), x, beta=2, threshold=5)
case("hardtanh", lambda x: F.hardtanh(x, -0.5, 2), x, min_val=-0.5, max_val=2)
case("clamp", lambda x: x.clamp(-0.25, 1.5), x, min=-0.25, max=1.5)
case("clamp", lambda x: x.clamp(max=1.5), x, max=1.5)
for op in "add sub mul div minimum maximum fmin fmax atan2 eq ne lt le gt ge logical_and logical_or logical_xor".split():
    f = getattr(torch, op)
    y = half(3, 7)
    y[0] = x[0]
    y[1] = 0.5
    case(op, f, x, y)
    case(op, f, half(2, 1, 5), half(4, 1))
    if op not in ("fmin", "fmax"):
        case(op, f, torch.randint(-4, 5, (2, 3)), torch.randint(1, 5, (3,)))
        case(op, f, torch.randint(-4, 5, (2, 3)), half(2, 3))
case("pow", torch.pow, p, x)
case("pow", lambda x: x ** 3, x, other=3)
case("pow", lambda x: 2 ** x, x, self=2)
case("prelu", lambda x, w: F.prelu(x, w), x, half(1))
case("add", lambda x, y: torch.add(x, y, alpha=0.25), x, p, alpha=0.25)
case("sub", lambda x, y: torch.sub(x, y, alpha=0.5), x, p, alpha=0.5)
case("mul", lambda x: x * 0.75, x, other=0.75)
case("sub", lambda x: 1 - x, x, self=1)
case("div", lambda x: 1 / x, x, self=1)
case("gt", lambda x: x > 0.25, x, other=0.25)
case("where", torch.where, x > 0, x, p)
case("where", torch.where, torch.rand(3, 1) > 0.5, half(7), half(2, 1, 1))
for op in "abs neg sign square".split():
    case(op, getattr(torch, op), torch.randint(-4, 5, (2, 3)))
case("sigmoid", torch.sigmoid, torch.randint(-4, 5, (2, 3)))
case("hardshrink", F.hardshrink, x)
case("softshrink", F.softshrink, x)
for name in "isnan isinf".split():
    case(name, getattr(torch, name), x)
    case(name, getattr(torch, name), torch.tensor([0, 3]))
for name in "fmod remainder floor_divide".split():
    case(name, getattr(torch, name), half(3, 7), half(7))
    case(name, getattr(torch, name), torch.randint(-9, 10, (2, 9)), torch.tensor([-4, -3, -2, -1, 1, 2, 3, 4, 5]))
    case(name, lambda x, name=name: getattr(torch, name)(x, 0.75), half(3, 7), other=0.75)
for mode in "floor trunc".split():
    case("div", lambda x, y: torch.div(x, y, rounding_mode=mode), half(3, 7), half(7), rounding_mode=mode)
    case("div", lambda x, y: torch.div(x, y, rounding_mode=mode), torch.randint(-9, 10, (2, 6)), torch.tensor([-3, -2, -1, 1, 2, 3]), rounding_mode=mode)
case("glu", F.glu, half(3, 8))
case("glu", lambda x: F.glu(x, 1), half(2, 6, 3), dim=1)
for name in "sinh cosh asinh erfc".split():
    case(name, getattr(torch, name), x)
case("log10", torch.log10, p)
case("acosh", torch.acosh, p + 1)
for name in "asin acos".split():
    case(name, getattr(torch, name), x / 8)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pointwise.json"), "w") as f:
    json.dump(cases, f)
    f.write("\n")
