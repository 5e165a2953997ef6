"""Operations on complex numbers: pairs of numbers, in a last axis of 2, that the axes of operations do not count."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from .aten import RULES, NoRule, Rule, claim, einsum, hand_on, inputs, rule, to, transposed, where

COMPLEX = set()


def pairs(*overloads: str) -> Callable[[Rule], Rule]:
    """A rule that knows of pairs."""
    COMPLEX.update(f"aten.{o}" for o in overloads)
    return rule(*overloads)


def pair(c: Any, v: Any) -> Any:
    """The pairs that a complex value is; a constant becomes one of real numbers, and a number a constant."""
    if isinstance(v, complex):
        v = torch.tensor(v, dtype=torch.complex64)
    if isinstance(v, torch.Tensor) and v.is_complex():
        return torch.view_as_real(v.resolve_conj().resolve_neg()).contiguous()
    return v


def spread(c: Any, v: Any, part: str = "real") -> Any:
    """A real value beside pairs: with a last axis of 1."""
    shape = [*c.shape(v), 1]
    return (
        v.reshape(shape)
        if isinstance(v, torch.Tensor)
        else c.emit("reshape", [v], {"shape": shape, "allowzero": True}, part=part)
    )


def widened(c: Any, v: Any, part: str = "wide") -> Any:
    """Any value as pairs: a real one has imaginary parts of 0."""
    if not c.tensor(v):
        return pair(c, complex(v))
    if c.is_complex(v):
        return pair(c, v)
    v = c.cast(v, torch.float32) if c.dtype(v) != torch.float64 else v
    zero = torch.zeros(c.shape(v), dtype=c.dtype(v))
    made = c.emit("stack", [v, zero], {"dim": -1}, part=part, types=[([*c.shape(v), 2], c.dtype(v))])
    c.complexes.add(made)
    return made


def lifted(*overloads: str) -> None:
    """Operations that do the same to real and to imaginary parts: axes are counted without that of the parts."""
    for name in overloads:
        pairs(name)(_lifted(RULES[f"aten.{name}"]))


def _lifted(plain: Rule) -> Rule:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        tensors = [v for x in a.values() for v in (x if isinstance(x, (list, tuple)) else [x]) if c.tensor(v)]
        complexes = [v for v in tensors if c.is_complex(v)]
        if not complexes:
            return plain(c, a)
        rank = len(c.shape(pair(c, complexes[0]))) - 1 + (".stack." in c.target)
        of = {k: _of_pairs(c, k, v, rank) for k, v in a.items()}
        if c.target in ("aten.sum.default", "aten.mean.default"):
            of["dim"] = list(range(rank))
        return plain(c, of)

    return f


def _of_pairs(c: Any, key: str, v: Any, rank: int) -> Any:
    """An argument of an operation on numbers as that of the one on pairs."""
    if isinstance(v, (list, tuple)) and any(c.tensor(x) for x in v) and key == "tensors":
        return [widened(c, x) for x in v]
    if key in ("dim", "dim0", "dim1", "dims", "source", "destination"):
        if v is None or v == []:
            return list(range(rank))
        of = [d % rank for d in v] if isinstance(v, (list, tuple)) else v % rank
        return [*of, rank] if key == "dims" and ".permute." in c.target else of
    if key == "pad":
        if any(c.tensor(x) for x in v):
            raise NoRule("a padding that is no number: want numbers")
        return [0, 0, *v]
    if key == "repeats" and isinstance(v, (list, tuple)):
        return [*v, 1]
    if key in ("src", "source") and c.tensor(v) and not c.is_complex(v):
        return widened(c, v)
    return pair(c, v) if c.tensor(v) or isinstance(v, complex) else v


MOVES = """view.default reshape.default _unsafe_view.default view_as.default reshape_as.default unflatten.int
flatten.using_ints squeeze.default squeeze.dim squeeze.dims unsqueeze.default transpose.int swapaxes.default
permute.default movedim.int movedim.intlist expand.default expand_as.default broadcast_to.default repeat.default
tile.default flip.default roll.default select.int slice.Tensor narrow.default slice_scatter.default
select_scatter.default copy.default cat.default concat.default concatenate.default stack.default split.Tensor
split_with_sizes.default split.sizes chunk.default unbind.int constant_pad_nd.default pad.default
index_select.default index.Tensor lift_fresh_copy.default"""
lifted(*MOVES.split(), "neg.default", "cumsum.default", "sum.default", "sum.dim_IntList", "mean.default", "mean.dim")


@pairs("t.default", "mT.default", "adjoint.default", "mH.default", "matrix_H.default", "numpy_T.default")
def transposed_pairs(c: Any, a: Dict[str, Any]) -> Any:
    x, turned = a["self"], c.target.split(".")[1] in ("adjoint", "mH", "matrix_H")
    if not c.is_complex(x):
        return transposed(c, a)
    x = pair(c, x)
    rank = len(c.shape(x)) - 1
    if rank < 2:
        raise NoRule(f"of {rank} axes: want two or more")
    types = [([*c.shape(x)[:-3], c.shape(x)[-2], c.shape(x)[-3], 2], c.dtype(x))]
    y = c.emit("transpose", [x], {"dim0": rank - 2, "dim1": rank - 1}, part="turned" if turned else None, types=types)
    return conjugate(c, {"self": y}) if turned else y


@pairs("_conj.default", "conj.default", "_conj_physical.default", "conj_physical.default")
def conjugate(c: Any, a: Dict[str, Any]) -> Any:
    """The imaginary parts change their sign, which rounds nothing."""
    x = pair(c, a["self"])
    return c.emit("mul", [x, torch.tensor([1.0, -1.0], dtype=c.dtype(x))], {})


@pairs("view_as_real.default", "view_as_complex.default")
def as_pairs(c: Any, a: Dict[str, Any]) -> Any:
    x = pair(c, a["self"])
    return c.emit("reshape", [x], {"shape": c.shape(x), "allowzero": True})  # it counts as another value


pairs("_assert_tensor_metadata.default")(claim)
pairs(
    "clone.default",
    "contiguous.default",
    "detach.default",
    "detach_.default",
    "alias.default",
    "resolve_conj.default",
    "resolve_neg.default",
)(hand_on)


@pairs("complex.default")
def complex_(c: Any, a: Dict[str, Any]) -> Any:
    return c.emit("stack", [a["real"], a["imag"]], {"dim": -1})


@pairs("real.default", "imag.default")
def part(c: Any, a: Dict[str, Any]) -> Any:
    if not c.is_complex(a["self"]):
        return a["self"]
    return c.emit("select", [pair(c, a["self"])], {"dim": -1, "index": 0 if "real" in c.target else 1})


@pairs("abs.default")
def absolute(c: Any, a: Dict[str, Any]) -> Any:
    """Of a pair, the length: one function of both parts."""
    x = a["self"]
    if not c.is_complex(x):
        return c.emit("abs", [x], {})
    return c.emit("linalg_vector_norm", [pair(c, x)], {"ord": 2, "dim": [-1]})


@pairs("angle.default")
def angle(c: Any, a: Dict[str, Any]) -> Any:
    if not c.is_complex(a["self"]):
        raise NoRule("of real numbers: want torch.where")
    x = pair(c, a["self"])
    types = [(c.shape(x)[:-1], c.dtype(x))]
    re, im = (
        c.emit("select", [x], {"dim": -1, "index": k}, part=name, types=types)
        for k, name in enumerate(("real", "imag"))
    )
    return c.emit("atan2", [im, re], {})


@pairs("polar.default")
def polar(c: Any, a: Dict[str, Any]) -> Any:
    """Cosine and sine, and their products with the length."""
    shape = [int(n) for n in c.result().shape]
    of = [
        c.emit(
            "mul",
            [a["abs"], c.emit(f, [a["angle"]], {}, part=f)],
            {},
            part=f"{f}.times",
            types=[(shape, c.dtype(a["abs"]))],
        )
        for f in ("cos", "sin")
    ]
    return c.emit("stack", of, {"dim": -1})


def _exponential(plain: Rule) -> Rule:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        """Cosine and sine of the imaginary part, times e to the real one."""
        if not c.is_complex(a["self"]):
            return plain(c, a)
        x = pair(c, a["self"])
        types = [(c.shape(x)[:-1], c.dtype(x))]
        re, im = (c.emit("select", [x], {"dim": -1, "index": k}, part=name, types=types) for k, name in enumerate(("real", "imag")))
        size = c.emit("exp", [re], {}, part="exp", types=types)
        of = [c.emit("mul", [size, c.emit(g, [im], {}, part=g, types=types)], {}, part=f"{g}.times", types=types) for g in ("cos", "sin")]
        return c.emit("stack", of, {"dim": -1})

    return f


pairs("exp.default")(_exponential(RULES["aten.exp.default"]))


@pairs("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "type_as.default", "to.other")
def to_pairs(c: Any, a: Dict[str, Any]) -> Any:
    x, want = a["self"], c.result().dtype
    if not c.is_complex(x) and not want.is_complex:
        return to(c, a)
    if not want.is_complex:
        raise NoRule("a complex number as a real one: want x.real")
    if isinstance(x, torch.Tensor):
        return x.to(want)
    wide = torch.float64 if want == torch.complex128 else torch.float32
    x = widened(c, x)
    return x if c.dtype(x) == wide else c.cast(x, wide)


@pairs("where.self", "where.ScalarSelf", "where.ScalarOther")
def where_pairs(c: Any, a: Dict[str, Any]) -> Any:
    if not c.result().is_complex():
        return where(c, a)
    return c.emit(
        "where", [spread(c, a["condition"], "mask"), widened(c, a["self"], "self"), widened(c, a["other"], "other")], {}
    )


def fourier(kind: str, *names: str) -> None:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        x, of_pairs = pair(c, a["self"]), c.is_complex(a["self"])
        if kind == "irfft" and not of_pairs:
            x, of_pairs = widened(c, x), True
        rank = len(c.shape(x)) - of_pairs
        if kind in ("fft", "ifft") and not of_pairs:
            x = c.emit("unsqueeze", [x], {"dim": -1}, part="real", types=[([*c.shape(x), 1], c.dtype(x))])
        sizes = a.get("s", a.get("n"))
        dim = a.get("dim")
        if isinstance(sizes, int):
            sizes = [sizes]
        dim = (
            [dim]
            if isinstance(dim, int)
            else list(range(rank - len(sizes), rank))
            if dim is None and sizes
            else list(range(rank))
            if dim is None
            else list(dim)
        )
        attributes: Dict[str, Any] = {"dim": [d % rank for d in dim], "norm": a.get("norm") or "backward"}
        if sizes:
            attributes["n"] = list(sizes)
        return c.emit("fft_" + kind, [x], attributes)

    pairs(*(f"{n}.default" for n in names))(f)


fourier("rfft", "fft_rfft", "fft_rfft2", "fft_rfftn")
fourier("irfft", "fft_irfft", "fft_irfft2", "fft_irfftn")
fourier("fft", "fft_fft", "fft_fft2", "fft_fftn")
fourier("ifft", "fft_ifft", "fft_ifft2", "fft_ifftn")


@pairs("fft_fftshift.default", "fft_ifftshift.default")
def fftshift(c: Any, a: Dict[str, Any]) -> Any:
    """Frequency 0 in the middle, and back."""
    x = pair(c, a["self"])
    shape = c.shape(x)[: len(c.shape(x)) - c.is_complex(a["self"])]
    dims = range(len(shape)) if a.get("dim") is None else [a["dim"]] if isinstance(a["dim"], int) else a["dim"]
    dims = [d % len(shape) for d in dims]
    return c.emit("roll", [x], {"shifts": [(shape[d] + ("ifft" in c.target)) // 2 for d in dims], "dims": dims})


# Products and sums.
def product_of_pairs(c: Any, x: Any, y: Any, equation: str, **of: Any) -> Any:
    """A contraction of two operands, as sums over the real and the imaginary parts too: of (p, q) the second one is
    ((p, q), (-q, p)), by which part of the first it is multiplied. Autocast casts no complex numbers."""
    first, second, result = equation.replace("->", ",").split(",")
    p, q = [k for k in LETTERS if k not in equation][:2]
    if not c.is_complex(x):
        return c.emit("einsum", [x, pair(c, y)], {"equation": f"{first},{second}{q}->{result}{q}", "wide": True}, **of)
    if not c.is_complex(y):
        return c.emit("einsum", [pair(c, x), y], {"equation": f"{first}{p},{second}->{result}{p}", "wide": True}, **of)
    x, y = pair(c, x), pair(c, y)
    shape, dtype = c.shape(y), c.dtype(y)
    parts = [
        c.emit("select", [y], {"dim": -1, "index": k}, part=name, types=[(shape[:-1], dtype)])
        for k, name in enumerate(("real", "imag"))
    ]
    turned = c.emit(
        "stack",
        [c.emit("neg", [parts[1]], {}, part="minus"), parts[0]],
        {"dim": -1},
        part="turned",
        types=[(shape, dtype)],
    )
    both = c.emit("stack", [y, turned], {"dim": -2}, part="both", types=[([*shape[:-1], 2, 2], dtype)])
    return c.emit("einsum", [x, both], {"equation": f"{first}{p},{second}{p}{q}->{result}{q}", "wide": True}, **of)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def written_out(equation: str, ranks: List[int]) -> str:
    """An equation with an arrow and letters for an ellipsis."""
    equation = equation.replace(" ", "")
    of, arrow, result = equation.partition("->")
    terms = of.split(",")
    most = max([0, *(n - len(t.replace("...", "")) for t, n in zip(terms, ranks) if "..." in t)])
    free = [k for k in LETTERS if k not in equation][:most]
    whole = [
        t.replace("...", "".join(free[most - (n - len(t.replace("...", ""))) :])) if "..." in t else t
        for t, n in zip(terms, ranks)
    ]
    if not arrow:
        said = "".join(terms).replace(".", "")
        result = ("..." if most else "") + "".join(sorted(k for k in set(said) if said.count(k) == 1))
    return ",".join(whole) + "->" + result.replace("...", "".join(free))


@pairs("einsum.default")
def einsum_of_pairs(c: Any, a: Dict[str, Any]) -> Any:
    """Of more than two operands, two at a time as torch takes them: path's, or from the left; each result is stored."""
    of = list(a["tensors"])
    if len(of) <= 2 and not any(c.is_complex(t) for t in of):
        return einsum(c, a)
    rank = lambda t: len(c.shape(pair(c, t))) - c.is_complex(t)
    terms, _, result = written_out(a["equation"], [rank(t) for t in of]).partition("->")
    names = terms.split(",")
    if len(of) == 1:
        return c.emit(
            "einsum",
            [pair(c, of[0])],
            {"equation": f"{names[0]}Z->{result}Z" if c.is_complex(of[0]) else f"{names[0]}->{result}", "wide": True},
        )
    path = list(a.get("path") or [0, 1] * (len(of) - 1))
    return contracted(c, of, names, result, path)


def contracted(c: Any, of: List[Any], names: List[str], result: str, path: List[int]) -> Any:
    for step in range(len(of) - 1):
        i, j = sorted(path[2 * step : 2 * step + 2])
        (y, second), (x, first) = (of.pop(j), names.pop(j)), (of.pop(i), names.pop(i))
        last = not of
        left = "".join(names) + result
        kept = result if last else "".join(dict.fromkeys(k for k in first + second if k in left))
        equation = f"{first},{second}->{kept}"
        more: Dict[str, Any] = {} if last else {"part": f"step{step}", "types": [sized(c, x, y, first, second, kept)]}
        pairwise = c.is_complex(x) or c.is_complex(y)
        z = (
            product_of_pairs(c, x, y, equation, **more)
            if pairwise
            else c.emit("einsum", [x, y], {"equation": equation}, **more)
        )
        if pairwise:
            c.complexes.add(z)
        of.append(z)
        names.append(kept)
    return of[0]


def sized(c: Any, x: Any, y: Any, first: str, second: str, kept: str) -> Any:
    """Shape and type of a contraction."""
    sizes: Dict[str, int] = {}
    for v, term in ((x, first), (y, second)):
        for k, n in zip(term, c.shape(pair(c, v))):
            sizes[k] = max(n, sizes.get(k, 1))
    complexes = c.is_complex(x) or c.is_complex(y)
    return [*(sizes[k] for k in kept), *([2] if complexes else [])], c.dtype(pair(c, x))


@pairs("tensordot.default")
def tensordot(c: Any, a: Dict[str, Any]) -> Any:
    x, y = a["self"], a["other"]
    m, n = (len(c.shape(pair(c, v))) - c.is_complex(v) for v in (x, y))
    first, second = list(LETTERS[:m]), list(LETTERS[m : m + n])
    along = [(i % m, j % n) for i, j in zip(a["dims_self"], a["dims_other"])]
    for i, j in along:
        second[j] = first[i]
    kept = [k for i, k in enumerate(first) if i not in {i for i, _ in along}] + [
        k for j, k in enumerate(second) if j not in {j for _, j in along}
    ]
    return contracted(c, [x, y], ["".join(first), "".join(second)], "".join(kept), [0, 1])


def matrix_of_pairs(name: str, second: str) -> None:
    """A product of matrices, of complex ones as a contraction."""
    plain = RULES[f"aten.{name}"]

    def f(c: Any, a: Dict[str, Any]) -> Any:
        x, y = a["self"], a[second]
        if not (c.is_complex(x) or c.is_complex(y)):
            return plain(c, a)
        m, n = (len(c.shape(pair(c, v))) - c.is_complex(v) for v in (x, y))
        shared = LETTERS[3 : 3 + max(m, n, 2) - 2]
        first = "b" if m == 1 else shared[len(shared) - (m - 2) :] + "ab" if m > 2 else "ab"
        other = "b" if n == 1 else shared[len(shared) - (n - 2) :] + "bc" if n > 2 else "bc"
        kept = shared + ("a" if m > 1 else "") + ("c" if n > 1 else "")
        return contracted(c, [x, y], [first, other], kept, [0, 1])

    pairs(name)(f)


for name, second in (
    ("matmul.default", "other"),
    ("mm.default", "mat2"),
    ("bmm.default", "mat2"),
    ("mv.default", "vec"),
):
    matrix_of_pairs(name, second)


@pairs("linear.default")
def linear_of_pairs(c: Any, a: Dict[str, Any]) -> Any:
    x, w, bias = a["input"], a["weight"], a["bias"]
    if not (c.is_complex(x) or c.is_complex(w)):
        return c.emit("linear", inputs(a, "input weight bias"), {})
    rank = len(c.shape(pair(c, x))) - c.is_complex(x)
    batch = LETTERS[2 : 1 + rank]
    if bias is None:
        return contracted(c, [x, w], [batch + "b", "ab"], batch + "a", [0, 1])
    types = [(pair_shape(c), torch.float32 if c.result().dtype == torch.complex64 else torch.float64)]
    y = product_of_pairs(c, x, w, f"{batch}b,ab->{batch}a", part="product", types=types)
    return c.emit("add", [y, widened(c, bias)], {})


def pair_shape(c: Any) -> List[int]:
    """That of the result as pairs."""
    return [*(int(n) for n in c.result().shape), 2]


def arithmetic(op: str, *overloads: str) -> None:
    """A sum or a product, of numbers or of pairs on either side."""
    plain = RULES[f"aten.{overloads[0]}"]

    def f(c: Any, a: Dict[str, Any]) -> Any:
        x, y = a["self"], a["other"]
        both = [isinstance(v, complex) or c.tensor(v) and c.is_complex(v) for v in (x, y)]
        if not any(both):
            return plain(c, a)
        if op == "mul" and all(both):
            return c.emit("complex_mul", [pair(c, x), pair(c, y)], {})
        if op == "div" and both[1]:
            raise NoRule(
                "by a complex number: want a product with a constant, or real arithmetic"
            )
        if op in ("mul", "div"):  # with a real one
            number = x if both[1] else y
            if not c.tensor(number):
                return c.emit(op, [pair(c, y if both[1] else x)], {"other": c.number(number)})
            of = [pair(c, v) if is_pair else spread(c, v) for v, is_pair in zip((x, y), both)]
            return c.emit(op, of, {})
        return c.emit(
            op, [widened(c, x, "self"), widened(c, y, "other")], {"alpha": a["alpha"]} if a.get("alpha", 1) != 1 else {}
        )

    pairs(*overloads)(f)


arithmetic("mul", "mul.Tensor", "mul.Scalar", "multiply.Tensor")
arithmetic("div", "div.Tensor", "div.Scalar", "true_divide.Tensor")
arithmetic("add", "add.Tensor", "add.Scalar")
arithmetic("sub", "sub.Tensor", "sub.Scalar")
