package reduce

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

var fastStep = flag.Uint("reduce.fast", 10007, "TestFastExp looks at every so many-th number")

// TestFastExp: within 1.1 ulp of the exponential from -87 to 0, in one piece with the judge.
func TestFastExp(t *testing.T) {
	worst := 0.0
	for b := uint32(0); b < math.Float32bits(87); b += uint32(*fastStep) {
		z := -math.Float32frombits(b)
		want, _ := bigref.Exp(new(big.Float).SetPrec(100).SetFloat64(float64(z)), 100).Float64()
		worst = max(worst, math.Abs(float64(FastExp(z))/want-1))
	}
	t.Logf("%.3f * 2^-23", worst*0x1p23)
	if worst > 1.1*0x1p-23 {
		t.Errorf("off by %.3f * 2^-23 of itself", worst*0x1p23)
	}
	for _, c := range [][2]float32{
		{0, 1},
		{float32(math.Copysign(0, -1)), 1},
		{float32(math.Nextafter32(-87, -88)), 0},
		{float32(math.Inf(-1)), 0},
	} {
		if got := FastExp(c[0]); got != c[1] {
			t.Errorf("FastExp(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	if got := FastExp(float32(math.NaN())); got == got {
		t.Errorf("FastExp(NaN) = %v", got)
	}
}

// fastSoftmax is docs/NUMERICS.md, section 13.
func fastSoftmax(x []float32) []float32 {
	nan := func() []float32 {
		y := make([]float32, len(x))
		for i := range y {
			y[i] = math.Float32frombits(0x7fc00000)
		}
		return y
	}
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v != v {
			return nan()
		}
		m = max(m, v)
	}
	if math.IsInf(float64(m), 0) {
		return nan()
	}
	y := make([]float32, len(x))
	var total float32
	for at := 0; at < len(x); at += 2048 {
		var s [16]float32
		for i, v := range x[at:min(at+2048, len(x))] {
			y[at+i] = FastExp(v - m)
			s[i%16] += y[at+i]
		}
		var two [8]float32
		for j := range two {
			two[j] = s[j] + s[j+8]
		}
		total += ((two[0] + two[4]) + (two[2] + two[6])) + ((two[1] + two[5]) + (two[3] + two[7]))
	}
	by := 1 / total
	for i := range y {
		y[i] *= by
	}
	return y
}

// TestFastSoftmax: every instruction set has the definition's bits, for lines of all lengths and
// with specials, as float32 numbers and as tensors.
func TestFastSoftmax(t *testing.T) {
	defer asm.Use(asm.ISA())
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{1, 2, 7, 15, 16, 17, 64, 197, 2047, 2048, 2049, 5000} {
			for trial := range 8 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64() * []float64{1, 30, 1e-3, 1e4}[trial%4])
				}
				switch k := r.IntN(n); trial {
				case 4:
					x[k] = -inf
				case 5:
					x[k] = nan
				case 6:
					x[k] = inf
				case 7:
					for i := range x {
						x[i] = -inf
					}
				}
				want, y := fastSoftmax(x), make([]float32, n)
				FastSoftmax(y, x, n)
				in, out := tensor.New(fp16.Float32, 1, n), tensor.New(fp16.Float32, 1, n)
				for i, v := range x {
					in.Data[i] = float64(v)
				}
				ForwardFastSoftmax(out, in)
				for i, w := range want {
					if math.Float32bits(y[i]) != math.Float32bits(w) {
						t.Fatalf("%s, %d numbers, trial %d: share %d is %x, want %x",
							isa, n, trial, i, math.Float32bits(y[i]), math.Float32bits(w))
					}
					wide := float64(w)
					if w != w {
						wide = fp16.NaN
					}
					if math.Float64bits(out.Data[i]) != math.Float64bits(wide) {
						t.Fatalf("%s, %d numbers, trial %d: share %d of a tensor is %v, want %v", isa, n, trial, i, out.Data[i], wide)
					}
				}
				FastSoftmax(x, x, n)
				for i := range x {
					if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s, %d numbers in place: share %d is %v, want %v", isa, n, i, x[i], want[i])
					}
				}
			}
		}
	}
}

// TestFastSoftmaxBound: shares are within what docs/NUMERICS.md says of the exact ones.
func TestFastSoftmaxBound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	for _, n := range []int{1, 3, 16, 200, 2000} {
		x, y := make([]float32, n), make([]float32, n)
		exact := tensor.New(fp16.Float64, n)
		for i := range x {
			x[i] = float32(3 * r.NormFloat64())
			exact.Data[i] = float64(x[i])
		}
		FastSoftmax(y, x, n)
		Softmax(exact, exact, 0)
		bound := (2.2 + (float64(n)/16+8)/2) * 0x1p-23
		for i, v := range y {
			off := math.Abs(float64(v)/exact.Data[i]-1) / bound
			worst = max(worst, off)
			if off > 1 {
				t.Errorf("%d numbers: share %d is %v, exactly %v", n, i, v, exact.Data[i])
			}
		}
	}
	t.Logf("the farthest is at %.2f of its bound", worst)
}
