package tensorcore

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// vector adds blocks of four columns at once. Only finite operands are laid out for it.
type vector struct {
	add  func(row, columns *float64, blocks, terms int, rule *asm.UnitRule, c *[4]float64) (done int)
	rule *asm.UnitRule
}

// vector returns the kernel of the unit on this processor, or nil.
func (u *Unit) vector() *vector {
	k := asm.UnitKernels()
	if k == nil || u.Output != fp16.Float32 || u.Terms%4 != 0 {
		return nil
	}
	keep := 23
	if u.Keep > 0 {
		keep = u.Keep
	}
	switch {
	case u.Kind == Floor:
		asm.Ran("matrix unit, floored")
		return &vector{k.Floor, asm.NewUnitRule(u.Fraction, keep, none)}
	case u.Kind == NVIDIA || u.Kind == Converted:
		asm.Ran("matrix unit, truncated")
		return &vector{k.Truncate, asm.NewUnitRule(u.Fraction, keep, u.Lowest[0])}
	}
	return nil
}

// packed lays lines of one length out, number by number, those of all lines and then their powers of two. It
// is nil where a number is not finite.
func packed(lines []line) []float64 {
	for _, l := range lines {
		for _, s := range l.spans {
			if s.hi > over/4 {
				return nil
			}
		}
	}
	n := len(lines)
	p := make([]float64, 2*n*len(lines[0].numbers))
	for j, l := range lines {
		for k, x := range l.numbers {
			at := 2 * n * k
			p[at+j] = x.v
			if x.e != none {
				p[at+n+j] = power(x.e)
			}
		}
	}
	return p
}

// chains is chains of a unit, of four columns in whole blocks.
func (v *vector) chains(u *Unit, row, columns []float64, a line, b []line, from, to int, c []float64) {
	if u.Kind == Converted {
		v.converted(u, row, columns, a, b, from, to, c)
		return
	}
	for at := from; at < to; {
		if blocks := (to - at) / u.Terms; blocks > 0 {
			at += u.Terms * v.add(&row[2*at], &columns[8*at], blocks, u.Terms, v.rule, (*[4]float64)(c))
		}
		if at < to { // what is rare, and the last numbers
			at = blocks(u, a, b, at, to, c)
		}
	}
}

// converted is chains of a unit that adds two blocks from zero, and then to the accumulator.
func (v *vector) converted(u *Unit, row, columns []float64, a line, b []line, from, to int, c []float64) {
	var sums [together]float64
	for at := from; at < to; {
		clear(sums[:])
		if at+u.Terms > to || v.add(&row[2*at], &columns[8*at], 2, u.Terms/2, v.rule, &sums) < 2 {
			at = blocks(u, a, b, at, to, c)
			continue
		}
		for j, s := range sums {
			c[j] = nearest(s + c[j])
		}
		at += u.Terms
	}
}

// blocks adds one block of a row and each of some columns in plain Go, and returns where it ends.
func blocks(u *Unit, a line, b []line, at, to int, c []float64) int {
	end := min(to, at+u.Terms)
	for j := range c {
		c[j] = u.block(a.numbers[at:end], b[j].numbers[at:end], c[j])
	}
	return end
}
