package sample

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
)

// spot is a position along one axis: its neighbours, and their weights in float64.
type spot struct {
	n      int    // how many neighbours
	at     [4]int // where they are, or -1 for none
	weight [4]float64
	t, s   pair // what the position is above its floor, and 1 - t
}

// pair is the sum of two float64 numbers, the first of which is that sum rounded to nearest.
type pair struct{ hi, lo float64 }

func sum(a, b float64) pair {
	hi, lo := exact.TwoSum(a, b)
	return pair{hi, lo}
}

// position is a + b.
type position struct{ a, b, low float64 } // low is what b's product lost, of float64 numbers

// less returns the position less a whole number, rounded to two float64 numbers. That is exact but for low.
func (p position) less(n float64) pair {
	v := sum(p.b, p.a-n)
	return sum(v.hi, v.lo+p.low)
}

// set finds the neighbours of the position that a grid's number names along an axis of n numbers. It reports whether
// there are any.
func (s *spot) set(g float64, n int, p Params) bool {
	switch {
	case g-g == 0:
	case p.Padding == Zeros:
		return false
	case p.Padding == Reflection || g != g:
		return s.only(0)
	}
	span := n
	if p.Corners {
		span--
	}
	switch {
	case p.Positions:
		return s.of(position{b: g}, n, p)
	case p.Padding == Reflection:
		g = p.turned(g)
	case math.Abs(g) > farOut: // so that nothing overflows, nor becomes NaN
		g = math.Copysign(farOut, g)
	}
	at := position{a: float64(n-1) / 2}
	at.b = float64(g * (float64(span) / 2))
	if math.Abs(g) < farOut {
		at.low = math.FMA(g, float64(span)/2, -at.b)
	}
	return s.of(at, n, p)
}

// of finds the neighbours of a position.
func (s *spot) of(at position, n int, p Params) bool {
	last := float64(n - 1)
	switch {
	case p.Mode == Cubic:
		return s.cubic(at, n, p)
	case p.early():
		return s.only(p.Place(int(at.nearest()), n))
	case p.Padding != Zeros:
		if here := at.less(0); here.hi < 0 {
			return s.only(0)
		} else if beyond := at.less(last); beyond.hi >= 0 {
			return s.only(n - 1)
		}
	}
	if p.Mode == Nearest { // or none beyond the ends
		k := at.nearest()
		return k >= 0 && k <= last && s.only(int(k))
	}
	return s.linear(at, n)
}

// early reports whether numbers are reflected, and not positions.
func (p Params) early() bool { return p.Mode == Nearest && p.Padding == Reflection && p.Early }

// farOut is beyond the ends of every axis.
const farOut = 0x1p60

// turned is a grid's number with the axis turned round at -1 and 1 as often as it takes. It is exact: so is the
// remainder by 4, and so is 2 less a number between 1 and 2. Where numbers are reflected only whole periods are gone.
func (p Params) turned(g float64) float64 {
	r := g - float64(4*math.RoundToEven(g/4))
	switch {
	case p.Mode == Cubic || p.early():
	case r > 1:
		return 2 - r
	case r < -1:
		return -2 - r
	}
	return r
}

// only is a number alone.
func (s *spot) only(at int) bool {
	*s = spot{n: 1, t: pair{}, s: pair{hi: 1}}
	s.at[0], s.weight[0] = at, 1
	return true
}

// nearest returns the whole number next to a position. One that is rounded to float64 is the middle of two only if it
// is that, or what is lost says on which side.
func (p position) nearest() float64 {
	v := p.less(0)
	at := math.RoundToEven(v.hi)
	switch d := v.hi - at; {
	case d == .5 && v.lo > 0:
		at++
	case d == -.5 && v.lo < 0:
		at--
	}
	return at
}

// floor returns that of a position.
func (p position) floor() float64 {
	v := p.less(0)
	at := math.Floor(v.hi)
	if at == v.hi && v.lo < 0 {
		at--
	}
	return at
}

// between sets the position as it is between two numbers.
func (s *spot) between(p position, floor float64) {
	s.t, s.s = p.less(floor), p.less(floor+1)
	s.s = pair{-s.s.hi, -s.s.lo}
}

// linear are both neighbours. Those beyond the ends are none.
func (s *spot) linear(p position, n int) bool {
	at := p.floor()
	if !(at >= -1 && at < float64(n)) {
		return false
	}
	s.between(p, at)
	s.n, s.at, s.weight = 2, [4]int{int(at), int(at) + 1}, [4]float64{s.s.hi, s.t.hi}
	if s.at[1] == n {
		s.at[1] = -1
	}
	return true
}

// cubic are the four neighbours: at distances 1+t, t, 1-t and 2-t. Keys' polynomials of them are
//
//	-3/4 t (1-t)^2,  (1-t) (1 + t (1 - 5/4 t)),
//
// and the same of 1-t in place of t. Each factor has an error of few u in proportion: t and 1-t are rounded once, so
// that the first is off by 6 u. Of the second, 5/4 t is off by 2.5 u; 1 less that, which lies between -1/4 and 1, by
// 3.5 u; times t, by 5.5 u; 1 more, which is 3/4 to 6/5, by 6.7 u and so by 9 u in proportion; times 1-t by 11 u.
func (s *spot) cubic(p position, n int, params Params) bool {
	at, least, most := p.floor(), -2., float64(n)
	if params.Padding != Reflection && !(at >= least && at <= most) {
		if params.Padding == Zeros {
			return false
		}
		at = min(max(at, least-1), most+1) // all four neighbours are the last number
		p = position{a: at}
	}
	s.between(p, at)
	outer := func(t, s float64) float64 { return float64(-.75 * float64(float64(t*s)*s)) }
	inner := func(t, s float64) float64 { return float64(s * (1 + float64(t*(1-float64(1.25*t))))) }
	t, r := s.t.hi, s.s.hi
	s.n, s.weight = 4, [4]float64{outer(t, r), inner(t, r), inner(r, t), outer(r, t)}
	for k := range s.at {
		s.at[k] = params.Place(int(at)+k-1, n)
	}
	return true
}

// Place is where number k of an axis of n is found once it is padded, or -1 of zeros.
func (p Params) Place(k, n int) int {
	switch {
	case k >= 0 && k < n:
		return k
	case p.Padding == Zeros:
		return -1
	case p.Padding == Border:
		return min(max(k, 0), n-1)
	case p.Corners && n == 1:
		return 0
	}
	period, twice := 2*n, 1 // the ends are there twice
	if p.Corners {
		period, twice = 2*n-2, 0
	}
	if k = (k%period + period) % period; k >= n {
		k = period - twice - k
	}
	return k
}
