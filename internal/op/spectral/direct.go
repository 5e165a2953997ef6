package spectral

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/internal/exact"
)

// direct finds single numbers of a transform by their definition, without error.
type direct struct {
	*transform
	sum    *exact.Cosines
	steps  []int // by how many parts of a turn one number further on an axis turns
	turned [2][]int

	x     plane
	fits  bool // x is ints times 2^unit
	ints  [2][]int64
	unit  int
	whole []int64
	sums  []exact.Sum

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

// load takes the numbers of a set. If they are multiples of a power of 2 by whole numbers
// whose sum fits into 63 bits, as they nearly always are, they are added as such.
func (d *direct) load(x plane) {
	d.x = x
	clear(d.zero)
	d.unit = 1 << 20
	size := 0.0
	for _, part := range [2][]float64{x.re, x.im} {
		for _, v := range part {
			if v != 0 { // and normal
				b := math.Float64bits(v)
				d.unit = min(d.unit, int(b>>52&0x7ff)-1075+bits.TrailingZeros64(b&(1<<52-1)|1<<52))
				size += math.Abs(v)
			}
		}
	}
	if d.fits = size < math.Ldexp(1, d.unit+62); !d.fits {
		d.sums = make([]exact.Sum, d.sum.N())
		return
	}
	d.whole = make([]int64, d.sum.N())
	for i, part := range [2][]float64{x.re, x.im} {
		d.ints[i] = d.ints[i][:0]
		if i != d.empty() {
			for _, v := range part {
				d.ints[i] = append(d.ints[i], int64(math.Ldexp(v, -d.unit)))
			}
		}
	}
}

// empty returns which part of all numbers is 0, of real ones: 0 or 1, or else 2.
func (d *direct) empty() int {
	switch {
	case d.read == 2:
		return 2
	case d.inverse:
		return 0
	}
	return 1
}

// part returns a part of number k of the transform, rounded to odd.
func (d *direct) part(k, part int) float64 {
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
	// sin t = cos(t - n/4) and -sin t = cos(t + n/4).
	parts, quarter := [2]int{0, 1}, n-n/4
	if (part == 1) != d.inverse {
		parts, quarter = [2]int{1, 0}, n/4
	}
	turns := d.turns(n)
	if d.fits {
		clear(d.whole)
		add(d.whole, turns, d.ints[parts[0]], 0)
		add(d.whole, turns, d.ints[parts[1]], quarter)
		d.sum.SetInt(d.whole, d.unit)
	} else {
		clear(d.sums)
		for i, from := range [2][]float64{d.x.re, d.x.im} {
			by := 0
			if i == parts[1] {
				by = quarter
			}
			for j, turn := range turns {
				d.sums[(turn+by)%n].Add(from[j])
			}
		}
		d.sum.Set(d.sums)
	}
	y := d.sum.Odd(d.scale.count, d.scale.root)
	if y == 0 {
		d.zero[key] = true
	}
	return y
}

// add adds each number to that of its turn and by.
func add(to []int64, turns []int, x []int64, by int) {
	for i, v := range x {
		turn := turns[i] + by
		if turn >= len(to) {
			turn -= len(to)
		}
		to[turn] += v
	}
}

// turns returns by which part of a turn, in n-ths, each number is turned.
func (d *direct) turns(n int) []int {
	turns, next := append(d.turned[0][:0], 0), d.turned[1][:0]
	for a, step := range d.steps {
		next = next[:0]
		for _, turn := range turns {
			for range d.in.dims[a] {
				next = append(next, turn)
				if turn += step; turn >= n {
					turn -= n
				}
			}
		}
		turns, next = next, turns
	}
	d.turned = [2][]int{turns, next}
	return turns
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
