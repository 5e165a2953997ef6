// Package whole multiplies matrices of small whole numbers, which is what is left of products in 8 bits when their
// zero points are taken away. Their sums are exact in 32 bits, and so the same in any order, and the same as those of
// float64 numbers: a product of float64 numbers that are whole and small needs no float64 arithmetic.
//
// Numbers of both operands are at most 32767, and the sums of a product of two below 2^31: [Fit] says so.
package whole

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
)

// Lines is the left operand: lines of numbers in pairs, and lines of zeros up to a multiple of the kernel's.
type Lines struct {
	numbers []int16
	lines   int
	pairs   int
	most    int // the greatest absolute value
}

// Panels is the right operand: its columns side by side, in panels of the kernel's width, term by term in pairs.
type Panels struct {
	numbers []int16
	bytes   []int8 // in place of numbers: see Shorten
	columns int
	pairs   int
	most    int
}

// Sums is the memory for a tile of sums, and for a panel of numbers of 8 bits as wider ones.
type Sums struct {
	of    [asm.WholeLines * asm.WholeColumns]int32
	panel []int16
}

// Runs reports whether there are kernels.
func Runs() bool { return asm.WholeKernels() != nil }

// number returns v as a number of 16 bits with its absolute value, which is too large if v is none.
func number(v float64) (n int16, size int) {
	i := int32(v)
	if float64(i) != v || i < -math.MaxInt16 || i > math.MaxInt16 {
		return 0, math.MaxInt32
	}
	return int16(i), int(max(i, -i))
}

// Set makes lines of terms numbers, of which those of one line are step apart and those of neighbouring lines line.
// It reports whether all are whole and small; else the operand is of no use.
func (l *Lines) Set(data []float64, lines, terms, line, step int) bool {
	l.lines, l.pairs, l.most = lines, (terms+1)/2, 0
	room(&l.numbers, (lines+asm.WholeLines-1)/asm.WholeLines*asm.WholeLines*2*l.pairs)
	clear(l.numbers[lines*2*l.pairs:])
	for i := range lines {
		to := l.numbers[i*2*l.pairs:][:2*l.pairs]
		to[len(to)-1] = 0
		at := i * line
		if step == 1 {
			most, ok := Narrow(to, data[at:at+terms])
			if l.most = max(l.most, most); !ok {
				return false
			}
			continue
		}
		for t := range terms {
			n, size := number(data[at])
			to[t], l.most = n, max(l.most, size)
			at += step
		}
		if l.most > math.MaxInt16 {
			return false
		}
	}
	return true
}

// Set makes columns of terms numbers, of which those of one column are step apart and those of neighbouring columns
// column. It reports what Lines.Set does.
func (p *Panels) Set(data []float64, columns, terms, column, step int) bool {
	p.Make(columns, terms)
	for c := range columns {
		at, to := c*column, p.numbers[p.place(c):]
		for t := range terms {
			n, size := number(data[at])
			to[t/2*2*asm.WholeColumns+t%2], p.most = n, max(p.most, size)
			at += step
		}
		if p.most > math.MaxInt16 {
			return false
		}
	}
	return true
}

// Shorten keeps the numbers in 8 bits if they fit, for an operand that is used often: a product of one line takes as
// long as memory takes to bring them.
func (p *Panels) Shorten() {
	if p.most > -math.MinInt8 {
		return
	}
	short := make([]int8, len(p.numbers))
	for i, n := range p.numbers {
		short[i] = int8(n)
		if int16(short[i]) != n {
			return
		}
	}
	p.numbers, p.bytes = nil, short
}

// Make makes room for columns of zeros.
func (p *Panels) Make(columns, terms int) {
	p.columns, p.pairs, p.most = columns, (terms+1)/2, 0
	room(&p.numbers, p.Count()*asm.WholeColumns*2*p.pairs)
	clear(p.numbers)
}

// Narrow sets dst to the numbers of src and returns the greatest absolute value. It reports whether all are whole and
// small.
func Narrow(dst []int16, src []float64) (most int, ok bool) {
	if k := asm.WholeKernels(); k != nil && len(src) >= 8 {
		n := len(src) &^ 7
		if most = int(k.Narrow(&dst[:n][0], &src[0], n)); most > math.MaxInt16 {
			return most, false
		}
		dst, src = dst[n:], src[n:]
	}
	for i, v := range src {
		n, size := number(v)
		dst[i], most = n, max(most, size)
		if most > math.MaxInt16 {
			return most, false
		}
	}
	return most, true
}

// SetPair sets terms 2 pair and the next of all columns of the first panel to numbers side by side.
func (p *Panels) SetPair(pair int, a, b []int16) {
	to := p.numbers[pair*2*asm.WholeColumns:][:2*asm.WholeColumns]
	asm.WholeKernels().Weave(&to[0], &a[:asm.WholeColumns][0], &b[:asm.WholeColumns][0])
}

// Term returns the numbers of a term, of which those of one panel's columns are 2 apart, from the first column on.
func (p *Panels) Term(t int) []int16 { return p.numbers[t/2*2*asm.WholeColumns+t%2:] }

// place returns where column c begins. Its terms follow in pairs, a pair of all columns of the panel after the other.
func (p *Panels) place(c int) int {
	return c/asm.WholeColumns*asm.WholeColumns*2*p.pairs + c%asm.WholeColumns*2
}

// Count returns the number of panels.
func (p *Panels) Count() int { return (p.columns + asm.WholeColumns - 1) / asm.WholeColumns }

// Bytes returns the memory that the operand holds.
func (p *Panels) Bytes() int64 { return 2*int64(cap(p.numbers)) + int64(cap(p.bytes)) }

// Bytes returns the memory that the operand holds.
func (l *Lines) Bytes() int64 { return 2 * int64(cap(l.numbers)) }

// Fit reports whether no sum of the operands' products leaves 32 bits.
func Fit(l *Lines, p *Panels) bool { return FitMost(l, p.most) }

// FitMost is Fit of a right operand with that greatest absolute value.
func FitMost(l *Lines, most int) bool {
	return float64(l.most)*float64(most)*float64(2*l.pairs) < 1<<31
}

// Multiply sets the columns of one panel of the product, of which lines are line apart and columns column: to the
// sums, plus an addend for each line, nil for none.
func Multiply(dst []float64, line, column int, l *Lines, p *Panels, panel int, addend []float64, sums *Sums) {
	k, size := asm.WholeKernels(), 2*l.pairs
	first := panel * asm.WholeColumns
	columns := min(asm.WholeColumns, p.columns-first)
	var right *int16
	switch {
	case p.bytes == nil:
		right = &p.numbers[first*size]
	case l.lines > 1:
		room(&sums.panel, asm.WholeColumns*size)
		k.Widen(&sums.panel[0], &p.bytes[first*size:][:len(sums.panel)][0], len(sums.panel))
		right = &sums.panel[0]
	}
	for at := 0; at < l.lines; at += asm.WholeLines {
		n := min(asm.WholeLines, l.lines-at)
		switch left := &l.numbers[at*size]; {
		case right == nil:
			k.MultiplyBytes(left, &p.bytes[first*size], l.pairs, &sums.of[0])
		case n == 1:
			k.MultiplyLine(left, 2*size, right, l.pairs, &sums.of[0])
		default:
			k.Multiply(left, 2*size, right, l.pairs, &sums.of[0])
		}
		for i := range n {
			add := 0.0
			if addend != nil {
				add = addend[at+i]
			}
			to := (at+i)*line + first*column
			if column == 1 && columns == asm.WholeColumns {
				k.Floats(&dst[to : to+columns][0], &sums.of[i*asm.WholeColumns], add)
				continue
			}
			for _, s := range sums.of[i*asm.WholeColumns:][:columns] {
				dst[to] = float64(s) + add
				to += column
			}
		}
	}
}

// room sets a slice's length.
func room(v *[]int16, n int) {
	if cap(*v) < n {
		*v = make([]int16, n)
	}
	*v = (*v)[:n]
}
