package kernel

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/report"
)

// Sum is a result that is a sum of products a[k]*b[k] and a bias, of float32 or narrower numbers.
type Sum struct {
	A, B   []float64
	Bias   float64
	Result float64 // as the kernel stored it
}

// manner is the way of a float32 sum: chains of so many terms, or so many chains, that are added up one after the
// other.
type manner struct {
	tile, parts int  // one of them, or none: one chain
	fused       bool // fused multiply-adds, or products that are rounded
	channels    bool // of a convolution: its channels last, (kh, kw, c)
	biasLast    bool // the bias is added at the end; else the sum begins with it
}

// String says it in words.
func (m manner) String() string {
	s := "k ascending"
	switch {
	case m.tile > 0:
		s = fmt.Sprintf("k in tiles of %d", m.tile)
	case m.parts > 0:
		s = fmt.Sprintf("k in %d parts", m.parts)
	}
	if m.channels {
		s += " of (kh, kw, c)"
	}
	if m.fused {
		s += ", fused multiply-adds"
	}
	if m.biasLast {
		s += ", the bias last"
	}
	return s
}

// Orders finds the order of k in which a kernel sums in float32, or those that explain the most results, stored in a
// format. Of a convolution taps is how many terms each channel has, and they come as (c, kh, kw); else it is 1. Tried
// are one chain, tiles of 16 to 128, and 2 to 16 parts, each with fused multiply-adds and without, from the bias on
// or with the bias last, and a convolution's as (c, kh, kw) and (kh, kw, c). Nil if there is nothing to tell.
func Orders(sums []Sum, taps int, store fp16.Format) *report.Order {
	if len(sums) == 0 || len(sums[0].A) < 2 {
		return nil
	}
	type found struct {
		manner
		values []float64
		equal  int
	}
	var all []found
	for _, m := range manners(sums, taps) {
		f := found{manner: m}
		for _, s := range sums {
			v := store.Round(s.in(m, taps))
			if f.values = append(f.values, v); v == s.Result {
				f.equal++
			}
		}
		all = append(all, f)
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].equal > all[k].equal })
	o := &report.Order{Name: all[0].String(), Equal: all[0].equal, Of: len(sums)}
	for _, f := range all[1:] {
		switch {
		case slices.Equal(f.values, all[0].values):
			o.Alike = append(o.Alike, f.String())
		case o.Next == "":
			o.Next, o.NextEqual = f.String(), f.equal
		}
	}
	return o
}

// manners are the ways that differ for such sums.
func manners(sums []Sum, taps int) (all []manner) {
	n := len(sums[0].A)
	var splits []manner
	for _, tile := range sumTiles {
		if tile < n {
			splits = append(splits, manner{tile: tile})
		}
	}
	for _, parts := range sumParts {
		if parts < n {
			splits = append(splits, manner{parts: parts})
		}
	}
	rounds, biased := false, false
	for _, s := range sums {
		biased = biased || s.Bias != 0
		for k, a := range s.A {
			rounds = rounds || float64(float32(a*s.B[k])) != a*s.B[k]
		}
	}
	for _, m := range splits {
		for _, m.fused = range []bool{true, false}[:1+one01(rounds)] {
			for _, m.channels = range []bool{false, true}[:1+one01(taps > 1 && taps < n)] {
				for _, m.biasLast = range []bool{false, true}[:1+one01(biased)] {
					w := m
					w.fused = m.fused && rounds // of products that are exact there is one way
					all = append(all, w)
				}
			}
		}
	}
	return all
}

func one01(is bool) int {
	if is {
		return 1
	}
	return 0
}

// in is the sum in one of the ways.
func (s Sum) in(m manner, taps int) float64 {
	n := len(s.A)
	at := func(k int) int { return k }
	if m.channels {
		c := n / taps
		at = func(k int) int { return k%c*taps + k/c }
	}
	chain := func(sum float64, from, to int) float64 {
		for k := from; k < to; k++ {
			p := s.A[at(k)] * s.B[at(k)]
			if m.fused {
				sum = fused(p, sum)
			} else {
				sum = float64(float32(float64(float32(p)) + sum))
			}
		}
		return sum
	}
	total := 0.0
	if !m.biasLast {
		total = s.Bias
	}
	each := m.tile
	if m.parts > 0 {
		each = (n + m.parts - 1) / m.parts
	}
	if each == 0 {
		total = chain(total, 0, n)
	} else {
		for k := 0; k < n; k += each {
			total = float64(float32(total + chain(0, k, min(n, k+each))))
		}
	}
	if m.biasLast {
		total = float64(float32(total + s.Bias))
	}
	return total
}

// fused is p + c rounded once to float32, of a product p of two float32 numbers and a float32 number c. Their sum in
// float64 may be rounded to a tie of float32 numbers that it is not: then what was lost says on which side it is.
func fused(p, c float64) float64 {
	s := p + c
	if math.Float64bits(s)&(1<<29-1) == 1<<28 {
		b := s - p
		lost := (p - (s - b)) + (c - b)
		if lost != 0 {
			s = math.Nextafter(s, math.Copysign(math.Inf(1), lost))
		}
	}
	return float64(float32(s))
}
