"""What PyTorch returns for operations that move numbers: pytorch.json.

    python3 make.py        writes it beside this script; needs torch 2.9.1

Each line is one call: the operation's name and attributes as the graph has them, the
inputs, and the outputs or the error. Numbers are float64, small enough for every sum to
be exact; "count" stands for 1, 2, 3, ..., null for NaN; "int" marks whole numbers.
"""

import json
import os
import random

import torch
import torch.nn.functional as F

random.seed(7)
torch.manual_seed(7)
lines = []


def count(*shape):
    n = 1
    for d in shape:
        n *= d
    return torch.arange(1, n + 1, dtype=torch.float64).reshape(shape)


def halves(*shape):
    return torch.randint(-9, 10, shape).double() / 2


def tensor(t):
    flat = t.flatten().tolist()
    of = {"shape": list(t.shape)}
    if not t.dtype.is_floating_point:
        of["int"] = True
    elif flat == list(range(1, len(flat) + 1)):
        return {**of, "count": True}
    return {**of, "data": [None if v != v else int(v) if v == int(v) else v for v in flat]}


def call(op, attributes, f, *inputs):
    line = {"op": op, "attributes": attributes, "in": [tensor(t) for t in inputs]}
    try:
        out = f(*inputs)
        line["out"] = [tensor(t) for t in (out if isinstance(out, (tuple, list)) else [out])]
    except (RuntimeError, IndexError, ValueError) as e:
        line["error"] = str(e).splitlines()[0][:80]
    lines.append(line)


def shape(least=0, most=4, largest=4):
    return [random.choice([0, 1, 1, 2, 2, 3, 3, largest]) if random.random() < 0.5 else random.randint(1, largest)
            for _ in range(random.randint(least, most))]


def some(least=0, most=3, largest=4):
    return count(*shape(least, most, largest))


def axis(x, wrong=0.05):
    n = max(x.dim(), 1)
    return random.randint(-n - 1, n) if random.random() < wrong else random.randint(-n, n - 1)


def index(n, *s):
    return torch.randint(0, max(n, 1), s)


for _ in range(11):
    x = some()
    n = x.numel()
    sizes = random.choice([[-1], [n], [1, n], [2, -1], [3, -1], [-1, 0], [-1, 1, 2], [0, 3]])
    call("reshape", {"shape": sizes, "allowzero": True}, lambda x: x.reshape(sizes), x)
    a, b = axis(x), axis(x)
    call("flatten", {"start_dim": a, "end_dim": b}, lambda x: x.flatten(a, b), x)
    y = some(1)
    a = axis(y)
    sizes = random.choice([[1, -1], [2, -1], [-1], [2, 2], [1, 3]])
    call("unflatten", {"dim": a, "sizes": sizes}, lambda x: x.unflatten(a, sizes), y)
    axes = random.sample(range(max(x.dim(), 1)), random.randint(0, x.dim()))
    call("squeeze", {"dim": axes}, lambda x: x.squeeze(tuple(axes)) if axes else x.squeeze(), x)
    a = random.randint(-x.dim() - 2, x.dim() + 1)
    call("unsqueeze", {"dim": a}, lambda x: x.unsqueeze(a), x)
    order = random.sample(range(x.dim()), x.dim())
    order = [o - x.dim() if random.random() < 0.3 else o for o in order]
    if order:
        call("permute", {"dims": order}, lambda x: x.permute(order), x)
    a, b = axis(x), axis(x)
    call("transpose", {"dim0": a, "dim1": b}, lambda x: x.transpose(a, b), x)
    size = [random.randint(0, 2) for _ in range(random.randint(0, 1))] + [
        -1 if random.random() < 0.5 else d if d != 1 else random.randint(1, 3) for d in x.shape]
    call("expand", {"size": size}, lambda x: x.expand(size), x)
    times = [random.randint(0, 2) for _ in range(x.dim() + random.randint(0, 1))]
    call("repeat", {"repeats": times}, lambda x: x.repeat(times), x)
    a = random.choice([None, axis(x)])
    t = random.randint(0, 3)
    call("repeat_interleave", {"repeats": t, "dim": a}, lambda x: x.repeat_interleave(t, a), x)
    axes = random.sample(range(x.dim()), random.randint(0, x.dim()))
    call("flip", {"dims": axes}, lambda x: x.flip(axes), x)
    axes = [axis(x, 0) for _ in range(random.randint(0, 2))] if x.dim() else []
    shifts = [random.randint(-7, 7) for _ in range(max(len(axes), 1))]
    call("roll", {"shifts": shifts, "dims": axes}, lambda x: x.roll(shifts, axes), x)
    m, d = some(1, 3), random.randint(-4, 4)
    call("tril", {"diagonal": d}, lambda x: x.tril(d), m)
    call("triu", {"diagonal": d}, lambda x: x.triu(d), m)
    a = axis(y)
    start, end, step = random.choice([None, -5, -2, 0, 1, 9]), random.choice([None, -5, -1, 0, 2, 2**63 - 1]), random.randint(0, 3)
    call("slice", {"dim": a, "start": start, "end": end, "step": step},
         lambda x: torch.ops.aten.slice.Tensor(x, a, start, end, step), y)
    i = random.randint(-4, 3)
    call("select", {"dim": a, "index": i}, lambda x: x.select(a, i), y)
    parts = [random.choice([count(*[d if k != 1 else random.randint(0, 2) for k, d in enumerate((2, 1, 2))]) for _ in range(3)])
             for _ in range(random.randint(1, 3))]
    call("cat", {"dim": 1}, lambda *x: torch.cat(x, 1), *parts)
    a = axis(x[None])
    call("stack", {"dim": a}, lambda *x: torch.stack(x, a), x, x)
    a = axis(y)
    s = random.choice([0, 1, 2, 3, 5, [1, 1], [2, 1], [0, 3], [1, 1, 1]])
    call("split", {"split_size": s, "dim": a}, lambda x: x.split(s, a), y)
    s = random.randint(0, 5)
    call("chunk", {"chunks": s, "dim": a}, lambda x: x.chunk(s, a), y)
    if y.shape[a if -y.dim() <= a < y.dim() else 0]:
        call("unbind", {"dim": a}, lambda x: x.unbind(a), y)
    r = random.randint(1, 3)
    z = count(random.randint(0, 1), random.choice([r * r, 3]), 2, 1)
    call("pixel_shuffle", {"upscale_factor": r}, lambda x: F.pixel_shuffle(x, r), z)
    z = count(1, 2, random.choice([r, 2 * r, 3]), r)
    call("pixel_unshuffle", {"downscale_factor": r}, lambda x: F.pixel_unshuffle(x, r), z)

for mode in ["constant", "reflect", "replicate", "circular"]:
    for _ in range(11):
        z = count(1, 1, random.randint(1, 3), random.randint(2, 3))
        p = [random.randint(-1, 2) for _ in range(4)]
        if mode == "circular" and any(d + min(a, 0) + min(b, 0) < 1 or max(a, b) > d + min(a, 0) + min(b, 0)
                                      for d, a, b in [(z.shape[2], p[2], p[3]), (z.shape[3], p[0], p[1])]):
            continue  # PyTorch returns what was in the memory
        call("pad", {"before": [p[2], p[0]], "after": [p[3], p[1]], "mode": mode, "value": 7},
             lambda x: F.pad(x, p, mode, 7 if mode == "constant" else None), z)

for _ in range(8):
    x = some(1)
    a = axis(x)
    n = x.shape[a] if -x.dim() <= a < x.dim() else 1
    i = index(n, *[random.randint(0, d) if k != a % x.dim() else random.randint(0, 4) for k, d in enumerate(x.shape)])
    call("gather", {"dim": a}, lambda x, i: x.gather(a, i), x, i)
    k = index(n, random.randint(0, 4))
    call("index_select", {"dim": a}, lambda x, i: x.index_select(a, i), x, k)
    table = count(random.randint(1, 4), random.randint(1, 3))
    k = index(len(table), *shape(0, 2, 3))
    call("embedding", {}, lambda x, i: F.embedding(i, x), table, k)
    z = count(3, 2, 2)
    i, j = index(3, 2, 1) - random.choice([0, 3]), index(2, 3)
    call("index", {}, lambda x, i, j: x[i, j], z, i, j)
    call("index", {}, lambda x, i: x[i], z, i)
    # what is added, and where
    z, src = halves(3, 4), halves(5, 4)
    i = index(3, 5, random.randint(1, 4))
    call("scatter_add", {"dim": 0}, lambda z, i, s: z.scatter_add(0, i, s), z, i, src)
    i = torch.stack([torch.randperm(4)[:3] for _ in range(2)])
    call("scatter", {"dim": -1}, lambda z, i, s: z.scatter(-1, i, s), z, i, src)
    for how in ["sum", "mean", "amax", "amin"]:
        own = random.random() < 0.5
        i = torch.arange(4).repeat_interleave(2)[torch.randperm(8)][None].repeat(2, 1)  # two to each: means are exact
        src = halves(2, 8)
        call("scatter_reduce", {"dim": 1, "reduce": how, "include_self": own and how != "mean"},
             lambda z, i, s: z.scatter_reduce(1, i, s, how, include_self=own and how != "mean"), z, i, src)
        if how != "sum":
            k = index(4, 6) if how != "mean" else i[0]
            src = halves(3, len(k))
            call("index_reduce", {"dim": 1, "reduce": how, "include_self": own and how != "mean"},
                 lambda z, i, s: z.index_reduce(1, i, s, how, include_self=own and how != "mean"), z, k, src)
    k, src = index(4, 7), halves(3, 7)
    call("index_add", {"dim": 1}, lambda z, i, s: z.index_add(1, i, s), z, k, src)
    i, j = index(3, 4), index(4, 2, 1) - 4
    call("index_put", {"accumulate": True}, lambda z, i, j, v: z.index_put((i, j), v, accumulate=True), z, i, j, halves(2, 1))
    i = torch.randperm(3)[:2]
    call("index_put", {}, lambda z, i, v: z.index_put((i,), v), z, i, halves(4))
    # bags
    table, k, w = halves(4, 3), index(4, 6), halves(6)
    offsets = torch.tensor(random.choice([[0, 2, 4], [0, 0, 2, 6], [0, 4]]))
    mode, last = random.choice(["sum", "mean", "max"]), random.random() < 0.5
    if mode == "mean":
        k, offsets, last = k[:4], torch.tensor([0, 2]), False
    if last:
        offsets = torch.cat([offsets[:-1], torch.tensor([6])])
    call("embedding_bag", {"mode": mode, "include_last_offset": last},
         lambda t, k, o: F.embedding_bag(k, t, o, mode=mode, include_last_offset=last), table, k, offsets)
    row = random.randint(-4, 3)
    call("embedding_bag", {"mode": "sum", "padding_idx": row},
         lambda t, k, w: F.embedding_bag(k, t, mode="sum", per_sample_weights=w, padding_idx=row), table, k.reshape(2, -1),
         w[:len(k)].reshape(2, -1))
    # order
    z = torch.tensor([[1., 3, float("nan"), 3, -2], [0, 0, 5, 5, 1], [2, float("nan"), 2, float("nan"), 1]]).double()[torch.randperm(3)][:, torch.randperm(5)]
    a, keep = random.choice([None, 0, 1, -1]), random.random() < 0.5
    call("argmax", {"dim": a, "keepdim": keep}, lambda x: x.argmax(a, keep), z)
    call("argmin", {"dim": a, "keepdim": keep}, lambda x: x.argmin(a, keep), z)
    a, down = random.choice([0, 1, -2]), random.random() < 0.5
    call("sort", {"dim": a, "descending": down}, lambda x: tuple(x.sort(stable=True, dim=a, descending=down)), z)
    z = torch.randperm(12).double().reshape(3, 4)  # PyTorch does not say which of equal numbers it takes
    t = random.randint(-1, 5)
    call("topk", {"k": t, "dim": a, "largest": down}, lambda x: tuple(x.topk(t, a, down)), z)
    k = index(3, *shape(0, 2, 3))
    call("one_hot", {"num_classes": 3}, lambda k: F.one_hot(k, 3), k)

number = torch.tensor(3.0).double()
for op, f in {"argmax": lambda x: x.argmax(0), "argmin": lambda x: x.argmin(0)}.items():
    call(op, {"dim": 0}, f, number)
call("sort", {}, lambda x: tuple(x.sort()), number)
call("topk", {"k": 1}, lambda x: tuple(x.topk(1)), number)
for how in ["amax", "amin"]:
    nan = torch.tensor([1.0, float("nan")]).double()
    call("scatter_reduce", {"dim": 0, "reduce": how}, lambda z, i, s: z.scatter_reduce(0, i, s, how), halves(2), torch.tensor([1, 0]), nan)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch.json"), "w") as f:
    f.write('{"torch": "%s", "calls": [\n' % torch.__version__)
    f.write(",\n".join(json.dumps(l, separators=(",", ":")) for l in lines) + "\n]}\n")
