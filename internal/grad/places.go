package grad

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// indexed are the rules of what takes numbers from places that an index names: what comes from one
// place is added there.
func indexed() map[string]rule {
	return map[string]rule{
		"gather": func(s *step) {
			o := s.op.(graph.Gather)
			s.give(0, s.apply(graph.ScatterAdd(o), s.nothing(), s.in[1], s.d))
		},
		"index_select": func(s *step) {
			o := s.op.(graph.IndexSelect)
			s.backTo(axesOf([]int{o.Axis}, len(s.shape(s.x)))[0], o.FromEnd, s.d)
		},
		"embedding": embedding,
		"index": func(s *step) {
			in := append([]int{s.nothing()}, s.in[1:]...)
			s.give(0, s.apply(graph.IndexPut{Accumulate: true}, append(in, s.d)...))
		},
		"gather_nd": func(s *step) {
			if s.op.(graph.GatherND).Batch != 0 {
				s.refuse("no rule for batch_dims")
				return
			}
			s.give(0, s.apply(graph.ScatterND{Reduce: "sum"}, s.nothing(), s.in[1], s.d))
		},
	}
}

// nothing is zeros in the shape of the input and the format of the gradient.
func (s *step) nothing() int {
	return s.full(0, graph.Type{Shape: s.shape(s.x), Format: s.types[s.d].Format})
}

// backTo adds parts of d along an axis to where an index, the second input, has taken them; fromEnd says
// whether it may count from the end.
func (s *step) backTo(axis int, fromEnd bool, d int) {
	index := s.in[1]
	n := elements(s.shape(index))
	x := s.shape(s.x)
	d = s.reshape(d, slices.Concat(x[:axis], []int{n}, x[axis+1:]))
	s.give(0, s.apply(graph.IndexAdd{Axis: axis, FromEnd: fromEnd}, s.nothing(), s.reshape(index, []int{n}), d))
}

func embedding(s *step) { s.backTo(0, false, s.embedded()) }

// embedded is d, and 0 where the index is the one of padding.
func (s *step) embedded() int {
	d := s.d
	if skip := s.op.(graph.Embedding).PaddingIdx; skip >= 0 {
		is := s.with(pointwise.Equal, s.in[1], float64(skip))
		d = s.except(s.reshape(is, append(slices.Clone(s.shape(s.in[1])), 1)), d)
	}
	return d
}

// scattered are the rules of what puts numbers to places that an index names. Added to a place,
// each number has the gradient of the place. Where only the last one stays, only that one has it,
// and the old number has none.
func scattered() map[string]rule {
	return map[string]rule{
		"scatter_add": func(s *step) {
			s.give(0, s.d)
			if s.wants(2) {
				s.bySource(s.apply(graph.Gather(s.op.(graph.ScatterAdd)), s.d, s.in[1]))
			}
		},
		"scatter_reduce": func(s *step) {
			o := s.op.(graph.ScatterReduce)
			if o.Reduce != "sum" || !o.Include {
				s.refuse("no rule but for the sum, the old number included")
				return
			}
			s.give(0, s.d)
			if s.wants(2) {
				s.bySource(s.apply(graph.Gather{Axis: o.Axis, FromEnd: o.FromEnd}, s.d, s.in[1]))
			}
		},
		"index_add": func(s *step) {
			s.give(0, s.d)
			if s.wants(2) {
				s.give(2, s.apply(graph.IndexSelect(s.op.(graph.IndexAdd)), s.d, s.in[1]))
			}
		},
		"scatter": func(s *step) {
			s.placed(s.op, graph.Gather(s.op.(graph.Scatter)), s.shape(s.in[1]), s.in[1])
		},
		"scatter_nd": func(s *step) {
			switch s.op.(graph.ScatterND).Reduce {
			case "sum":
				s.give(0, s.d)
				if s.wants(2) {
					s.give(2, s.apply(graph.GatherND{}, s.d, s.in[1]))
				}
			case "none":
				s.placed(s.op, graph.GatherND{}, s.shape(s.in[2]), s.in[1])
			default:
				s.refuse("no rule for amax and amin")
			}
		},
		"index_put": func(s *step) {
			places := s.in[1 : len(s.in)-1]
			if s.op.(graph.IndexPut).Accumulate {
				s.give(0, s.d)
				if k := len(s.in) - 1; s.wants(k) {
					s.give(k, s.apply(graph.Index{}, append([]int{s.d}, places...)...))
				}
				return
			}
			taken := s.apply(graph.Index{}, append([]int{s.d}, places...)...)
			if s.err == nil {
				s.placed(s.op, graph.Index{}, s.shape(taken), places...)
			}
		},
	}
}

// bySource gives a source the gradient of what the index has of it.
func (s *step) bySource(d int) {
	source := s.shape(s.in[2])
	if s.err != nil || slices.Equal(s.shape(d), source) {
		s.give(2, d)
		return
	}
	after := make([]int, len(source))
	for a, n := range source {
		after[a] = n - s.shape(d)[a]
	}
	s.give(2, s.apply(graph.Pad{Before: make([]int, len(source)), After: after, Mode: "constant"}, d))
}

// placed is the rule of put, of which the last number at a place stays: numbers 0, 1, 2, ... put
// in the same way say which, and take reads them back.
func (s *step) placed(put, take graph.Op, shape []int, index ...int) {
	source := len(s.in) - 1
	with := func(x, from int) []int { return slices.Concat([]int{x}, index, []int{from}) }
	if s.wants(0) {
		s.give(0, s.apply(put, with(s.d, s.full(0, graph.Type{Shape: shape, Format: s.types[s.d].Format}))...))
	}
	if !s.wants(source) || s.err != nil {
		return
	}
	count := tensor.New(fp16.Int64, shape...)
	for i := range count.Data {
		count.Data[i] = float64(i)
	}
	numbers := s.constant("count "+count.Dims(), count)
	winners := s.apply(put, with(s.full(0, graph.Type{Shape: s.shape(s.x), Format: fp16.Int64}), numbers)...)
	read := func(of int) int { return s.apply(take, append([]int{of}, index...)...) }
	d := s.only(s.apply(graph.Binary{Of: pointwise.Equal}, read(winners), numbers), read(s.d))
	if source == 2 && put.Name() == "scatter" {
		s.bySource(d)
		return
	}
	s.give(source, d)
}
