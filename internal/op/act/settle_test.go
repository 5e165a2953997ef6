package act

import (
	"flag"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// hard are numbers that the float64 evaluation leaves open in float32. Of all numbers
// from 2^-60 up, the four functions have 21, 14, 24 and 2. SiLU(2^-23) is a tie but
// for x^4/48.
var hard = map[Func][]float64{
	GELU: {0x1.5be652p-07, 0x1.92798cp-03, 0x1.c16d0ep-03, 0x1.5b4488p-02, -0x1.5be652p-07, -0x1.92798cp-03,
		-0x1.1ce0c4p-02, -0x1.24b10ap+02, -0x1.79da74p+03},
	GELUTanh: {-0x1.dfd60cp-07, -0x1.ee670ap+01, -0x1.4207dep+02, -0x1.a6a838p+02, -0x1.aa4716p+02, -0x1.c36778p+02,
		-0x1.36b398p+03},
	SiLU: {0x1p-23},
	Tanh: {0x1.86fbc4p-10, -0x1.86fbc4p-10},
}

// TestSettleAllocates: rows of numbers that float64 leaves open are settled without
// memory, and right.
func TestSettleAllocates(t *testing.T) {
	for f, xs := range hard {
		var src, dst [64]float32
		for i := range src {
			src[i] = float32(xs[i%len(xs)])
		}
		for _, x := range xs {
			if _, ok := fp16.Float32.Decide(functions[f].eval(x)); ok {
				t.Errorf("%v(%x) is not open", f, x)
			}
		}
		r, w := NewRows(f, fp16.Float32), NewSpace(8)
		if a := testing.AllocsPerRun(5, func() { r.Apply(dst[:], src[:], w) }); a != 0 {
			t.Errorf("%v: %v allocations for 64 numbers", f, a)
		}
		for _, j := range judges {
			for i, x := range src {
				if want := float32(0); j.f == f {
					if want = float32(j.slow(float64(x), fp16.Float32)); dst[i] != want {
						t.Errorf("%v(%x) is %x, want %x", f, x, dst[i], want)
					}
				}
			}
		}
	}
}

var every = flag.Uint64("every", 4093, "distance of the float32 bit patterns in TestEveryAllocates")

// TestEveryAllocates: no number takes memory, of all of the 16-bit formats and of
// some float32 numbers, all with -every 1, the hard ones among them.
func TestEveryAllocates(t *testing.T) {
	for f := range functions {
		for _, format := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			var src, dst [4096]float32
			r, w := NewRows(Func(f), format), NewSpace(len(src)/8)
			n := 0
			put := func(x float32) {
				src[n%len(src)] = x
				if n++; n%len(src) == 0 {
					r.Apply(dst[:], src[:], w)
				}
			}
			halves := grid(fp16.Float16)
			all := func() {
				switch format {
				case fp16.Float32:
					for b := uint64(0); b < 1<<32; b += *every {
						put(math.Float32frombits(uint32(b)))
					}
					for _, x := range hard[Func(f)] {
						put(float32(x))
					}
				case fp16.BFloat16:
					for b := range uint32(1 << 16) {
						put(math.Float32frombits(b << 16))
					}
				default:
					for _, x := range halves {
						put(float32(x))
					}
				}
				for n%len(src) != 0 {
					put(0)
				}
			}
			a := testing.AllocsPerRun(1, all)
			if a == 1 { // a collection beside it may have taken that one
				a = testing.AllocsPerRun(1, all)
			}
			if a != 0 {
				t.Errorf("%v in %v: %v allocations", Func(f), format, a)
			}
		}
	}
}
