package pointwise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// judgeGLU is a sigmoid(b) for numbers that are not 0, as a e^b/(e^b + 1) of big numbers; where
// float64's is sure, that.
func judgeGLU(a, b float64, f fp16.Format) float64 {
	if y, ok := bigref.Near(a/(1+math.Exp(-b)), 0x1p-36, f); ok {
		return y
	}
	switch {
	case b < -600: // beside any float32 number a
		return math.Copysign(0, a)
	case b > 600:
		v := bigref.Rat(a)
		return bigref.Round(v.Mul(v, new(big.Rat).Sub(big.NewRat(1, 1), new(big.Rat).SetFloat64(0x1p-800))), f)
	}
	return bigref.Nearest(f, func(prec uint) *big.Float {
		e := bigref.Exp(new(big.Float).SetPrec(prec+80).SetFloat64(b), prec+70)
		d := new(big.Float).SetPrec(prec+60).Add(e, big.NewFloat(1))
		return e.Mul(e, new(big.Float).SetFloat64(a)).Quo(e, d)
	})
}

func TestGLU(t *testing.T) {
	r, o := rand.New(rand.NewPCG(21, 1)), hashed.New(t, *elements)
	n, wrong := 0, 0
	for round := 0; n < *elements; round++ {
		src := []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[round%4]
		a, b := pairs(r, min(*elements, 1<<14)/16, src)
		for i := range b {
			if i%2 == 0 {
				b[i] = src.Round(8 * r.NormFloat64())
			}
		}
		x := tensor.Of(src, append(append([]float64{}, a...), b...), 2*len(a))
		for _, dst := range short {
			y := tensor.New(dst, len(a))
			GLU(y, x, 0)
			o.Add("glu", y.Data...)
			for i, got := range y.Data {
				if a[i] == 0 || b[i] == 0 {
					continue
				}
				if n++; !o.Judge {
					continue
				}
				want := judgeGLU(a[i], b[i], dst)
				if math.Float64bits(got) != math.Float64bits(want) {
					if wrong++; wrong < 5 {
						t.Errorf("%x sigmoid(%x), %v to %v: got %x, want %x", a[i], b[i], src, dst, got, want)
					}
				}
				if i%8 == 0 && n < 5000 {
					y, bound := gate(a[i], b[i])
					nearest := judgeGLU(a[i], b[i], fp16.Float64)
					if !(math.Abs(y-nearest) <= bound+0x1p-53*math.Abs(nearest)) {
						t.Fatalf("%x sigmoid(%x) = %x, bound %x, exact %x", a[i], b[i], y, bound, nearest)
					}
					if odd := dst.Round(exact.Gate(a[i], b[i])); math.Float64bits(odd) != math.Float64bits(want) {
						t.Fatalf("%x sigmoid(%x) in %v: settled as %x, want %x", a[i], b[i], dst, odd, want)
					}
				}
			}
		}
	}
	t.Logf("glu        %8d elements, %d wrong", n, wrong)
}

// The halves of any axis, and the bound in float64.
func TestGLUShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	for _, c := range []struct {
		shape []int
		axis  int
	}{{[]int{4}, 0}, {[]int{2, 6, 3}, 1}, {[]int{3, 5, 8}, 2}, {[]int{2, 3}, 0}, {[]int{0, 4}, 1}, {[]int{3, 0}, 1},
		{[]int{3, 2 * chunk}, 1}} {
		x := tensor.New(fp16.Float64, c.shape...)
		for i := range x.Data {
			x.Data[i] = 3 * r.NormFloat64()
		}
		half := append([]int{}, c.shape...)
		half[c.axis] /= 2
		y := tensor.New(fp16.Float64, half...)
		GLU(y, x, c.axis)
		inner := 1
		for _, d := range c.shape[c.axis+1:] {
			inner *= d
		}
		for i, got := range y.Data {
			block, in := i/(half[c.axis]*inner), i%(half[c.axis]*inner)
			at := 2*block*half[c.axis]*inner + in
			a, b := x.Data[at], x.Data[at+half[c.axis]*inner]
			if want := judgeGLU(a, b, fp16.Float64); math.Abs(got-want) > 5.2*0x1p-53*math.Abs(want) {
				t.Fatalf("%v, axis %d, element %d: %g sigmoid(%g) = %g, want %g", c.shape, c.axis, i, a, b, got, want)
			}
		}
	}
	for _, call := range []func(){
		func() { GLU(tensor.New(fp16.Float32, 1), tensor.New(fp16.Float32, 3), 0) },
		func() { GLU(tensor.New(fp16.Float32, 2), tensor.New(fp16.Float32, 4), 1) },
		func() { GLU(tensor.New(fp16.Float32, 2), tensor.New(fp16.Float64, 4), 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("misuse does not panic")
				}
			}()
			call()
		}()
	}
}

func TestGLUSpecials(t *testing.T) {
	for _, c := range [][3]float64{{inf, -1000, inf}, {-inf, 3, -inf}, {inf, inf, inf}, {inf, -inf, nan},
		{-3, -inf, negZero}, {-3, inf, -3}, {negZero, 5, negZero}, {0, -inf, 0}, {nan, 1, nan}, {1, nan, nan},
		{3, 0, 1.5}, {3, negZero, 1.5}, {-3, -1000, negZero}, {3, 1000, 3}, {0, nan, nan}} {
		for _, f := range append(short, fp16.Float64) {
			if got := gated.at(c[0], c[1], f); math.Float64bits(got) != math.Float64bits(f.Round(c[2])) {
				t.Errorf("%g sigmoid(%g) in %v = %g, want %g", c[0], c[1], f, got, c[2])
			}
		}
	}
}
