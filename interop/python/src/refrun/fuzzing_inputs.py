"""Which inputs a search tries: sizes at the edges of tiles, formats, places in memory and numbers."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from .case import CaseError
from .hard_inputs import KINDS, _numbers

DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
LAYOUTS = ("contiguous", "transposed", "every second", "odd start", "repeated")
VALUES = (*KINDS, "equal rows")
# How much poison lies before and after an input: more than the rest of a tile.
_GUARD = 4096

# The shapes of the operations that have a name, in the order of ATen's arguments.
SHAPES: Dict[str, Sequence[str]] = {
    "layer_norm": ("B N", "N", "N"),
    "rms_norm": ("B N", "N"),
    "group_norm": ("B 6 H W", "6", "6"),
    "instance_norm": ("B C H W", "C", "C"),
    "batch_norm": ("B C H W", "C", "C", "C", "C: positive"),
    "matmul": ("M K", "K N"),
    "mm": ("M K", "K N"),
    "bmm": ("B M K", "B K N"),
    "linear": ("B K", "N K", "N"),
    "addmm": ("M N", "M K", "K N"),
    "scaled_dot_product_attention": ("B H Q D", "B H K D", "B H K D"),
    "conv1d": ("B C L", "O C 3", "O"),
    "conv2d": ("B C H W", "O C 3 3", "O"),
    "cross_entropy": ("B C", "B: <C"),
    "embedding": ("V D", "B N: <V"),
    "index_select": ("V D", "N: <V"),
    **{op: ("B N", "B N") for op in ("swiglu", "geglu", "add", "sub", "mul", "div", "maximum", "minimum")},
}


class Spec(NamedTuple):
    """The shape of an input: names of sizes and sizes, and what its numbers are: "", "mask", "positive" or "<SIZE"."""

    dims: Tuple[Union[str, int], ...]
    role: str

    def shape(self, sizes: Mapping[str, int]) -> Tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)


def parse(shape: str) -> Spec:
    """ "B N", "K 3 3", "N: <V" of whole numbers below V, "Q K: mask" of truth values, "C: positive"."""
    dims, _, role = shape.partition(":")
    role = role.replace(" ", "")
    if role not in ("", "mask", "positive") and not role.startswith("<"):
        raise CaseError(f"shapes: {shape!r}: want names and sizes, then nothing, ': mask', ': positive' or ': <SIZE'")
    return Spec(tuple(int(d) if d.isdigit() else d for d in dims.split()), role)


class Group(NamedTuple):
    """Inputs of one shape, format and place, whose numbers change."""

    sizes: Mapping[str, int]
    dtype: str
    layout: str
    kinds: Tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={n}" for name, n in self.sizes.items())
        return f"{sizes}, {self.dtype}, {self.layout}, {' then '.join(self.kinds)}"


class Room:
    """How large inputs may be: the numbers of the largest, and the product of all sizes, such as M N K of a matrix
    product. A question of 2^14 numbers is answered within a second; a kernel that takes long for a call gets smaller
    ones."""

    def __init__(self, seconds: float):
        self.largest, self.longest = 1 << 14, seconds / 15  # some calls have to fit, of other sizes and kinds

    def took(self, seconds: float, numbers: int) -> None:
        """That a call with so many numbers took so long; below a quarter of the longest it may be other things. With
        512 numbers there are still tiles on two axes."""
        if seconds > self.longest / 4 > 0:
            self.largest = min(self.largest, max(512, int(numbers * self.longest / seconds)))

    def has(self, specs: Sequence[Spec], sizes: Mapping[str, int]) -> bool:
        numbers, work = max(math.prod(s.shape(sizes)) for s in specs), math.prod(max(n, 1) for n in sizes.values())
        return numbers <= self.largest and work <= 32 * self.largest


def groups(
    specs: Sequence[Spec], dtypes: Sequence[str], layouts: Sequence[str], tiles: Sequence[int], seed: int, room: Room
) -> Iterator[Group]:
    """Groups without end: some sizes first that a kernel cannot do without, then sizes at random from the edges of
    tiles, primes, 1 and 0."""
    r = np.random.default_rng(seed)
    kinds = list(VALUES)
    for k, sizes in enumerate(_sizes(specs, tiles, r, room)):
        some = [kinds[(3 * k + i) % len(kinds)] for i in range(4)]
        yield Group(
            sizes,
            dtypes[k % len(dtypes)],
            layouts[k // len(dtypes) % len(layouts)],
            ("normal", *(x for x in some if x != "normal")),
            seed,
        )


def _sizes(specs: Sequence[Spec], tiles: Sequence[int], r: np.random.Generator, room: Room) -> Iterator[Dict[str, int]]:
    names = [d for d in dict.fromkeys(d for s in specs for d in s.dims) if isinstance(d, str)]
    primes, edges = [2, 3, 5, 7, 11, 13], sorted({n for t in tiles for n in (t - 1, t, t + 1) if n > 0})
    yield {n: primes[i % len(primes)] for i, n in enumerate(names)}
    for large in (
        sorted(tiles)[(len(tiles) - 1) // 2] + 1,
        edges[-1],
    ):  # each is larger than half of the tiles, then than all
        for name in names:
            yield _within(room, specs, {n: large if n == name else 3 for n in names})
    if not names:
        while True:
            yield {}
    while True:
        pools = [edges, edges, primes, primes, [1], [0] if r.random() < 0.2 else [1]]
        yield _within(room, specs, {n: int(r.choice(pools[r.integers(len(pools))])) for n in names})


def _within(room: Room, specs: Sequence[Spec], sizes: Dict[str, int]) -> Dict[str, int]:
    """Sizes with the largest one halved, and made odd, until they fit."""
    while not room.has(specs, sizes):
        name = max(sizes, key=lambda n: sizes[n])
        sizes = {**sizes, name: sizes[name] // 2 | 1}
    return sizes


def values(spec: Spec, sizes: Mapping[str, int], kind: str, dtype: str, r: np.random.Generator) -> torch.Tensor:
    """The numbers of one input."""
    shape = spec.shape(sizes)
    if spec.role == "mask":
        return torch.from_numpy(_mask(shape, kind, r))
    if spec.role.startswith("<"):
        below = sizes[spec.role[1:]] if not spec.role[1:].isdigit() else int(spec.role[1:])
        return torch.from_numpy(_indices(shape, kind, below, r))
    of = "float32" if dtype == "float64" else dtype
    if kind == "equal rows":
        x = np.broadcast_to(_numbers("normal", shape[-1:], r, of), shape)
    else:
        x = _numbers(kind, shape, r, of)
    if spec.role == "positive":
        x = np.abs(x) + np.float32(0.5)
    if dtype == "float64":  # numbers that float32 does not have
        x = np.asarray(x, np.float64) * (1 + 2.0**-30)
    return torch.from_numpy(np.array(x)).to(DTYPES[dtype])


def _indices(shape: Tuple[int, ...], kind: str, below: int, r: np.random.Generator) -> np.ndarray:
    """Uniform ones, of every second kind as words in a text are: the k-th of them one time in k (Zipf)."""
    if below == 0:
        return np.zeros(shape, np.int64)
    if kind == "equal rows":
        return np.full(shape, below - 1, np.int64)
    if VALUES.index(kind) % 2:
        return np.asarray(np.minimum(np.exp(r.random(shape) * math.log(below + 1)).astype(np.int64) - 1, below - 1))
    return r.integers(0, below, shape)


def _mask(shape: Tuple[int, ...], kind: str, r: np.random.Generator) -> np.ndarray:
    """At random, or long: all but the first of a row. The first is always there, so that no row is empty."""
    mask = r.random(shape) < 0.5 if VALUES.index(kind) % 2 == 0 else np.zeros(shape, bool)
    mask[..., :1] = True
    return mask


class Memory:
    """One tensor: a view, laid out in a buffer whose other numbers are poison."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, layout: str, device: Any, poison: float = math.nan):
        self.shape = tuple(shape)
        fill = poison if dtype.is_floating_point else 0
        length = 2 * math.prod(self.shape) + 2 * _GUARD
        self.all = torch.full((length,), fill, dtype=dtype, device=device)
        self.view = self._lay(self.all, layout)
        self.inside = torch.zeros(length, dtype=torch.bool)
        self.inside[self._lay(torch.arange(length), layout).flatten()] = True

    def _lay(self, buffer: torch.Tensor, layout: str) -> torch.Tensor:
        kept = list(self.shape)
        if layout == "transposed":
            kept[-2:] = kept[:-3:-1]
        elif layout == "every second" and kept:
            kept[-1] *= 2
        elif layout == "repeated" and len(kept) > 1 and kept[0] > 0:
            kept[0] = 1
        x = buffer[_GUARD + (layout == "odd start") :][: math.prod(kept)].view(kept)
        if layout == "transposed" and len(kept) > 1:
            return x.transpose(-1, -2)
        return x[..., ::2] if layout == "every second" and kept else x.expand(self.shape)

    def write(self, numbers: torch.Tensor) -> None:
        """Puts numbers there: of an axis that repeats one place, the first ones."""
        repeats = len(self.shape) > 1 and self.view.stride(0) == 0
        (self.view[:1] if repeats else self.view).copy_(numbers[:1] if repeats else numbers)
        self.before = self.all.clone()
        self.given = self.view.detach().cpu().clone()

    def changed(self) -> Optional[str]:
        """Where a kernel has written since: "outside" of the view, "inside", or nowhere."""
        if torch.equal(bits(self.all), bits(self.before)):
            return None
        differs = (bits(self.all) != bits(self.before)).cpu()
        return "outside" if bool(differs[~self.inside].any()) else "inside"


def bits(x: torch.Tensor, in_place: bool = False) -> torch.Tensor:
    """Whole numbers that are equal if the numbers' bits are."""
    x = x if in_place else x.detach().contiguous()
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
