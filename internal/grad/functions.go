package grad

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// derivative returns d times the derivative of a function at x, where it is y.
type derivative func(s *step, x, y, d int) int

// functions are the rules of functions of each number.
func functions() map[string]rule {
	of := map[string]rule{}
	for name, f := range derivatives {
		of[name] = func(s *step) { s.give(0, f(s, s.x, s.y, s.d)) }
	}
	return of
}

// param returns a parameter of the function of the node.
func (s *step) param(name string) float64 {
	if u, ok := s.op.(graph.Unary); ok {
		return u.Params()[name]
	}
	return math.NaN()
}

func (s *step) gt(x int, v float64) int { return s.with(pointwise.Greater, x, v) }
func (s *step) lt(x int, v float64) int { return s.with(pointwise.Less, x, v) }
func (s *step) ge(x int, v float64) int { return s.with(pointwise.GreaterEqual, x, v) }
func (s *step) le(x int, v float64) int { return s.with(pointwise.LessEqual, x, v) }

var derivatives = map[string]derivative{
	"identity": func(s *step, x, y, d int) int { return d },
	"cast":     func(s *step, x, y, d int) int { return d },
	"neg":      func(s *step, x, y, d int) int { return s.neg(d) },
	"abs":      func(s *step, x, y, d int) int { return s.mul(d, s.f("sign", x)) },

	"exp":        func(s *step, x, y, d int) int { return s.mul(d, y) },
	"exp2":       func(s *step, x, y, d int) int { return s.scale(math.Ln2, s.mul(d, y)) },
	"expm1":      func(s *step, x, y, d int) int { return s.mul(d, s.f("exp", x)) },
	"log":        func(s *step, x, y, d int) int { return s.div(d, x) },
	"log2":       func(s *step, x, y, d int) int { return s.div(d, s.scale(math.Ln2, x)) },
	"log1p":      func(s *step, x, y, d int) int { return s.div(d, s.with(pointwise.Add, x, 1)) },
	"sqrt":       func(s *step, x, y, d int) int { return s.div(d, s.scale(2, y)) },
	"rsqrt":      func(s *step, x, y, d int) int { return s.scale(-0.5, s.mul(d, s.div(y, x))) },
	"reciprocal": func(s *step, x, y, d int) int { return s.neg(s.mul(d, s.f("square", y))) },
	"square":     func(s *step, x, y, d int) int { return s.mul(d, s.scale(2, x)) },
	"sin":        func(s *step, x, y, d int) int { return s.mul(d, s.f("cos", x)) },
	"cos":        func(s *step, x, y, d int) int { return s.neg(s.mul(d, s.f("sin", x))) },
	"tan":        func(s *step, x, y, d int) int { return s.mul(d, s.with(pointwise.Add, s.f("square", y), 1)) },
	"atan":       func(s *step, x, y, d int) int { return s.div(d, s.with(pointwise.Add, s.f("square", x), 1)) },
	"erf": func(s *step, x, y, d int) int {
		return s.mul(d, s.scale(2/math.Sqrt(math.Pi), s.f("exp", s.neg(s.f("square", x)))))
	},

	"sigmoid": func(s *step, x, y, d int) int { return s.mul(d, s.mul(y, s.from(1, pointwise.Sub, y))) },
	"tanh": func(s *step, x, y, d int) int {
		return s.mul(d, s.mul(s.from(1, pointwise.Sub, y), s.with(pointwise.Add, y, 1)))
	},
	"relu": func(s *step, x, y, d int) int { return s.only(s.gt(y, 0), d) },
	"silu": silu,
	"gelu": gelu,
	"swish": func(s *step, x, y, d int) int { // p + alpha y (1 - p), p = sigmoid(alpha x)
		p := s.f("sigmoid", s.scale(s.param("alpha"), x))
		return s.mul(d, s.add(p, s.mul(s.scale(s.param("alpha"), y), s.from(1, pointwise.Sub, p))))
	},
	"mish": func(s *step, x, y, d int) int { // t + x sigmoid(x) (1 - t^2), t = tanh(softplus(x))
		t := s.apply(graph.Act{Func: act.Tanh}, s.f("softplus", x))
		return s.mul(d, s.add(t, s.mul(s.mul(x, s.f("sigmoid", x)), s.from(1, pointwise.Sub, s.f("square", t)))))
	},
	"softplus": func(s *step, x, y, d int) int {
		z := s.scale(s.param("beta"), x)
		return s.where(s.gt(z, s.param("threshold")), d, s.mul(d, s.f("sigmoid", z)))
	},
	"softsign": func(s *step, x, y, d int) int {
		return s.div(d, s.f("square", s.with(pointwise.Add, s.f("abs", x), 1)))
	},

	"elu": func(s *step, x, y, d int) int { return elu(s, x, d, s.param("alpha"), s.param("scale"), 1) },
	"celu": func(s *step, x, y, d int) int {
		return elu(s, x, d, 1, 1, 1/s.param("alpha"))
	},
	"selu": func(s *step, x, y, d int) int {
		return elu(s, x, d, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)
	},
	"leaky_relu": func(s *step, x, y, d int) int {
		return s.where(s.gt(x, 0), d, s.scale(s.param("negative_slope"), d))
	},

	"hardtanh": func(s *step, x, y, d int) int { return s.inside(x, d, s.param("min_val"), s.param("max_val")) },
	"relu6":    func(s *step, x, y, d int) int { return s.inside(x, d, 0, 6) },
	"clip": func(s *step, x, y, d int) int {
		return s.only(s.both(s.ge(x, s.param("min")), s.le(x, s.param("max"))), d)
	},
	"hardshrink": func(s *step, x, y, d int) int {
		l := s.param("lambd")
		return s.except(s.both(s.ge(x, -l), s.le(x, l)), d)
	},
	"softshrink": func(s *step, x, y, d int) int {
		l := s.param("lambd")
		return s.except(s.both(s.ge(x, -l), s.le(x, l)), d)
	},
	"hardsigmoid": func(s *step, x, y, d int) int { return s.inside(x, s.with(pointwise.Div, d, 6), -3, 3) },
	"hard_sigmoid": func(s *step, x, y, d int) int {
		return s.inside(y, s.scale(s.param("alpha"), d), 0, 1)
	},
	"hardswish": func(s *step, x, y, d int) int { // 0 up to -3, x/3 + 1/2, and 1 from 3 on
		slope := s.with(pointwise.Add, s.with(pointwise.Div, x, 3), 0.5)
		return s.where(s.ge(x, 3), d, s.only(s.gt(x, -3), s.mul(d, slope)))
	},
}

// inside is d where x is between two ends, and not one of them.
func (s *step) inside(x, d int, min, max float64) int {
	return s.only(s.both(s.gt(x, min), s.lt(x, max)), d)
}

// silu is sigmoid(x) + y (1 - sigmoid(x)) times d.
func silu(s *step, x, y, d int) int {
	p := s.f("sigmoid", x)
	return s.named("dx", s.mul(d, s.named("slope", s.add(p, s.mul(y, s.from(1, pointwise.Sub, p))))))
}

// elu is scale for x > 0, else alpha scale inner e^(inner x), times d. (celu's alpha inner is 1.)
func elu(s *step, x, d int, alpha, scale, inner float64) int {
	below := s.scale(alpha*scale, s.mul(d, s.f("exp", s.scale(inner, x))))
	return s.where(s.gt(x, 0), s.scale(scale, d), below)
}

// gelu is P(x) + x p(x), of the normal distribution, or what the tanh form has in its place:
// (1+t)/2 + x/2 (1-t^2) k (1 + 3c x^2), t = tanh(k (x + c x^3)), k = sqrt(2/pi), c = 0.044715.
func gelu(s *step, x, y, d int) int {
	if s.op.(graph.Act).Func == act.GELU {
		p := s.scale(0.5, s.with(pointwise.Add, s.f("erf", s.scale(math.Sqrt2/2, x)), 1))
		density := s.scale(1/math.Sqrt(2*math.Pi), s.f("exp", s.scale(-0.5, s.f("square", x))))
		return s.named("dx",
			s.mul(d, s.named("slope", s.add(s.named("probability", p), s.mul(x, s.named("density", density))))))
	}
	const c = 0.044715
	k, x2 := math.Sqrt(2/math.Pi), s.f("square", x)
	t := s.apply(graph.Act{Func: act.Tanh}, s.mul(s.scale(k, x), s.with(pointwise.Add, s.scale(c, x2), 1)))
	slope := s.mul(s.from(1, pointwise.Sub, s.f("square", t)), s.scale(k, s.with(pointwise.Add, s.scale(3*c, x2), 1)))
	return s.named("dx", s.mul(d, s.named("slope", s.scale(0.5, s.add(s.with(pointwise.Add, t, 1), s.mul(x, slope))))))
}
