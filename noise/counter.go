package noise

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// Counter is the project's own random stream: every number is a function of
// (seed, operator, realization, step, site, element) and of nothing else. So
// the numbers do not depend on how a run is split into batches, on threads or
// on the machine, and a GPU kernel can form any of them in place.
//
// One block of Philox4x32-10 makes two or four of them. The key is the seed,
// low word first, and the counter is
//
//	word 0   block, that is element/4, or element/2 for Exponential
//	word 1   realization
//	word 2   256*step + site
//	word 3   operator
//
// where site counts the draws of one operator application and element is the
// row-major index within one realization of the tensor drawn; of a ComplexNormal
// every part is an element. The block's words x0 to x3 become numbers as
// follows, with E, the angle and all arithmetic as defined at [Counter.At].
//
//	Normal         sqrt(2E) cos, sqrt(2E) sin of (x0,x1), then of (x2,x3)
//	ComplexNormal  sqrt(E) cos, sqrt(E) sin of (x0,x1), then of (x2,x3)
//	Exponential    E of (x0,x1), then of (x2,x3)
//	Bernoulli      1 if x < 2^32 p, else 0, for x = x0, x1, x2, x3
//
// docs/NOISE.md has the definition for those who port it, with known answers.
type Counter struct {
	Seed     uint64
	Operator uint32 // of a family that shares the seed; 0 if there is but one
}

// What the counter has room for.
const (
	counterSites    = 1 << 8
	counterSteps    = 1 << 24
	counterMembers  = 1 << 32 // realizations
	counterElements = 1 << 33 // of one realization and site: two a block at least
)

// String returns the stream's name.
func (c Counter) String() string { return "counter" }

// At returns the draws of one operator application: those of a step for
// realizations lo to hi-1. The i-th call of Draw is site i, and the first
// dimension of its shape must be hi-lo.
//
// A pair of words (a, b) makes the integers m = 2^8 a + floor(b/2^24), of 40
// bits, and k = b mod 2^24, of 24 bits, and from them
//
//	E = -ln((2m+1) 2^-41)   and   the angle 2 pi (2k+1) 2^-25
//
// E is exponentially distributed, up to 28.4, and the normals reach 7.53 (one
// in 2*10^13 true ones lies beyond); none of the numbers is zero. E, sine and
// cosine are a fixed list of float64 operations, each rounded to nearest
// (docs/NOISE.md lists them); they are off by less than 2^-50 of themselves, but it is
// the list that defines them. Then come the root and one product, in float64,
// and one rounding to float32. Bernoulli compares exactly, so p has a resolution
// of 2^-32.
//
// Steps run from 0 to 2^24-1 and realizations from 0 to 2^32-1; beyond is an
// error. A draw of more than 2^33 numbers per realization, the 257th draw, a p
// outside [0,1], an unknown kind and a shape for another number of
// realizations are errors of Draw. It panics unless 0 <= lo <= hi. The draws
// serve one goroutine at a time; each spreads over the processors.
func (c Counter) At(step, lo, hi int) (Draws, error) {
	if lo < 0 || hi < lo {
		panic("noise: realizations out of order")
	}
	if step < 0 || step >= counterSteps {
		return nil, fmt.Errorf("noise: counter: step %d: want 0 to %d", step, counterSteps-1)
	}
	if int64(hi) > counterMembers {
		return nil, fmt.Errorf("noise: counter: realization %d: want 0 to %d", hi-1, int64(counterMembers-1))
	}
	return &counterDraws{Counter: c, step: uint32(step), lo: lo, hi: hi}, nil
}

// Slice returns the draws for realizations lo to hi-1 of its own alone: see [Draws].
func (d *counterDraws) Slice(lo, hi int) (Draws, bool) {
	if lo < 0 || hi < lo || hi > d.hi-d.lo {
		return nil, false
	}
	part := *d
	part.lo, part.hi = d.lo+lo, d.lo+hi
	return &part, true
}

// counterDraws are the draws of one application.
type counterDraws struct {
	Counter
	step   uint32
	lo, hi int
	site   int // of the next draw
}

// Draw implements [Draws]. A dst that does not have the shape panics.
func (d *counterDraws) Draw(kind Kind, p float64, shape []int, dst []float64) error {
	if int(kind) >= len(kindNames) {
		return fmt.Errorf("noise: counter has no draw %v", kind)
	}
	if kind == Bernoulli && !(p >= 0 && p <= 1) {
		return fmt.Errorf("noise: counter: Bernoulli probability %v is not in [0, 1]", p)
	}
	if d.site == counterSites {
		return fmt.Errorf("noise: counter: more than %d draws in one application", counterSites)
	}
	if len(shape) == 0 || shape[0] != d.hi-d.lo {
		return fmt.Errorf("noise: counter: shape %s: want %d realizations first", dims(shape), d.hi-d.lo)
	}
	n := int64(1) // numbers per realization
	if kind == ComplexNormal {
		n = 2
	}
	for _, s := range shape[1:] {
		if n != 0 && int64(s) > counterElements/n {
			return fmt.Errorf("noise: counter: shape %s: want at most %d numbers per realization", dims(shape),
				int64(counterElements))
		}
		n *= int64(s)
	}
	if int64(len(dst)) != int64(shape[0])*n {
		panic("noise: dst does not have the drawn shape")
	}
	each := int(n)
	pieces := (each + piece - 1) / piece
	kernels := asm.NoiseKernels()
	if kernels != nil && each > 0 {
		asm.Ran("counter " + kind.String() + " " + asm.ISA())
	}
	par.For(shape[0]*pieces, func(i int) {
		r, from := i/pieces, i%pieces*piece
		to := min(from+piece, each)
		d.fill(kernels, dst[r*each+from:r*each+to], kind, p, uint32(d.lo+r), from, d.site, new(asm.Philox))
	})
	d.site++
	return nil
}

// take passes a draw by, whose numbers are formed elsewhere.
func (d *counterDraws) take() error {
	if d.site == counterSites {
		return fmt.Errorf("noise: counter: more than %d draws in one application", counterSites)
	}
	d.site++
	return nil
}

// fill writes the numbers of a realization from element first on, a multiple
// of 4: as many as the kernels can form in groups of blocks, if there are any,
// and the rest one block at a time. at is scratch.
func (d *counterDraws) fill(
	kernels *asm.Noise, dst []float64, kind Kind, p float64, realization uint32, first, site int, at *asm.Philox,
) {
	k0, k1 := uint32(d.Seed), uint32(d.Seed>>32)
	place := d.step<<8 | uint32(site)
	perBlock := 4
	if kind == Exponential {
		perBlock = 2
	}
	block := uint32(first / perBlock)
	if kernels != nil {
		if groups := len(dst) / (perBlock * kernels.Lanes); groups > 0 {
			at.Set(k0, k1, block, realization, place, d.Operator)
			vectors(kernels, &dst[0], groups, kind, p, at)
			dst = dst[groups*perBlock*kernels.Lanes:]
			block += uint32(groups * kernels.Lanes)
		}
	}
	var v [4]float64
	for ; len(dst) > 0; block++ {
		x0, x1, x2, x3 := philox(k0, k1, block, realization, place, d.Operator)
		switch kind {
		case Normal:
			v[0], v[1] = boxMuller(x0, x1, 2)
			v[2], v[3] = boxMuller(x2, x3, 2)
		case ComplexNormal:
			v[0], v[1] = boxMuller(x0, x1, 1)
			v[2], v[3] = boxMuller(x2, x3, 1)
		case Exponential:
			v[0] = float64(float32(negLog(x0, x1)))
			v[1] = float64(float32(negLog(x2, x3)))
		case Bernoulli:
			for j, x := range [4]uint32{x0, x1, x2, x3} {
				v[j] = 0
				if float64(x) < float64(p*0x1p32) { // both sides are exact
					v[j] = 1
				}
			}
		}
		dst = dst[copy(dst, v[:perBlock]):]
	}
}

// vectors is fill by the kernels.
func vectors(k *asm.Noise, dst *float64, groups int, kind Kind, p float64, at *asm.Philox) {
	switch kind {
	case Normal:
		k.Normal(dst, groups, &at[0], 2)
	case ComplexNormal:
		k.Normal(dst, groups, &at[0], 1)
	case Exponential:
		k.Exponential(dst, groups, &at[0])
	case Bernoulli:
		t := float64(p * 0x1p32) // exact; an integer x is less if it is less than t rounded up
		below := uint64(t)
		if float64(below) < t {
			below++
		}
		k.Bernoulli(dst, groups, &at[0], below)
	}
}

// boxMuller returns sqrt(variance E) times the cosine and the sine of the
// angle (G. Box, M. Muller, Annals of Mathematical Statistics 29, 1958):
// independent normals of half that variance, as float32 numbers.
func boxMuller(a, b uint32, variance float64) (x, y float64) {
	r := math.Sqrt(float64(variance * negLog(a, b)))
	sin, cos := sinCos(b & (1<<24 - 1))
	return float64(float32(r * cos)), float64(float32(r * sin))
}

// negLog returns E = -ln(n 2^-41) for n = 2m+1.
//
// With n = f 2^e and f in [sqrt(1/2), sqrt(2)), bounds as rounded below, E is
// (41-e) ln 2 - ln f and ln f = 2 atanh(s), s = (f-1)/(f+1), by its Taylor
// polynomial of degree 19. As s^2 < 0.0295 the polynomial misses less than
// s^20/21 < 2^-55 of ln f. The difference f-1 and the sum f+1 are exact. The
// roundings of s, of the last two operations of the polynomial, of (41-e) ln 2
// and of the difference make 2^-50 a safe bound of the relative error: e = 41
// leaves -ln f alone, and otherwise E > 0.34 with |ln f| < 0.35.
func negLog(a, b uint32) float64 {
	const rootHalf = 0x3fe6a09e667f3bcd // bits of sqrt(1/2), rounded to nearest
	n := math.Float64bits(float64(uint64(a)<<9 | uint64(b)>>24<<1 | 1))
	e := int64(n-rootHalf) >> 52 // the sign fills
	f := math.Float64frombits(n - uint64(e)<<52)
	s := (f - 1) / (f + 1)
	z := float64(s * s)
	y := 1. / 19
	y = 1./17 + float64(z*y)
	y = 1./15 + float64(z*y)
	y = 1./13 + float64(z*y)
	y = 1./11 + float64(z*y)
	y = 1./9 + float64(z*y)
	y = 1./7 + float64(z*y)
	y = 1./5 + float64(z*y)
	y = 1./3 + float64(z*y)
	t := s + s
	log := t + float64(t*float64(z*y))
	return float64(float64(41-e)*math.Ln2) - log
}

// sinCos returns sine and cosine of the angle 2 pi (2k+1) 2^-25, k < 2^24.
//
// The upper three bits of k are the octant. The rest j, or 2^21-1-j in odd
// octants, where the angle is measured from the octant's end, gives x =
// (2j+1) pi 2^-24 in (0, pi/4), one product with a rounded constant: within
// 2^-52 of itself. The Taylor polynomials of degree 15 and 16 miss less than
// 2^-53 and 2^-58, and add a rounding or two: 2^-50 is a safe bound of the
// relative errors.
func sinCos(k uint32) (sin, cos float64) {
	octant := k >> 21
	j := (k ^ -(octant & 1)) & (1<<21 - 1)
	x := float64(float64(2*j+1) * (math.Pi * 0x1p-24))
	z := float64(x * x)
	s := -1. / 1307674368000
	s = 1./6227020800 + float64(z*s)
	s = -1./39916800 + float64(z*s)
	s = 1./362880 + float64(z*s)
	s = -1./5040 + float64(z*s)
	s = 1./120 + float64(z*s)
	s = -1./6 + float64(z*s)
	s = x + float64(x*float64(z*s))
	c := 1. / 20922789888000
	c = -1./87178291200 + float64(z*c)
	c = 1./479001600 + float64(z*c)
	c = -1./3628800 + float64(z*c)
	c = 1./40320 + float64(z*c)
	c = -1./720 + float64(z*c)
	c = 1./24 + float64(z*c)
	c = -1./2 + float64(z*c)
	c = 1 + float64(z*c)
	// By bit pattern, as octants come at random: octants 1, 2, 5 and 6 swap the
	// two, 4 to 7 negate the sine, 2 to 5 the cosine.
	u, v := math.Float64bits(s), math.Float64bits(c)
	swap := (u ^ v) & -(uint64(octant+1) >> 1 & 1)
	sin = math.Float64frombits(u ^ swap ^ uint64(octant>>2)<<63)
	cos = math.Float64frombits(v ^ swap ^ uint64((octant+2)>>2&1)<<63)
	return sin, cos
}
