package exact

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// Double returns the sum, but for 2^-104 of itself.
func (s *Sum) Double() double.Num {
	t := *s
	hi := t.Odd()
	t.Add(-hi)
	return double.Sum(hi, t.Odd())
}

// Mean returns the mean of the numbers, but for 2^-103 of itself.
func (m *Moments) Mean() double.Num { return m.sum.Double().By(float64(m.n)) }

// Above returns n x - S for n < 2^29 numbers of the sum S, that is n times what the float32
// number x is above their mean, but for 2^-104 of itself. It is 0 where x is the mean.
func (m *Moments) Above(x float64) double.Num {
	d := m.sum
	for i := range d.limb {
		d.limb[i] = -d.limb[i]
	}
	d.Add(float64(float64(m.n) * x)) // exact: 29 and 24 bits
	return d.Double()
}

// Deviation returns the square root of V, variance plus eps, but for 2^-102 of itself. ok is
// false where [Moments.Spread] knows nothing, or V is not positive or far from 1.
func (m *Moments) Deviation(eps float64) (sigma double.Num, ok bool) {
	a, ok := m.Spread(eps)
	if !ok || !(a.Hi >= 0x1p-400 && a.Hi <= 0x1p400) {
		return double.Num{}, false
	}
	return a.Root().By(float64(m.n)), true
}

// Spread returns n Q - S^2 + n^2 eps for n numbers of the sum S and the sum of squares
// Q, that is n^2 times their variance plus eps, but for 2^-104 of itself: NaN if a
// number was not finite. ok is false if there are too many numbers, or for an eps
// other than 0 that is not between 2^-200 and 2^200.
func (m *Moments) Spread(eps float64) (a double.Num, ok bool) {
	switch {
	case !m.squares.Finite():
		return double.Num{Hi: math.NaN(), Lo: math.NaN()}, true
	case m.n >= 1<<29, eps != 0 && !(eps >= 0x1p-200 && eps <= 0x1p200):
		return double.Num{}, false
	}
	s, n := m.sum, float64(m.n)
	s.carry()
	if s.limb[limbs-1] < 0 {
		for i := range s.limb {
			s.limb[i] = -s.limb[i]
		}
		s.carry()
	}
	t := m.squares
	t.carry()
	for i := range t.limb {
		t.limb[i] *= int64(m.n) // below 2^61
	}
	t.carry()
	// S is a multiple of 2^-149 below 2^157, so it has limbs from 6 to 15 only. The
	// product of limbs i and j counts 2^(32(i+j)+2 low).
	const first, last, shift = 6, 15, low / 32
	for i := first; i <= last; i++ {
		for j := first; j <= last; j++ {
			p := uint64(s.limb[i]) * uint64(s.limb[j])
			t.limb[i+j+shift] -= int64(p & 0xffffffff)
			t.limb[i+j+shift+1] -= int64(p >> 32)
		}
	}
	t.carry()
	once := double.Product(n, eps)
	for _, e := range [2]float64{once.Hi, once.Lo} {
		twice := double.Product(n, e)
		t.Add(twice.Hi)
		t.Add(twice.Lo)
	}
	return t.Double(), true
}
