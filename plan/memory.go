package plan

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/tensor"
)

// span is a piece of memory between the first and the last pass that use it.
type span struct{ first, last, size, at int }

// use notes that a pass uses it.
func (s *span) use(pass int) { s.first, s.last = min(s.first, pass), max(s.last, pass) }

// arrange finds a place for each: the lowest that is free as long as it is in use, for one after
// the other. It returns how much memory they take.
func arrange(spans []*span) (most int) {
	slices.SortStableFunc(spans, func(a, b *span) int { return cmp.Compare(a.first, b.first) })
	var placed []*span // that are in use, by their places
	for _, s := range spans {
		placed = slices.DeleteFunc(placed, func(o *span) bool { return o.last < s.first })
		for _, o := range placed {
			if o.first <= s.last && o.at < s.at+s.size && s.at < o.at+o.size {
				s.at = o.at + o.size
			}
		}
		k, _ := slices.BinarySearchFunc(placed, s.at, func(o *span, at int) int { return cmp.Compare(o.at, at) })
		placed = slices.Insert(placed, k, s)
		most = max(most, s.at+s.size)
	}
	return most
}

// slot is the tensor of a value that a definition makes or reads. It may see the numbers of
// another one in another shape, or some of them.
type slot struct {
	*tensor.Tensor
	root  *slot
	first int // of the root's numbers
	span      // of a root
}

// use notes that a pass uses it. A constant has no root.
func (s *slot) use(pass int) {
	if s != nil && s.root != nil {
		s.root.span.use(pass)
	}
}

// placeSlots finds memory for tensors. While passes are made, these have shapes and no numbers.
func (c *compiler) placeSlots() (most int) {
	var spans []*span
	for _, s := range c.slots {
		if s.span = (span{first: len(c.p.passes), size: (tensor.Size(s.Shape) + 7) / 8 * 8}); s.root == s {
			spans = append(spans, &s.span)
		}
	}
	for i, x := range c.p.passes {
		switch x := x.(type) {
		case *otherPass:
			for _, s := range x.slots {
				s.use(i)
			}
		case *packPass:
			x.src.use(i)
		case *unpackPass:
			x.dst.use(i)
		case *copyPass:
			x.src.use(i)
		case *flatPass:
			x.wide.use(i)
		}
	}
	return arrange(spans)
}

func (c *compiler) takeSlots(most int) {
	all := asm.Paged[float64](most)
	for _, s := range c.slots {
		n := tensor.Size(s.Shape)
		s.Data = all[s.root.at+s.first:][:n:n]
	}
	c.p.images += 8 * int64(most)
}

// fitIn returns an error if so many bytes between passes, with what is there before and what an
// operation sets aside, are more than there is.
func (c *compiler) fitIn(between int64) error {
	bytes, aside := c.p.program.Given(), int64(0)
	for _, v := range c.g.Outputs {
		bytes = memory.Sum(bytes, c.p.program.Type(v).Bytes())
	}
	for _, x := range c.p.passes {
		if o, ok := x.(*otherPass); ok {
			aside = max(aside, c.p.program.Aside(o.node))
		}
	}
	c.p.needs = memory.Sum(bytes, between, aside)
	return c.p.program.Within(c.p.needs)
}
