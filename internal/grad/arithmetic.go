package grad

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// operand is one of a binary operation: a value, or a number in its place.
type operand struct {
	value  int
	number *float64
}

// operands returns both of the node, and which input each is, none for a number.
func (s *step) operands() (a, b operand, ofA, ofB int) {
	o := s.op.(graph.Binary)
	a, b, ofA, ofB = operand{number: o.Self}, operand{number: o.Other}, none, none
	next := 0
	if o.Self == nil {
		a.value, ofA = s.in[next], next
		next++
	}
	if o.Other == nil {
		b.value, ofB = s.in[next], next
	}
	return a, b, ofA, ofB
}

// of is an operation of two operands, one of which is a value.
func (s *step) of(op pointwise.Op, a, b operand) int {
	switch {
	case a.number != nil:
		return s.from(*a.number, op, b.value)
	case b.number != nil:
		return s.with(op, a.value, *b.number)
	}
	return s.apply(graph.Binary{Of: op}, a.value, b.value)
}

// v is a value as an operand.
func v(of int) operand { return operand{value: of} }

// giveTo adds a gradient by an operand if it is wanted.
func (s *step) giveTo(input int, d func() int) {
	if input != none && s.wants(input) {
		s.give(input, d())
	}
}

// partials returns what a gradient is by each operand of an operation.
type partials func(s *step, a, b operand) (byA, byB func() int)

// arithmetic are the rules of operations on two numbers.
func arithmetic() map[string]rule {
	of := map[string]rule{"where": where}
	for name, p := range pairs {
		of[name] = func(s *step) {
			a, b, ofA, ofB := s.operands()
			byA, byB := p(s, a, b)
			s.giveTo(ofA, byA)
			s.giveTo(ofB, byB)
		}
	}
	return of
}

func where(s *step) {
	if s.wants(1) {
		s.give(1, s.only(s.x, s.d))
	}
	if s.wants(2) {
		s.give(2, s.except(s.x, s.d))
	}
}

// passed is d, unchanged.
func (s *step) passed() int { return s.d }

var pairs = map[string]partials{
	"add": func(s *step, a, b operand) (byA, byB func() int) {
		return s.passed, func() int { return s.scale(s.alpha(), s.d) }
	},
	"sub": func(s *step, a, b operand) (byA, byB func() int) {
		return s.passed, func() int {
			if s.alpha() != 1 {
				return s.scale(-s.alpha(), s.d)
			}
			return s.neg(s.d)
		}
	},
	"mul": func(s *step, a, b operand) (byA, byB func() int) {
		return func() int { return s.of(pointwise.Mul, v(s.d), b) }, func() int { return s.of(pointwise.Mul, v(s.d), a) }
	},
	"div": func(s *step, a, b operand) (byA, byB func() int) {
		if s.op.(graph.Binary).Of != pointwise.Div { // rounded to whole numbers
			return func() int { return s.zeros(s.y) }, func() int { return s.zeros(s.y) }
		}
		return func() int { return s.of(pointwise.Div, v(s.d), b) }, func() int {
			return s.neg(s.mul(s.d, s.of(pointwise.Div, v(s.y), b)))
		}
	},
	"pow":   power,
	"atan2": angle,
	"minimum": func(s *step, a, b operand) (byA, byB func() int) {
		return shared(s, a, b, pointwise.Greater, pointwise.Less)
	},
	"maximum": func(s *step, a, b operand) (byA, byB func() int) {
		return shared(s, a, b, pointwise.Less, pointwise.Greater)
	},
	"fmin": func(s *step, a, b operand) (byA, byB func() int) { return chosen(s, a, b, pointwise.LessEqual) },
	"fmax": func(s *step, a, b operand) (byA, byB func() int) { return chosen(s, a, b, pointwise.GreaterEqual) },
	"prelu": func(s *step, a, b operand) (byA, byB func() int) {
		above := func() int { return s.gt(a.value, 0) }
		return func() int { return s.where(above(), s.d, s.of(pointwise.Mul, v(s.d), b)) },
			func() int { return s.except(above(), s.mul(s.d, a.value)) }
	},
	"fmod": func(s *step, a, b operand) (byA, byB func() int) {
		return s.passed, func() int { return s.neg(s.mul(s.d, s.of(pointwise.TruncDivide, a, b))) }
	},
	"remainder": func(s *step, a, b operand) (byA, byB func() int) {
		return s.passed, func() int { return s.neg(s.mul(s.d, s.of(pointwise.FloorDivide, a, b))) }
	},
}

// alpha is the factor of the second operand.
func (s *step) alpha() float64 {
	if a := s.op.(graph.Binary).Alpha; a != nil {
		return *a
	}
	return 1
}

// power: b a^(b-1), 0 for b = 0; and a^b ln a, 0 for a = 0 and b >= 0. An exponent that is a constant is a number
// here, so that b-1 is one too and nothing that a device computes.
func power(s *step, a, b operand) (byA, byB func() int) {
	if b.number == nil {
		if c := s.graph.Values[b.value].Const; c != nil && len(c.Data) == 1 {
			b.number = &c.Data[0]
		}
	}
	byA = func() int {
		if n := b.number; n != nil {
			if *n == 0 {
				return s.zeros(s.y)
			}
			if *n == 1 {
				return s.d
			}
			base := a.value
			if *n != 2 {
				base = s.with(pointwise.Pow, a.value, *n-1)
			}
			return s.mul(s.d, s.scale(*n, base))
		}
		slope := s.mul(b.value, s.of(pointwise.Pow, a, v(s.with(pointwise.Sub, b.value, 1))))
		return s.mul(s.d, s.except(s.with(pointwise.Equal, b.value, 0), slope))
	}
	byB = func() int {
		if n := a.number; n != nil {
			log := s.f("log", s.full(*n, graph.Type{Format: s.types[s.y].Format}))
			if *n == 0 {
				return s.mul(s.d, s.except(s.ge(b.value, 0), s.mul(s.y, log)))
			}
			return s.mul(s.d, s.mul(s.y, log))
		}
		nothing := s.both(s.with(pointwise.Equal, a.value, 0), s.ge(b.value, 0))
		return s.mul(s.d, s.except(nothing, s.mul(s.y, s.f("log", a.value))))
	}
	return byA, byB
}

// angle: b/(a^2+b^2) and -a/(a^2+b^2).
func angle(s *step, a, b operand) (byA, byB func() int) {
	if a.number != nil || b.number != nil {
		refused := func() int { s.refuse("no rule for a number in place of an input"); return s.zeros(s.y) }
		return refused, refused
	}
	over := func() int { return s.div(s.d, s.add(s.f("square", a.value), s.f("square", b.value))) }
	return func() int { return s.mul(over(), b.value) }, func() int { return s.neg(s.mul(over(), a.value)) }
}

// shared gives half of d to each of equal numbers, and else all to one: not to a where a is
// beyond b, not to b where b is.
func shared(s *step, a, b operand, notA, notB pointwise.Op) (byA, byB func() int) {
	by := func(not pointwise.Op) func() int {
		return func() int {
			half := s.where(s.of(pointwise.Equal, a, b), s.scale(0.5, s.d), s.d)
			return s.except(s.of(not, a, b), half)
		}
	}
	return by(notA), by(notB)
}

// chosen gives d to a where it is chosen, or b is NaN, and else to b.
func chosen(s *step, a, b operand, is pointwise.Op) (byA, byB func() int) {
	of := func() int {
		c := s.of(is, a, b)
		if b.number != nil {
			return c
		}
		return s.apply(graph.Binary{Of: pointwise.Or}, c, s.f("isnan", b.value))
	}
	return func() int { return s.only(of(), s.d) }, func() int { return s.except(of(), s.d) }
}
