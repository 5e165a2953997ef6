package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

func mustField(t *testing.T, n, c, h, w int, rho float64, scope Scope, z []float64) []float64 {
	t.Helper()
	field, err := correlated(n, c, h, w, rho, scope, new(script).then(ComplexNormal, z))
	if err != nil {
		t.Fatal(err)
	}
	return field
}

// wideLowpass returns exp(-k^2 (rho h)^2 / 2) at row a, column b.
func wideLowpass(a, b, h, w int, rho float64) *big.Float {
	square := func(i, n int) *big.Float {
		k := wideOf(float64(min(i, n-i))) // cycles per image, without its sign
		k.Quo(k, wideOf(float64(n)))
		return k.Mul(k, k)
	}
	l := new(big.Float).Mul(wideOf(rho), wideOf(float64(h)))
	e := new(big.Float).Add(square(a, h), square(b, w))
	e.Mul(e, l.Mul(l, l)).Quo(e, wideOf(-2))
	return bigref.Exp(e, wide)
}

// The field against 128-bit arithmetic: the exact field lies within a bound of
// the one computed in float64, and wherever that decides the rounding to
// float32, which is nearly everywhere, the bits are prescribed.
func TestFieldAgainstDefinition(t *testing.T) {
	const u = 0x1p-53
	rng := rand.New(rand.NewPCG(17, 18))
	decided, total := 0, 0
	for _, c := range []struct {
		n, c, h, w int
		rho        float64
	}{
		{2, 2, 5, 6, 0.15}, {1, 3, 8, 8, 0.4}, {2, 2, 12, 3, 0.1}, {3, 1, 4, 14, 0.25},
		{2, 1, 1, 9, 2}, {1, 2, 7, 1, 0.3}, {1, 3, 1, 1, 0.5}, {2, 1, 6, 6, 5e-324},
	} {
		hw := c.h * c.w
		z := normals(rng, 2*c.n*c.c*hw)
		exact := make([]*big.Float, 0, c.n*c.c*hw)
		for p := range c.n * c.c {
			spectrum := make([]wideComplex, hw)
			for i := range spectrum {
				g := wideLowpass(i/c.w, i%c.w, c.h, c.w, c.rho)
				spectrum[i] = wideComplex{wideOf(z[2*(p*hw+i)]), wideOf(z[2*(p*hw+i)+1])}
				spectrum[i].re.Mul(spectrum[i].re, g)
				spectrum[i].im.Mul(spectrum[i].im, g)
			}
			for _, v := range wideInverse2(spectrum, c.h, c.w) {
				exact = append(exact, v.re)
			}
		}
		// Relative to the norm of the spectrum, and so of the complex field:
		// the exponent a takes 8 operations and is at most A where both
		// frequencies are 1/2; the exponential, the product and the transform
		// follow.
		a := 0.25 * math.Pow(c.rho*float64(c.h), 2)
		relative := fftBound(c.h) + fftBound(c.w) + (8*a+elem.ExpErr+2)*u
		for _, scope := range []Scope{PerRealization, WholeBatch} {
			field := mustField(t, c.n, c.c, c.h, c.w, c.rho, scope, z)
			group := c.c * hw
			if scope == WholeBatch {
				group = len(field)
			}
			for first := 0; first < len(field); first += group {
				part := exact[first : first+group]
				mean, squares := wideOf(0), wideOf(0)
				for _, v := range part {
					mean.Add(mean, v)
				}
				mean.Quo(mean, wideOf(float64(group)))
				for _, v := range part {
					e := new(big.Float).Sub(v, mean)
					squares.Add(squares, e.Mul(e, e))
				}
				std := squares.Quo(squares, wideOf(float64(group-1)))
				std.Sqrt(std)
				deviation, _ := std.Float64()
				scale := new(big.Float).Add(std, new(big.Float).SetPrec(wide).SetRat(big.NewRat(1, 1e8)))
				// The norm of the complex field, from its spectrum.
				norm := 0.0
				for i := first; i < first+group; i++ {
					g, _ := wideLowpass(i%hw/c.w, i%c.w, c.h, c.w, c.rho).Float64()
					norm += g * g * (z[2*i]*z[2*i] + z[2*i+1]*z[2*i+1]) / float64(hw)
				}
				norm = math.Sqrt(norm)
				// The error of a number is at most that of the norm; so is, over
				// sqrt(group-1), that of std. Sums over the group add 2 group u.
				slip := norm * relative / deviation
				for i, v := range part {
					want, _ := new(big.Float).Quo(v, scale).Float64()
					bound := slip + math.Abs(want)*(slip/math.Sqrt(float64(group-1))+float64(2*group+8)*u*(1+norm/deviation))
					total++
					if v, ok := fp16.Float32.Decide(want, bound); ok {
						decided++
						if got := field[first+i]; got != v {
							t.Fatalf("%+v, scope %v: element %d is %x, want %x (%x +- %.2g)", c, scope, first+i, got, v, want, bound)
						}
					} else if d := math.Abs(field[first+i] - want); d > bound+fp16.Float32.Ulp(want) {
						t.Fatalf("%+v, scope %v: element %d is %v, want %v", c, scope, first+i, field[first+i], want)
					}
				}
			}
		}
	}
	if decided*100 < total*99 {
		t.Errorf("only %d of %d roundings were decided", decided, total)
	}
}

func TestFieldSpecials(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	// A single number has no unbiased deviation.
	if v := mustField(t, 1, 1, 1, 1, 0.1, WholeBatch, []float64{1, 2}); !math.IsNaN(v[0]) {
		t.Errorf("field of one number: %v, want NaN", v)
	}
	// Two realizations of one number: per realization NaN, as a batch +-1/sqrt 2.
	z := []float64{3, 9, 5, 9}
	for _, v := range mustField(t, 2, 1, 1, 1, 0.1, PerRealization, z) {
		if !math.IsNaN(v) {
			t.Errorf("realization of one number: %v, want NaN", v)
		}
	}
	root := math.Sqrt(2)
	sameBits(t, "two numbers", mustField(t, 2, 1, 1, 1, 0.1, WholeBatch, z),
		[]float64{float64(float32(3 / (root + 1e-8))), float64(float32(5 / (root + 1e-8)))})
	// No variation at all: division by 1e-8.
	flat := make([]float64, 2*16)
	sameBits(t, "zeros", mustField(t, 1, 1, 4, 4, 0.1, PerRealization, flat), make([]float64, 16))
	flat[0] = 32
	want := make([]float64, 16)
	for i := range want {
		want[i] = float64(float32(2 / 1e-8))
	}
	sameBits(t, "constant", mustField(t, 1, 1, 4, 4, 0.1, PerRealization, flat), want)
	// A correlation length beyond all sizes leaves the mean of each plane,
	// also where its square is not finite.
	for _, rho := range []float64{1e4, 1e200, math.MaxFloat64} {
		z := normals(rng, 2*3*30)
		field := mustField(t, 1, 3, 5, 6, rho, PerRealization, z)
		for i, v := range field {
			if !(math.Abs(v) > 0 && math.Abs(v) < 100) || v != field[i/30*30] {
				t.Fatalf("rho = %v: element %d is %v, want that of its plane, %v", rho, i, v, field[i/30*30])
			}
		}
	}
	if v := mustField(t, 0, 3, 5, 6, 0.1, WholeBatch, nil); len(v) != 0 {
		t.Errorf("empty field: %v", v)
	}
	if v := mustField(t, 2, 3, 0, 6, 0.1, PerRealization, nil); len(v) != 0 {
		t.Errorf("empty field: %v", v)
	}
}

// Every mode uses the field's float32 numbers.
func TestFieldIsFloat32InEveryMode(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	const n, c, h, w = 2, 2, 4, 5
	z, x := normals(rng, 2*n*c*h*w), normals(rng, n*c*h*w)
	field := mustField(t, n, c, h, w, 0.2, PerRealization, z)
	for i, v := range field {
		if !fp16.Float32.Holds(v) {
			t.Fatalf("element %d is %x, no float32 number", i, v)
		}
	}
	s := float64(float32(0.1))
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.BFloat16} {
		src := tensor.Of(f, make([]float64, len(x)), n, c, h, w)
		for i := range x {
			src.Data[i] = f.Round(x[i])
		}
		b := Block{Scale: 0.1, Correlation: 0.2}
		dst := tensor.New(b.Format(f), n, c, h, w)
		apply(t, b, dst, src, Time{}, new(script).then(ComplexNormal, z))
		want := make([]float64, len(x))
		for i := range want {
			want[i] = dst.Format.Round(src.Data[i] + dst.Format.Round(field[i]*s))
		}
		sameBits(t, f.String(), dst.Data, want)
	}
}

func BenchmarkField(b *testing.B) {
	const n, c, h, w = 1, 16, 64, 64
	z := normals(rand.New(rand.NewPCG(23, 24)), 2*n*c*h*w)
	b.SetBytes(8 * n * c * h * w)
	for b.Loop() {
		if _, err := correlated(n, c, h, w, 0.1, PerRealization, new(script).then(ComplexNormal, z)); err != nil {
			b.Fatal(err)
		}
	}
}
