package spectral

import (
	"math"

	"github.com/refrun/refrun/internal/double"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// vanishes reports whether a part of number k of the result is 0 whatever the numbers
// are: the imaginary part of what is its own conjugate.
func (t *transform) vanishes(k, part int) bool {
	if t.read == 2 || part == 0 {
		return false
	}
	for a := len(t.lines) - 1; a >= 0; a-- {
		d := t.out.dims[a]
		if 2*(k%d)%t.lines[a].n != 0 {
			return false
		}
		k /= d
	}
	return true
}

// settle decides the open roundings of set i, whose magnitudes add up to size.
func (w *worker) settle(dst *tensor.Tensor, i int, size float64) {
	f := dst.Format
	to := func(open int) *float64 {
		return &dst.Data[w.write*(w.out.first[i]+w.out.along[open/2])+open%2]
	}
	rest := w.open
	if len(w.open) > w.worth() {
		rest = w.open[:0]
		y := w.double()
		bound := 0.0
		for _, l := range w.lines {
			bound += l.unitsDD
		}
		bound = float64(bound * (1.0001 * 0x1p-106 * size / w.scale.div))
		for _, open := range w.open {
			v := y[open/2].re
			if (open%2 == 1) != w.inverse {
				v = y[open/2].im
			}
			v = v.Over(w.scale.wide)
			err := bound + float64(math.Abs(v.Hi)*(24*0x1p-106)) // 15 of the quotient, 8 of the root
			rounded, ok := f.Decide(v.Hi+0, math.Abs(v.Lo)+err)
			if !ok {
				var odd float64
				if odd, ok = v.Odd(err); ok {
					rounded = f.Round(odd)
				}
			}
			if ok {
				*to(open) = rounded
			} else {
				rest = append(rest, open)
			}
		}
	}
	if len(rest) == 0 {
		return
	}
	if w.exact == nil {
		w.exact = newDirect(w.transform)
	}
	clear(w.exact.zero)
	for _, open := range rest {
		*to(open) = f.Round(w.exact.part(w.x, open/2, open%2))
	}
}

// worth returns for how many numbers of a set the sums of direct take about as long as
// all its numbers in two words: a stage of radix p is p products for each number, each of
// which takes as long as some additions.
func (t *transform) worth() int {
	n := 0
	for _, l := range t.lines {
		for _, p := range l.primes {
			n += 4 * p
		}
	}
	return n
}

// double returns the transform of the set with two words for each number.
func (w *worker) double() []complexNum {
	if w.wideA == nil {
		w.wideA, w.wideB = make([]complexNum, len(w.a.re)), make([]complexNum, len(w.a.re))
	}
	a, b := w.wideA, w.wideB
	for k, x := range w.x.re {
		a[k] = complexNum{double.Num{Hi: x}, double.Num{Hi: w.x.im[k]}}
	}
	w.passes(func(l *line, outer, inner int) {
		n := l.n * inner
		for o := range outer {
			l.transformDD(a[o*n:(o+1)*n], b[o*n:(o+1)*n], inner)
		}
		if len(l.primes)%2 == 1 {
			a, b = b, a
		}
	}, func(rows, from, to int) { resize(a, rows, from, to) })
	return a
}

// direct finds single numbers of a transform by their definition, without error.
type direct struct {
	*transform
	sum    *exact.Cosines
	steps  []int // by how many parts of a turn one number further on an axis turns
	phases [2][]int

	// Structured numbers, constant ones for example, have transforms of which nearly
	// everything is exactly 0, and one such 0 tells of others. The map of the field of
	// the roots of unity that takes each root w to w^g, g without a divisor in common
	// with the order of w, takes the sum of x[j] w^(jk) to the same sum for gk, if the
	// x[j] are rational, and the imaginary unit to itself or to its negative. So the
	// imaginary part at gk is 0 if that at k is, and likewise the real part; if the
	// x[j] are complex this holds as long as the imaginary unit stays, for g = 1 modulo 4.
	units []int
	zero  map[int]bool // by the least of the places gk, for each part
}

func newDirect(t *transform) *direct {
	d := &direct{transform: t, steps: make([]int, len(t.lines)), zero: map[int]bool{}}
	turn := 1
	for _, l := range t.lines {
		turn = turn / gcd(turn, l.n) * l.n
	}
	d.sum = exact.NewCosines(turn)
	for g := 1; g < d.sum.N(); g += 2 {
		if gcd(g, turn) == 1 && (t.read == 1 || g%4 == 1) {
			d.units = append(d.units, g)
		}
	}
	return d
}

// part returns a part of number k of the transform of x, rounded to odd.
func (d *direct) part(x plane, k, part int) float64 {
	n := d.sum.N()
	at := make([]int, len(d.lines))
	for a := len(at) - 1; a >= 0; a-- {
		at[a] = k % d.out.dims[a]
		k /= d.out.dims[a]
		d.steps[a] = at[a] * (n / d.lines[a].n)
	}
	key := 2*d.least(at) + part
	if d.zero[key] {
		return 0
	}
	// x e^(-i t) = (x.re cos t + x.im sin t) + i (x.im cos t - x.re sin t), with
	// sin t = cos(t - n/4).
	c, s, sign := x.re, x.im, 1.0
	if (part == 1) != d.inverse {
		c, s, sign = x.im, x.re, -1
	}
	d.sum.Reset()
	for i, phase := range d.turns(n) {
		if c[i] != 0 {
			d.sum.Add(phase, c[i])
		}
		if s[i] != 0 {
			if phase -= n / 4; phase < 0 {
				phase += n
			}
			d.sum.Add(phase, sign*s[i])
		}
	}
	y := d.sum.Odd(d.scale.count, d.scale.root)
	if y == 0 {
		d.zero[key] = true
	}
	return y
}

// turns returns by which part of a turn, in n-ths, each number is turned.
func (d *direct) turns(n int) []int {
	phases, next := append(d.phases[0][:0], 0), d.phases[1][:0]
	for a, step := range d.steps {
		next = next[:0]
		for _, phase := range phases {
			for range d.in.dims[a] {
				next = append(next, phase)
				if phase += step; phase >= n {
					phase -= n
				}
			}
		}
		phases, next = next, phases
	}
	d.phases = [2][]int{phases, next}
	return phases
}

// least returns the least of the places gk for all units g.
func (d *direct) least(at []int) int {
	least := math.MaxInt
	for _, g := range d.units {
		place := 0
		for a, k := range at {
			n := d.lines[a].n
			place = place*n + g*k%n
		}
		least = min(least, place)
	}
	return least
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
