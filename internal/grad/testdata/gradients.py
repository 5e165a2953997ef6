"""Writes gradients.json: gradients by PyTorch's autograd in float64, of the sum of an operation's
outputs times given numbers. It was run with torch 2.9.1: python3 gradients.py"""

import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(5)
cases = []


def case(op, f, *inputs, by=None, **attributes):
    """by: the inputs that have a gradient; all of floating-point numbers otherwise."""
    by = [k for k, x in enumerate(inputs) if x.is_floating_point()] if by is None else by
    xs = [x.clone().requires_grad_(k in by) for k, x in enumerate(inputs)]
    y = f(*xs)
    y = [y] if isinstance(y, torch.Tensor) else list(y)
    c = [torch.randn(v.shape, dtype=torch.float64) if v.is_floating_point() else None for v in y]
    loss = sum((v * w).sum() for v, w in zip(y, c) if w is not None)
    grads = torch.autograd.grad(loss, [xs[k] for k in by])
    data = lambda x: {"shape": list(x.shape), "data": ["NaN" if v != v else float(v) for v in x.detach().flatten()], "whole": not x.is_floating_point()}
    cases.append({"op": op, "attributes": attributes, "inputs": [data(x) for x in inputs], "by": by,
                  "outputs": [None if w is None else data(w) for w in c], "gradients": [data(g) for g in grads]})


r = lambda *shape: torch.randn(*shape, dtype=torch.float64)
p = lambda *shape: torch.rand(*shape, dtype=torch.float64) + 0.1
i = lambda *v: torch.tensor(v)
kinks = torch.tensor([-6, -3.5, -3, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 2, 3, 3.5, 6, 7], dtype=torch.float64)

for name in "exp exp2 expm1 square sin cos tan atan erf abs neg reciprocal sigmoid selu".split():
    case(name, getattr(torch, name), r(2, 5))
for name in "log log2 log1p sqrt rsqrt".split():
    case(name, getattr(torch, name), p(2, 5))
for name in "relu relu6 hardswish softsign mish softplus elu celu leaky_relu hardtanh silu selu hardshrink gelu tanh".split():
    case(name, getattr(F, name), kinks)
    case(name, getattr(F, name), 3 * r(9))
case("abs", torch.abs, kinks)
# PyTorch's own has 1/6 in float32.
case("hardsigmoid", lambda x: torch.where((x > -3) & (x < 3), (x + 3) / 6, (x > 0).double()), kinks)
case("gelu", lambda x: F.gelu(x, approximate="tanh"), kinks, approximate="tanh")
case("elu", lambda x: F.elu(x, 0.5), kinks, alpha=0.5)
case("celu", lambda x: F.celu(x, 0.5), kinks, alpha=0.5)
case("leaky_relu", lambda x: F.leaky_relu(x, 0.25), kinks, negative_slope=0.25)
case("softplus", lambda x: F.softplus(x, 2, 5), kinks, beta=2, threshold=5)
case("hardtanh", lambda x: F.hardtanh(x, -0.5, 2), kinks, min_val=-0.5, max_val=2)
case("clip", lambda x: torch.clip(x, -0.5, 2), kinks, min=-0.5, max=2)
case("hard_sigmoid", lambda x: torch.clip(0.25 * x + 0.5, 0, 1), r(9), alpha=0.25, beta=0.5)
case("hardshrink", lambda x: F.hardshrink(x, 0.25), kinks, lambd=0.25)
case("softshrink", lambda x: F.softshrink(x, 0.25), kinks, lambd=0.25)

a, b = r(3, 4), r(4)
for name in "add sub mul div minimum maximum fmin fmax atan2".split():
    case(name, getattr(torch, name), a, b)
    case(name, getattr(torch, name), r(2, 1, 3), r(4, 1))
for name in "minimum maximum fmin fmax".split():
    case(name, getattr(torch, name), kinks, kinks.flip(0))
    case(name, getattr(torch, name), kinks, kinks)
case("add", lambda x, y: torch.add(x, y, alpha=0.5), a, b, alpha=0.5)
case("sub", lambda x, y: torch.sub(x, y, alpha=0.5), a, b, alpha=0.5)
case("add", lambda x: x + 3, a, other=3)
case("sub", lambda x: 3 - x, a, self=3)
case("mul", lambda x: x * 0.3, a, other=0.3)
case("div", lambda x: x / 0.3, a, other=0.3)
case("div", lambda x: 0.3 / x, a, self=0.3)
case("pow", torch.pow, p(3, 4), r(4))
case("pow", torch.pow, torch.tensor([0, 0, 2, -2], dtype=torch.float64), torch.tensor([0, 2, 0, 3], dtype=torch.float64), by=[0])
for e in (0, 1, 2, 3, -1.0):
    case("pow", lambda x: x**e, r(7), other=e)
case("pow", lambda x: x**0.5, p(7), other=0.5)
case("pow", lambda x: torch.pow(0.7, x), r(7), self=0.7)
case("fmod", torch.fmod, 5 * r(7), p(7))
case("remainder", torch.remainder, 5 * r(7), p(7))
case("prelu", lambda x, w: torch.where(x > 0, x, x * w), kinks, r(1))
case("where", lambda c, x, y: torch.where(c != 0, x, y), i(1, 0, 1), r(2, 3), r(3), by=[1, 2])

case("matmul", torch.matmul, r(3, 4), r(4, 5))
case("matmul", torch.matmul, r(4), r(4))
case("matmul", torch.matmul, r(4), r(4, 5))
case("matmul", torch.matmul, r(2, 3, 4), r(4))
case("matmul", torch.matmul, r(4), r(2, 4, 3))
case("matmul", torch.matmul, r(2, 3, 4), r(4, 5))
case("matmul", torch.matmul, r(2, 1, 3, 4), r(5, 4, 2))
case("mm", torch.mm, r(3, 4), r(4, 5))
case("bmm", torch.bmm, r(2, 3, 4), r(2, 4, 5))
case("linear", F.linear, r(2, 3, 4), r(5, 4), r(5))
case("linear", F.linear, r(4), r(5, 4))
case("addmm", lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), r(5), r(3, 4), r(4, 5), beta=0.5, alpha=2)
case("baddbmm", lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2), r(2, 3, 5), r(2, 3, 4), r(2, 4, 5), beta=0.5, alpha=2)
for ta in (False, True):
    for tb in (False, True):
        case("gemm", lambda x, y, c: 2 * (x.T if ta else x) @ (y.T if tb else y) + 0.5 * c, r(*((4, 3) if ta else (3, 4))), r(*((5, 4) if tb else (4, 5))), r(3, 1),
             transA=ta, transB=tb, alpha=2, beta=0.5)
case("einsum", lambda x, y: torch.einsum("ij,njk->nik", x, y), r(3, 3), r(2, 3, 4), equation="ij,njk->nik")
case("einsum", lambda x, y: torch.einsum("ij,jk", x, y), r(3, 2), r(2, 4), equation="ij,jk")
case("einsum", lambda x, y: torch.einsum("ijl,jk->k", x, y), r(3, 2, 2), r(2, 4), equation="ijl,jk->k")
case("einsum", lambda x, y, z: torch.einsum("ab,bc,cd->da", x, y, z), r(2, 3), r(3, 4), r(4, 5), equation="ab,bc,cd->da")
case("einsum", lambda x: torch.einsum("ij->j", x), r(3, 2), equation="ij->j")

for name in "sum mean logsumexp amax amin".split():
    f = getattr(torch, name)
    case(name, lambda x: f(x, dim=1), r(3, 4, 2), dim=1)
    case(name, lambda x: f(x, dim=(0, 2), keepdim=True), r(3, 4, 2), dim=[0, 2], keepdim=True)
ties = torch.tensor([[1, 2, 2], [-1, -1, -1]], dtype=torch.float64)
case("amax", lambda x: torch.amax(x, dim=1), ties, dim=1)
case("max", torch.max, ties)
case("max", lambda x: torch.max(x, dim=1), r(3, 4), dim=1)
case("min", lambda x: torch.min(x, dim=0, keepdim=True), r(3, 4), dim=0, keepdim=True)
case("var", lambda x: torch.var(x, dim=1), r(3, 4), dim=1)
case("var", lambda x: torch.var(x, dim=(0, 1), correction=0), r(3, 4), dim=[0, 1], correction=0)
case("std", lambda x: torch.std(x, dim=1), r(3, 4), dim=1)
for o in (1, 2):
    case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, o, dim=1), torch.cat([r(3, 4), torch.zeros(1, 4, dtype=torch.float64)]), ord=o, dim=1)
for o in ("inf", "-inf"):
    case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, float(o), dim=1), r(3, 4), ord=o, dim=1)
case("softmax", lambda x: torch.softmax(x, 1), r(3, 4), dim=1)
case("log_softmax", lambda x: torch.log_softmax(x, 0), r(3, 4), dim=0)
case("cumsum", lambda x: torch.cumsum(x, 1), r(3, 4), dim=1)
case("glu", lambda x: F.glu(x, 1), r(3, 4), dim=1)
case("sort", lambda x: torch.sort(x, 1, descending=True), r(3, 4), dim=1, descending=True)
case("topk", lambda x: torch.topk(x, 2, 0), r(3, 4), k=2, dim=0)

case("layer_norm", lambda x, w, b: F.layer_norm(x, (3, 4), w, b), r(2, 3, 4), r(3, 4), r(3, 4), normalized_shape=[3, 4])
case("layer_norm", lambda x: F.layer_norm(x, (4,)), r(2, 4), normalized_shape=[4])
case("rms_norm", lambda x, w: F.rms_norm(x, (4,), w, 1e-3), r(2, 3, 4), r(4), normalized_shape=[4], eps=1e-3)
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), r(2, 4, 3), r(4), r(4), num_groups=2)
case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), r(2, 4, 3, 2), r(4), r(4))
case("batch_norm", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), r(2, 4, 3), r(4), r(4), r(4), p(4), by=[0, 1, 2])

case("reshape", lambda x: x.reshape(2, 6), r(3, 4), shape=[2, -1])
case("flatten", torch.flatten, r(3, 4))
case("unflatten", lambda x: x.unflatten(1, (2, 2)), r(3, 4), dim=1, sizes=[2, 2])
case("squeeze", torch.squeeze, r(3, 1, 4))
case("unsqueeze", lambda x: x.unsqueeze(1), r(3, 4), dim=1)
case("permute", lambda x: x.permute(2, 0, 1), r(2, 3, 4), dims=[2, 0, 1])
case("permute", lambda x: x.permute(2, 1, 0), r(2, 3, 4))
case("transpose", lambda x: x.transpose(0, -1), r(2, 3, 4), dim0=0, dim1=-1)
case("expand", lambda x: x.expand(2, 3, 4), r(3, 1), size=[2, 3, 4])
case("repeat", lambda x: x.repeat(2, 1, 3), r(3, 2), repeats=[2, 1, 3])
case("repeat_interleave", lambda x: torch.repeat_interleave(x, 3, 1), r(2, 2), repeats=3, dim=1)
case("flip", lambda x: x.flip(0), r(3, 2), dims=[0])
case("roll", lambda x: x.roll((1, 5), (0, 1)), r(3, 4), shifts=[1, 5], dims=[0, 1])
case("tril", lambda x: x.tril(1), r(3, 4), diagonal=1)
case("triu", lambda x: x.triu(), r(3, 4))
case("cat", lambda x, y: torch.cat([x, y], 1), r(2, 3), r(2, 1), dim=1)
case("stack", lambda x, y: torch.stack([x, y], -1), r(2, 3), r(2, 3), dim=-1)
case("split", lambda x: x.split([1, 3], 1), r(2, 4), split_size=[1, 3], dim=1)
case("chunk", lambda x: x.chunk(2, 1), r(2, 3), chunks=2, dim=1)
case("unbind", lambda x: x.unbind(1), r(2, 3), dim=1)
case("slice", lambda x: x[1:, 1:3], r(3, 4), start=[1, 1], end=[5, -1], dim=[0, 1])
case("slice", lambda x: x[:, ::2], r(3, 5), step=[2], dim=[1])
case("select", lambda x: x.select(1, -2), r(3, 4), dim=1, index=-2)
case("pad", lambda x: F.pad(x, (1, -1, 2, 0)), r(3, 4), before=[2, 1], after=[0, -1])

case("gather", lambda x, j: torch.gather(x, 1, j), r(2, 3), torch.tensor([[0, 0, 2], [1, 1, 1]]), dim=1)
case("index_select", lambda x, j: x.index_select(1, j), r(2, 3), i(2, 2, 0, 1), dim=1)
case("embedding", lambda w, j: F.embedding(j, w, padding_idx=1), r(4, 2), torch.tensor([[0, 1], [3, 3]]), padding_idx=1)
case("index", lambda x, j, k: x[j, k], r(3, 4, 2), torch.tensor([[0], [2]]), i(1, 1, -1))
case("gather_nd", lambda x, j: x[j[:, 0], j[:, 1]], r(3, 4, 2), torch.tensor([[0, 1], [2, 2], [0, 1]]))
case("scatter_add", lambda x, j, s: x.scatter_add(0, j, s[:2]), r(3, 2), torch.tensor([[0, 0], [0, 2]]), r(3, 2), dim=0)
case("scatter_reduce", lambda x, j, s: x.scatter_reduce(0, j, s, "sum"), r(3, 2), torch.tensor([[0, 0], [0, 2]]), r(2, 2), dim=0)
case("index_add", lambda x, j, s: x.index_add(1, j, s), r(2, 3), i(2, 2, 0, 2), r(2, 4), dim=1)
case("scatter", lambda x, j, s: x.scatter(1, j, s[:, :2]), r(2, 4), torch.tensor([[0, 2], [3, 1]]), r(2, 3), dim=1)
case("index_put", lambda x, j, s: x.index_put((j,), s), r(4, 2), i(2, 0), r(1, 2))
case("index_put", lambda x, j, s: x.index_put((j,), s, accumulate=True), r(4, 2), i(2, 0, 2), r(2), accumulate=True)
case("scatter_nd", lambda x, j, s: x.index_put((j[:, 0],), s), r(4, 2), torch.tensor([[2], [0]]), r(2, 2))
case("scatter_nd", lambda x, j, s: x.index_put((j[:, 0],), s, accumulate=True), r(4, 2), torch.tensor([[2], [2]]), r(2, 2), reduce="sum")
case("cast", lambda x: x * 1, r(3), dtype="float64")
case("identity", lambda x: x * 1, r(3))
case("swish", lambda x: x * torch.sigmoid(0.5 * x), kinks, alpha=0.5)

case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), r(3, 2, 4), r(2), r(2), training=True, eps=1e-5)
case("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), r(4, 2, 2, 3), training=True, eps=1e-5)
case("conv2d", F.conv2d, r(2, 3, 5, 6), r(4, 3, 3, 2), r(4))
case("conv2d", lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2), r(2, 4, 8, 7), r(6, 2, 3, 2), stride=[2, 3], padding=[1, 2],
     dilation=[2, 1], groups=2)
case("conv2d", lambda x, w: F.conv2d(x, w, stride=2, groups=3), r(1, 3, 6, 8), r(3, 1, 3, 3), stride=2, groups=3)
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), r(2, 2, 6, 7), kernel_size=3, stride=2, padding=1)
case("max_pool2d", lambda x: F.max_pool2d(x, 2), r(2, 4, 4), kernel_size=2)
attend = F.scaled_dot_product_attention
case("scaled_dot_product_attention", attend, r(2, 2, 4, 3), r(2, 2, 5, 3), r(2, 2, 5, 2))
case("scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3), r(4, 3), r(4, 3), r(4, 3), is_causal=True, scale=0.3)
case("scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, enable_gqa=True), r(1, 4, 3, 2), r(1, 2, 5, 2), r(1, 2, 5, 2), enable_gqa=True)
case("scaled_dot_product_attention", attend, r(3, 2, 4), r(3, 5, 4), r(3, 5, 4), r(2, 5))
case("scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, m != 0), r(2, 3, 4), r(2, 5, 4), r(2, 5, 4), torch.tensor([[1, 1, 0, 0, 1]] * 3))
case("conv_transpose2d", F.conv_transpose2d, r(2, 3, 4, 3), r(3, 4, 3, 2), r(4))
case("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 2), output_padding=(1, 2), groups=2, dilation=(2, 1)), r(2, 4, 5, 4), r(4, 3, 3, 4),
     stride=[2, 3], padding=[1, 2], output_padding=[1, 2], groups=2, dilation=[2, 1])
case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), r(2, 3, 5, 4), kernel_size=2)
case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), r(3, 6, 7), kernel_size=3, stride=2, padding=1)
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 1)), r(2, 3, 6, 5), output_size=[2, 1])

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gradients.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
