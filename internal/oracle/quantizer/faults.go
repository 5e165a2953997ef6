package quantizer

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/table"
)

// A fault is a quantizer, too, of another rule than the one asked for. It explains a tensor as the right one does.
type fault struct {
	id   string
	args []any
	spec quantize.Spec
	swap bool // the numbers of each byte
}

// row is what the table of faults says.
func (f *fault) row() *table.Row { return table.Named(f.id, f.args...) }

// faults are those of a quantizer, for a tensor of such a shape. Of the faults that explain as much the first is named.
func (q *Question) faults() (all []fault) {
	s := q.Spec
	add := func(id string, change func(s *quantize.Spec), args ...any) {
		bent := s
		change(&bent)
		all = append(all, fault{id: id, args: args, spec: bent})
	}
	if q.Packed {
		all = append(all, fault{id: "quantize.nibbles-swapped", spec: s, swap: true})
	}
	if slices.ContainsFunc(q.Output.Zeros, func(z int) bool { return z != 0 }) {
		add("quantize.zero-point-ignored", func(s *quantize.Spec) { s.NoZero = true })
	}
	if s.Kind == quantize.EightBits && q.Global {
		q.globals(add)
	}
	if s.Kind != quantize.NoScale {
		q.layouts(add)
		q.axes(add)
	}
	for _, e := range others(s.Element) {
		q.elements(add, e)
	}
	if q.Op == "quantize" {
		q.making(add)
	}
	return all
}

type adder = func(id string, change func(s *quantize.Spec), args ...any)

// globals are the faults of a scale of scales: in what, and how often.
func (q *Question) globals(add adder) {
	for _, of := range []struct {
		id    string
		times int
	}{{"quantize.global-scale-missing", -1}, {"quantize.global-scale-twice", 1}} {
		add(of.id, func(s *quantize.Spec) { s.Globals[1] = of.times }, "elements")
		if q.Op == "quantize" {
			add(of.id, func(s *quantize.Spec) { s.Globals[0] = of.times }, "scales")
			add(of.id, func(s *quantize.Spec) { s.Globals = [2]int{of.times, of.times} }, "numbers")
		}
	}
}

// layouts are the faults of where scales stand.
func (q *Question) layouts(add adder) {
	g := q.grid
	if g.Scales() < 2 {
		return
	}
	add("quantize.scale-of-other-block", func(s *quantize.Spec) { s.Neighbour = true })
	add("quantize.scale-of-other-block", func(s *quantize.Spec) { s.Layout = quantize.Shifted })
	columns := g.Shape[len(g.Shape)-1]
	rows := g.Scales() / columns
	if min(rows, columns) > 1 {
		add("quantize.scales-transposed", func(s *quantize.Spec) { s.Layout = quantize.Transposed })
	}
	if rows%128 == 0 && columns%4 == 0 {
		add("quantize.scales-swizzled", func(s *quantize.Spec) { s.Layout = quantize.Swizzled })
	}
}

// axes are blocks along another axis, where there are as many.
func (q *Question) axes(add adder) {
	s := q.Spec
	for a := range q.shape {
		other := s
		other.Axis = a
		if g, err := other.Grid(q.shape); err == nil && g.Scales() == q.grid.Scales() &&
			!slices.Equal(g.Sizes, q.grid.Sizes) {
			add("quantize.other-axis", func(s *quantize.Spec) { s.Axis = a }, fmt.Sprint(a))
		}
	}
	var m, n int
	if k, _ := fmt.Sscanf(s.Block, "%dx%d", &m, &n); k == 2 && m != n {
		other := s
		other.Block = fmt.Sprintf("%dx%d", n, m)
		if g, err := other.Grid(q.shape); err == nil && g.Scales() == q.grid.Scales() {
			add("quantize.other-axis", func(s *quantize.Spec) { s.Block = other.Block }, fmt.Sprint(len(q.shape)-2))
		}
	}
}

// others are the types for which one may be taken.
func others(e quantize.Element) []fp16.Narrow {
	if e.Whole {
		return nil
	}
	return map[fp16.Narrow][]fp16.Narrow{
		fp16.E4M3:        {fp16.E5M2, fp16.E4M3FNUZ},
		fp16.E5M2:        {fp16.E4M3, fp16.E5M2FNUZ},
		fp16.E4M3FNUZ:    {fp16.E5M2FNUZ, fp16.E4M3},
		fp16.E5M2FNUZ:    {fp16.E4M3FNUZ, fp16.E5M2},
		fp16.E4M3B11FNUZ: {fp16.E4M3FNUZ},
		fp16.E3M4:        {fp16.E4M3},
		fp16.E3M2:        {fp16.E2M3},
		fp16.E2M3:        {fp16.E3M2},
	}[e.Narrow]
}

// elements are another type, with the scales of the right one or its own.
func (q *Question) elements(add adder, n fp16.Narrow) {
	s, e := q.Spec, quantize.Element{Narrow: n}
	add("quantize.other-elements", func(s *quantize.Spec) { s.Codes = &e }, n)
	if q.Op == "quantize" && s.Overflow == quantize.Saturate { // clamped to what the other type lacks
		add("quantize.other-elements", func(s *quantize.Spec) { s.Codes, s.Overflow = &e, quantize.ByMLDtypes }, n)
	}
	if q.Op == "quantize" && s.Kind != quantize.NoScale {
		add("quantize.other-elements", func(s *quantize.Spec) { s.Element = e }, n)
	}
}

// making are the faults of what makes scales and elements.
func (q *Question) making(add adder) {
	s := q.Spec
	if s.Rule != quantize.Given && s.Kind != quantize.NoScale {
		for _, r := range s.Rules() {
			if r != s.Rule && r != quantize.Given && r != quantize.MinMax {
				add("quantize.scale-rule", func(s *quantize.Spec) { s.Rule = r }, r)
			}
		}
		if s.Rule != quantize.MinMax {
			add("quantize.amax-signed", func(s *quantize.Spec) { s.Signed = true })
		}
		if n := len(q.shape); n > 0 && q.shape[n-1]%q.grid.Sizes[n-1] != 0 {
			add("quantize.padding-counted", func(s *quantize.Spec) { s.Overrun = true })
		}
	}
	if s.Kind == quantize.EightBits && s.Rule != quantize.Given {
		add("quantize.least-scale-missing", func(s *quantize.Spec) { s.NoLeast = true })
		add("quantize.truncated", func(s *quantize.Spec) { s.Cut = true }, "scales")
		add("quantize.truncated", func(s *quantize.Spec) { s.Cut, s.Rounding = true, quantize.Truncate }, "numbers")
	}
	if s.Overflow == quantize.Saturate && overflows(&s) {
		add("quantize.not-saturated", func(s *quantize.Spec) { s.Overflow = quantize.Wrap })
		add("quantize.not-saturated", func(s *quantize.Spec) { s.Overflow = quantize.ByMLDtypes })
	}
	if s.Rounding == quantize.NearestEven {
		add("quantize.truncated", func(s *quantize.Spec) { s.Rounding = quantize.Truncate }, "elements")
	}
}

// overflows reports whether quotients may be beyond the largest number. By the other rules the largest of a
// block is the largest number, or below it.
func overflows(s *quantize.Spec) bool {
	return s.Kind == quantize.NoScale || s.Kind == quantize.EightBits ||
		slices.Contains([]quantize.Rule{quantize.Floor, quantize.Even, quantize.Given}, s.Rule)
}
