package grad

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// reductions are the rules of what makes one number of several, or takes several together.
func reductions() map[string]rule {
	return map[string]rule{
		"sum": func(s *step) {
			s.give(0, s.keep(s.d, s.x, s.along(s.op.(graph.Reduction).Axes)))
		},
		"mean": func(s *step) {
			axes := s.along(s.op.(graph.Reduction).Axes)
			s.give(0, s.with(pointwise.Div, s.keep(s.d, s.x, axes), float64(s.sizeOf(s.x, axes))))
		},
		"amax":               func(s *step) { s.equalShares(s.along(s.op.(graph.Reduction).Axes), s.x, s.y) },
		"amin":               func(s *step) { s.equalShares(s.along(s.op.(graph.Reduction).Axes), s.x, s.y) },
		"max":                extreme,
		"min":                extreme,
		"logsumexp":          logSumExp,
		"var":                variance,
		"std":                variance,
		"linalg_vector_norm": vectorNorm,
		"softmax":            softmax,
		"log_softmax":        softmax,
		"cumsum": func(s *step) {
			o := s.op.(graph.CumSum)
			o.Reverse = !o.Reverse
			s.give(0, s.apply(o, s.d))
		},
		"glu":  glu,
		"sort": func(s *step) { s.toPlaces(s.op.(graph.Sort).Axis, s.d, s.out[1]) },
		"topk": func(s *step) { s.toPlaces(s.op.(graph.TopK).Axis, s.d, s.out[1]) },
	}
}

// along returns axes of the input, all for none.
func (s *step) along(given graph.Ints) []int { return axesOf(given, len(s.shape(s.x))) }

// equalShares gives d to those numbers of a value that are the reduced one, an equal part to each.
func (s *step) equalShares(axes []int, x, y int) {
	is := s.apply(graph.Cast{Dtype: s.types[x].Format.String()},
		s.apply(graph.Binary{Of: pointwise.Equal}, x, s.keep(y, s.x, axes)))
	s.give(0, s.mul(s.div(s.keep(s.d, s.x, axes), s.sum(is, axes)), is))
}

// extreme gives d to the place that the second output names, or to all that are equal.
func extreme(s *step) {
	o := s.op.(graph.Extreme)
	if o.Axis == nil {
		s.equalShares(s.along(nil), s.x, s.y)
		return
	}
	if len(s.shape(s.x)) == 0 {
		s.give(0, s.d)
		return
	}
	axes := axesOf([]int{*o.Axis}, len(s.shape(s.x)))
	s.toPlaces(*o.Axis, s.keep(s.d, s.x, axes), s.keep(s.out[1], s.x, axes))
}

// toPlaces gives d to the places along an axis that an index names.
func (s *step) toPlaces(axis, d, index int) {
	if len(s.shape(s.x)) == 0 {
		s.give(0, d)
		return
	}
	s.give(0, s.apply(graph.ScatterAdd{Axis: axis},
		s.full(0, graph.Type{Shape: s.shape(s.x), Format: s.types[d].Format}), index, d))
}

// logSumExp: e^(x-y), the softmax.
func logSumExp(s *step) {
	axes := s.along(s.op.(graph.Reduction).Axes)
	s.give(0, s.mul(s.keep(s.d, s.x, axes), s.f("exp", s.sub(s.x, s.keep(s.y, s.x, axes)))))
}

// variance: 2 (x - mean)/(n-c), and for its root (x - mean)/((n-c) y).
func variance(s *step) {
	o := s.op.(graph.Var)
	axes, c := s.along(o.Axes), 1
	if o.Correction != nil {
		c = *o.Correction
	}
	n := float64(max(s.sizeOf(s.x, axes)-c, 0))
	d := s.keep(s.d, s.x, axes)
	if o.Root {
		d = s.div(d, s.keep(s.y, s.x, axes))
	} else {
		d = s.scale(2, d)
	}
	s.give(0, s.mul(s.with(pointwise.Div, d, n), s.sub(s.x, s.mean(s.x, axes))))
}

// vectorNorm: x/y, and 0 for a zero vector; the signs; for the greatest and the least the sign of
// those that are it, an equal part to each.
func vectorNorm(s *step) {
	o := s.op.(graph.VectorNorm)
	axes := s.along(o.Axes)
	d, y := s.keep(s.d, s.x, axes), s.keep(s.y, s.x, axes)
	switch {
	case o.Order == 0:
	case o.Order == 1:
		s.give(0, s.mul(d, s.f("sign", s.x)))
	case o.Order == 2:
		s.give(0, s.mul(d, s.except(s.with(pointwise.Equal, y, 0), s.div(s.x, y))))
	case math.IsInf(float64(o.Order), 0):
		is := s.apply(graph.Cast{Dtype: s.types[s.x].Format.String()},
			s.apply(graph.Binary{Of: pointwise.Equal}, s.f("abs", s.x), y))
		s.give(0, s.mul(s.div(d, s.sum(is, axes)), s.mul(is, s.f("sign", s.x))))
	default:
		s.refuse("no rule for this order")
	}
}

// softmax: y (d - sum d y), and for its logarithm d - e^y sum d.
func softmax(s *step) {
	o := s.op.(graph.Softmax)
	axes := s.rowAxes()
	if o.Log {
		s.give(0, s.named("dx",
			s.sub(s.d, s.named("probabilities_sum", s.mul(s.f("exp", s.y), s.named("row_sum", s.sum(s.d, axes)))))))
		return
	}
	s.give(0, s.named("dx", s.mul(s.y,
		s.named("dy_centred", s.sub(s.d, s.named("row_sum", s.sum(s.named("dy_y", s.mul(s.d, s.y)), axes)))))))
}

// glu, a sigmoid(b): d sigmoid(b), and d a sigmoid(b) (1 - sigmoid(b)).
func glu(s *step) {
	axis := s.op.(graph.GLU).Axis
	half := s.shape(s.y)[axesOf([]int{axis}, len(s.shape(s.y)))[0]]
	parts := s.applyAll(graph.Split{Sizes: graph.Ints{half, half}, Axis: axis}, 2, s.x)
	if half == 0 || s.err != nil {
		return
	}
	p := s.f("sigmoid", parts[1])
	by := s.mul(s.d, p)
	s.give(0, s.apply(graph.Cat{Axis: axis}, by, s.mul(s.mul(by, parts[0]), s.from(1, pointwise.Sub, p))))
}
