"""Functions of complex numbers, of the parts of which kernels compute them: quotients, powers, roots and those of angles."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List

import torch

from .aten import RULES, NoRule, Rule
from .pairs import pair, pair_shape, pairs, widened


class Steps:
    """The steps of a function of x. Numbers are exact, or a tensor's."""

    def __init__(self, c: Any, x: Any) -> None:
        self.c, self.x, self.count = c, pair(c, x), itertools.count()
        self.whole, self.dtype = c.shape(self.x), c.dtype(self.x)
        self.re, self.im = (self("select", self.x, dim=-1, index=k) for k in range(2))

    def __call__(self, op: str, *of: Any, shape: Any = None, **attributes: Any) -> Any:
        types = [(self.whole[:-1] if shape is None else shape, self.dtype)]
        return self.c.emit(op, list(of), attributes, part=f"{op}{next(self.count)}", types=types)

    def times(self, v: Any, by: float) -> Any:
        return self("mul", v, other=by)

    def less(self, v: Any) -> Any:
        return self.c.emit("lt", [v], {"other": 0.0}, part=f"lt{next(self.count)}", types=[(self.whole[:-1], torch.bool)])

    def signed(self, v: Any, sign: Any) -> Any:
        """v where sign is not negative, and else -v."""
        return self("where", self.less(sign), self("neg", v), v)

    def length(self) -> Any:
        return self("linalg_vector_norm", self.x, ord=2, dim=[-1])


def function(*names: str) -> Callable[[Callable[[Steps], List[Any]]], None]:
    """A function of one complex number, as its real and its imaginary part."""

    def known(parts: Callable[[Steps], List[Any]]) -> None:
        for name in names:
            pairs(name)(_of(RULES[f"aten.{name}"], parts))

    return known


def _of(plain: Rule, parts: Callable[[Steps], List[Any]]) -> Rule:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        return c.emit("stack", parts(Steps(c, a["self"])), {"dim": -1}) if c.is_complex(a["self"]) else plain(c, a)

    return f


@function("log.default")
def _log(s: Steps) -> List[Any]:
    return [s("log", s.length()), s("atan2", s.im, s.re)]


@function("sqrt.default")
def _sqrt(s: Steps) -> List[Any]:
    """The root of half of |z| + |a|, which cancels nowhere, and b over twice that, in an order that the sign of a says."""
    root = s("sqrt", s.times(s("add", s("abs", s.re), s.length()), 0.5))
    other = s("div", s("abs", s.im), s("clip", s("add", root, root), min=2.0**-126))
    left = s.less(s.re)
    return [s("where", left, other, root), s.signed(s("where", left, root, other), s.im)]


@function("sin.default")
def _sin(s: Steps) -> List[Any]:
    return [s("mul", s("sin", s.re), s("cosh", s.im)), s("mul", s("cos", s.re), s("sinh", s.im))]


@function("cos.default")
def _cos(s: Steps) -> List[Any]:
    return [s("mul", s("cos", s.re), s("cosh", s.im)), s("neg", s("mul", s("sin", s.re), s("sinh", s.im)))]


@function("tanh.default")
def _tanh(s: Steps) -> List[Any]:
    """With e = exp(-2|a|), of 1 - e^2 and 4 e sin b cos b, over (1 - e)^2 + 4 e cos^2 b: nothing cancels or overflows."""
    size, cos = s("abs", s.re), s("cos", s.im)
    less, e = s("expm1", s.times(size, -2.0)), s.times(s("exp", s.times(size, -2.0)), 4.0)
    below = s("add", s("mul", less, less), s("mul", e, s("mul", cos, cos)))
    real = s("div", s("neg", s("expm1", s.times(size, -4.0))), below)
    return [s.signed(real, s.re), s("div", s("mul", e, s("mul", s("sin", s.im), cos)), below)]


def quotient(c: Any, x: Any, y: Any) -> Any:
    """x times the conjugate of y, over |y|^2, with one y in each over its larger part, so that no square overflows. In
    Smith's order each part has the error of such a quotient."""
    s = Steps(c, y)
    larger = s("maximum", s("abs", s.re), s("abs", s.im))
    scaled = s("div", s.x, s("unsqueeze", larger, shape=[*s.whole[:-1], 1], dim=-1), shape=s.whole)
    turned = s("mul", scaled, torch.tensor([1.0, -1.0], dtype=s.dtype), shape=s.whole)
    below = s("sum", s("mul", s.x, scaled, shape=s.whole), shape=[*s.whole[:-1], 1], dim=[-1], keepdim=True)
    return c.emit("div", [s("complex_mul", widened(c, x, "self"), turned, shape=pair_shape(c)), below], {})


def _quotients(plain: Rule) -> Rule:
    def f(c: Any, a: Dict[str, Any]) -> Any:
        y = a["other"]
        by_complex = isinstance(y, complex) or c.tensor(y) and c.is_complex(y)
        return quotient(c, a["self"], y) if by_complex else plain(c, a)

    return f


for name in ("div.Tensor", "div.Scalar", "true_divide.Tensor"):
    pairs(name)(_quotients(RULES[f"aten.{name}"]))


def _powers(plain: Rule) -> Rule:
    """Whole ones from 1 to 3, which are products one after another, and -1."""

    def f(c: Any, a: Dict[str, Any]) -> Any:
        x, n = a["self"], a.get("exponent", 2 if "square" in c.target else -1)
        if not c.is_complex(x):
            return plain(c, a)
        if n == -1:
            return quotient(c, 1.0, x)
        if n not in (2, 3):
            raise NoRule(f"a complex number to the power of {n}: want -1, 2 or 3")
        x = pair(c, x)
        square = {} if n == 2 else {"part": "square", "types": [(c.shape(x), c.dtype(x))]}
        y = c.emit("complex_mul", [x, x], {}, **square)
        return y if n == 2 else c.emit("complex_mul", [y, x], {})

    return f


for name in ("square.default", "pow.Tensor_Scalar", "reciprocal.default"):
    pairs(name)(_powers(RULES[f"aten.{name}"]))
