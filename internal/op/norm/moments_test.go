package norm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
)

// drift is x often, so that an accumulator goes far, and else a small number of
// many bits, so that it loses something.
func drift(r *rand.Rand, x, small float64) float64 {
	if r.IntN(8) > 0 {
		return x
	}
	return small * (1 + r.Float64())
}

// TestMoments: whatever way numbers are added, the statistics are the same, all
// of them exact.
func TestMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	largest := float64(math.MaxFloat32)
	ulp := 0x1p-23
	for name, x := range map[string]func(i int) float64{
		"normal":        func(int) float64 { return r.NormFloat64() },
		"mean far off":  func(int) float64 { return 1e6 + r.NormFloat64() },
		"constant":      func(int) float64 { return 1.1 },
		"zeros":         func(i int) float64 { return math.Copysign(0, float64(i&1)-0.5) },
		"largest":       func(int) float64 { return largest },
		"signs":         func(i int) float64 { return math.Copysign(largest, float64(i&1)-0.5) },
		"subnormal":     func(int) float64 { return 0x1p-149 * float64(r.IntN(64)-32) },
		"just inside":   func(i int) float64 { return []float64{2 - ulp, 0x1p-37 * (1 + ulp), 0, -1}[i&3] },
		"just outside":  func(i int) float64 { return []float64{2 - ulp, 0x1p-38 * (1 + ulp), 0, -1}[i&3] },
		"far outside":   func(i int) float64 { return []float64{1, -1, 0x1p-80, 0}[i&3] },
		"wide":          func(int) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(200)-120) },
		"lost each":     func(i int) float64 { return []float64{2 - ulp, 0x1p-30 * (2 - ulp)}[i&1] },
		"drift":         func(int) float64 { return drift(r, 2-ulp, 0x1p-30) },
		"drift down":    func(int) float64 { return drift(r, ulp-2, 0x1p-30) },
		"squares lose":  func(int) float64 { return drift(r, 1+11*ulp, 0x1p-12) }, // 121/256 of the first ulp
		"squares gain":  func(int) float64 { return drift(r, 1+13*ulp, 0x1p-12) }, // -87/256
		"one off":       func(i int) float64 { return 1 + ulp*float64(max(0, 1-i)) },
		"inf":           func(i int) float64 { return []float64{1, math.Inf(1)}[i%700/699] },
		"inf and inf":   func(i int) float64 { return []float64{1, math.Inf(1), math.Inf(-1)}[i%3] },
		"nan":           func(i int) float64 { return []float64{1, math.NaN()}[i%9/8] },
		"positive":      func(int) float64 { return r.ExpFloat64() },
		"few and large": func(i int) float64 { return []float64{0x1p127, 0x1p100, 0x1p95}[i%3] },
	} {
		for _, n := range []int{1, 7, 8, 9, 63, 64, 70, 500, block - 1, block, block + 8, 2*block + 3} {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = float64(float32(x(i)))
			}
			var want, got exact.Moments
			want.Add(xs)
			new(space).addMoments(&got, xs)
			// Their exact parts included, NaNs as one.
			a, b := want.Standard(1e-5), got.Standard(1e-5)
			for _, s := range []*exact.Standard{a, b} {
				if s.V != s.V {
					s.V = 0
				}
				if s.MuHi != s.MuHi {
					s.MuHi = 0
				}
			}
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s, %d numbers: %+v, want %+v", name, n, b, a)
			}
		}
	}
}

// TestBlockRefuses: a block is added by kernels as far down as add says.
func TestBlockRefuses(t *testing.T) {
	k := asm.NormKernels()
	if k == nil {
		if asm.ISA() != "purego" {
			t.Fatal("no kernels")
		}
		return
	}
	w := new(space)
	for at := range 16 {
		for _, c := range []struct {
			least float64
			want  bool
		}{{0, true}, {0x1p-37, true}, {0x1p-37 * (1 + 0x1p-23), true}, {0x1p-60, true}, {0x1p-61, false},
			{-0x1p-38 * (1 + 0x1p-23), false}, {math.Inf(1), false}, {math.NaN(), false}} {
			xs := make([]float64, 16)
			for i := range xs {
				xs[i] = 1.5
			}
			xs[at] = c.least
			if got := w.add(k, new(exact.Moments), xs); got != c.want {
				t.Errorf("1.5 and %x at %d: %v, want %v", c.least, at, got, c.want)
			}
		}
	}
}

// TestInterval holds the kernels' w to what applyBlocks says it covers.
func TestInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	rat := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	times := func(x float64, e int) *big.Rat { return rat(math.Ldexp(x, e)) }
	for range 20000 {
		d := math.Ldexp(1+r.Float64(), r.IntN(40)-20)
		y := math.Ldexp(1+r.Float64(), r.IntN(40)-20)
		w := math.FMA(d, ofT, float64(y*ofY))
		need := times(d, -50)
		need.Add(need, times(y, -53))
		need.Add(need, times(y, -53))
		need.Add(need, times(w, -53))
		if rat(w).Cmp(need) <= 0 {
			t.Fatalf("t %x, y %x: w %x is too small", d, y, w)
		}
		if new(big.Rat).Mul(rat(w), big.NewRat(99999, 100000)).Cmp(need) > 0 {
			t.Fatalf("t %x, y %x: w %x is far too large", d, y, w)
		}
	}
}
