package grad

import (
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// autograd is the name of a rule that is PyTorch's formula where that is not the usual one. Each operation of such a
// formula is a kernel of its own, which stores its result: in half types another order of the same factors is another
// number.
const autograd = "autograd"

// formulas are those of derivatives.yaml, and of the kernels for GPUs where they add up in an order of their own.
func formulas() map[string]rule {
	return map[string]rule{
		// d (y + 1)
		"expm1": func(s *step) { s.give(0, s.mul(s.d, s.with(pointwise.Add, s.y, 1))) },
		// -d/2 y^3
		"rsqrt": func(s *step) {
			s.give(0, s.mul(s.scale(-0.5, s.d), s.mul(s.mul(s.y, s.y), s.y)))
		},
		// d b 1/(a^2 + b^2), d -a 1/(a^2 + b^2)
		"atan2": func(s *step) {
			a, b, _, _ := s.operands()
			if a.number != nil || b.number != nil {
				rules["atan2"](s)
				return
			}
			one := s.f("reciprocal", s.add(s.mul(a.value, a.value), s.mul(b.value, b.value)))
			s.giveTo(0, func() int { return s.mul(s.mul(s.d, b.value), one) })
			s.giveTo(1, func() int { return s.mul(s.mul(s.d, s.neg(a.value)), one) })
		},
		// hypot: d x/y
		"linalg_vector_norm": func(s *step) {
			o := s.op.(graph.VectorNorm)
			if o.Order != 2 {
				vectorNorm(s)
				return
			}
			axes := s.along(o.Axes)
			d, y := s.keep(s.d, s.x, axes), s.keep(s.y, s.x, axes)
			s.give(0, s.except(s.with(pointwise.Equal, y, 0), s.div(s.mul(d, s.x), y)))
		},
		// addcmul: d (b value), where the usual rule has (d value) b
		"mul": func(s *step) {
			a, b, _, _ := s.operands()
			d, by, is := s.timesNumber(s.d)
			if a.number != nil || b.number != nil || !is {
				rules["mul"](s)
				return
			}
			s.giveTo(0, func() int { return s.mul(d, s.scale(by, b.value)) })
			s.giveTo(1, func() int { return s.mul(d, s.scale(by, a.value)) })
		},
		// addcdiv: d (value/b), -d (value a/b^2), where the usual rule has (d value)/b
		"div": func(s *step) {
			a, b, _, _ := s.operands()
			d, by, is := s.timesNumber(s.d)
			if a.number != nil || b.number != nil || !is || s.op.(graph.Binary).Of != pointwise.Div {
				rules["div"](s)
				return
			}
			s.giveTo(0, func() int { return s.mul(d, s.from(by, pointwise.Div, b.value)) })
			s.giveTo(1, func() int {
				return s.mul(s.neg(d), s.div(s.scale(by, a.value), s.mul(b.value, b.value)))
			})
		},
		// logsigmoid on a CPU: of e^-|x|, which the forward pass has stored
		"softplus": func(s *step) {
			x := s.scale(s.param("beta"), s.x)
			e := s.named("exp", s.f("exp", s.neg(s.f("abs", x))))
			part := s.div(e, s.with(pointwise.Add, e, 1))
			slope := s.where(s.gt(x, 0), s.from(1, pointwise.Sub, part), part)
			s.give(0, s.where(s.gt(x, s.param("threshold")), s.d, s.mul(s.d, slope)))
		},
		"embedding": embeddingInParts,
		"conv2d":    convolutionByPlaces,
	}
}

// timesNumber takes a value apart that is another one times a number.
func (s *step) timesNumber(v int) (of int, by float64, is bool) {
	for i := len(s.graph.Nodes) - 1; i >= 0; i-- {
		n := &s.graph.Nodes[i]
		if n.Out[0] != v {
			continue
		}
		if o, two := n.Op.(graph.Binary); two && o.Of == pointwise.Mul && o.Other != nil {
			return n.In[0], *o.Other, true
		}
		break
	}
	return v, 1, false
}

// Of up to so many places PyTorch's kernel for GPUs takes so many at a time: it adds up what goes to one place, stores
// that, and adds it to what it stored before.
const mostPlaces, placesAtOnce = 3072, 32

func embeddingInParts(s *step) {
	n := elements(s.shape(s.in[1]))
	if n <= placesAtOnce || n > mostPlaces {
		embedding(s)
		return
	}
	x := s.shape(s.x)
	index, d := s.reshape(s.in[1], []int{n}), s.reshape(s.embedded(), []int{n, x[1]})
	total := none
	for from := 0; from < n; from += placesAtOnce {
		to := min(n, from+placesAtOnce)
		at, of := s.slice(index, 0, from, to), s.slice(d, 0, from, to)
		part := s.named("part", s.apply(graph.IndexAdd{}, s.nothing(), at, of))
		if total == none {
			total = part
			continue
		}
		total = s.named("parts", s.add(total, part))
	}
	s.give(0, total)
}

// A kernel for GPUs takes so many places of d at a time, in the order of samples and rows, and adds what they give to
// the image that it has stored. Of more parts than that the rule is the usual one.
const placesOfImages, mostParts = 128, 8

func convolutionByPlaces(s *step) {
	convolutionBy(s, func(op graph.Op) int {
		shape := s.shape(s.d)
		area := shape[2] * shape[3]
		n := shape[0] * area
		if n <= placesOfImages || n > placesOfImages*mostParts {
			return s.apply(op, s.d, s.in[1])
		}
		total := none
		for from := 0; from < n; from += placesOfImages {
			mask := tensor.New(s.types[s.d].Format, shape[0], 1, shape[2], shape[3])
			for i := from; i < min(n, from+placesOfImages); i++ {
				mask.Data[i] = 1
			}
			places := s.constant(fmt.Sprint("places ", from, mask.Shape), mask)
			part := s.apply(op, s.mul(s.d, places), s.in[1])
			if total != none {
				part = s.add(total, part)
			}
			total = s.named("so_far", part)
		}
		return total
	})
}

// slice is a part along an axis.
func (t *tape) slice(v, axis, from, to int) int {
	return t.apply(graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{from}, End: graph.Ints{to}}, v)
}

// exchanged is a sum along axes as PyTorch's batch norm has it on GPUs: the threads of a block, 512 or as many as a row
// has, halve their number by taking over the sums of others, first within each 32 of them and then among these. What a
// thread hands to another it has stored in the type of the input.
func (s *step) exchanged(v int, samples bool) int {
	const lanes, block = 32, 512
	x := s.shape(s.x)
	n, planes, row := x[0], x[1], elements(x[2:])
	if !samples {
		n, planes = 1, n*planes
	}
	threads := lanes
	for threads < min(row, block) {
		threads *= 2
	}
	high := max(1, block/threads)
	up := func(n, to int) int { return (n + to - 1) / to }
	v = s.pad(s.reshape(v, []int{n, planes, row}), up(n, high)*high-n, up(row, threads)*threads-row)
	v = s.reshape(v, []int{up(n, high), high, planes, up(row, threads), threads})
	v = s.move(s.sum(v, []int{0, 3}), []int{0, 3, 2, 1, 4})
	warps := high * threads / lanes
	v = s.halved(s.reshape(v, []int{1, planes * warps, lanes}), lanes)
	v = s.halved(s.pad(s.reshape(v, []int{1, planes, warps}), 0, lanes-warps), lanes)
	shape := []int{x[0], x[1]}
	if samples {
		shape[0] = 1
	}
	for range x[2:] {
		shape = append(shape, 1)
	}
	return s.reshape(v, shape)
}

// pad adds zeros behind the first and the last of three axes.
func (s *step) pad(v, first, last int) int {
	if first == 0 && last == 0 {
		return v
	}
	return s.apply(graph.Pad{Before: []int{0, 0, 0}, After: []int{first, 0, last}, Mode: "constant"}, v)
}

// halved adds the second half of the last of three axes to the first until one number is left.
func (s *step) halved(v, n int) int {
	for n /= 2; n > 0; n /= 2 {
		v = s.add(s.slice(v, 2, 0, n), s.operand("exchanged", s.slice(v, 2, n, 2*n)))
	}
	return v
}

// exchangedNorm is [step.weightLast] with such sums.
func (s *step) exchangedNorm(samples bool, eps float64) {
	axes := s.spatial(2)
	if samples {
		axes = s.besideChannels()
	}
	if elements(s.shape(s.x)) == 0 {
		s.weightLast(axes, eps)
		return
	}
	s.weightLastBy(axes, eps, func(v int) int { return s.exchanged(v, samples) })
}
