package spectral

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// TestMultiply: both parts of every product are those of fractions, rounded once, for
// shapes that spread.
func TestMultiply(t *testing.T) {
	r, o := rand.New(rand.NewPCG(11, 12)), hashed.New(t, *elements)
	for i, done := 0, 0; done < *elements; i++ {
		m := makers[i%len(makers)]
		shape := []int{1 + r.IntN(6), 1 + r.IntN(5), 1 + r.IntN(7)}
		of := func() *tensor.Tensor {
			s := append([]int(nil), shape...)
			for a := range s {
				if r.IntN(3) == 0 {
					s[a] = 1
				}
			}
			x := tensor.New(formats[r.IntN(len(formats))], append(s[r.IntN(3):], 2)...)
			for k := range x.Data {
				if x.Data[k] = x.Format.Round(m.make(r, k, len(x.Data))); math.IsInf(x.Data[k], 0) {
					x.Data[k] = 1
				}
				if k > 0 && r.IntN(4) == 0 { // so that products cancel, but for little
					x.Data[k] = x.Data[k-1]
				}
			}
			return x
		}
		a, b := of(), of()
		y := tensor.New(formats[r.IntN(len(formats))], append(shape, 2)...)
		Multiply(y, a, b)
		o.Add("complex_mul", y.Data...)
		if done += len(y.Data); !o.Judge {
			continue
		}
		at := func(x *tensor.Tensor, i, j, k int) (re, im float64) {
			place, step, rank := 0, 2, len(x.Shape)-1
			for n, v := range []int{k, j, i} {
				if n < rank {
					place += v % x.Shape[rank-1-n] * step
					step *= x.Shape[rank-1-n]
				}
			}
			return x.Data[place], x.Data[place+1]
		}
		for n := range len(y.Data) / 2 {
			i, j, k := n/shape[2]/shape[1], n/shape[2]%shape[1], n%shape[2]
			ar, ai := at(a, i, j, k)
			br, bi := at(b, i, j, k)
			for p, v := range [][4]float64{{ar, br, -ai, bi}, {ar, bi, ai, br}} {
				ball := bigref.Exactly(v[0]).Mul(bigref.Exactly(v[1])).Add(bigref.Exactly(v[2]).Mul(bigref.Exactly(v[3])))
				if got, want := y.Data[2*n+p], ball.Or(y.Format, func() float64 {
					mul := func(a, b float64) *big.Rat { return new(big.Rat).Mul(bigref.Rat(a), bigref.Rat(b)) }
					return bigref.Round(new(big.Rat).Add(mul(v[0], v[1]), mul(v[2], v[3])), y.Format)
				}); !equal(got, want) {
					t.Fatalf("trial %d, %s: %v times %v in %v: part %d of number %d is %v, want %v",
						i, m.name, a.Format, b.Format, y.Format, p, n, got, want)
				}
			}
		}
	}
}

// TestMultiplyTies: (1 + 2^-12)^2 is the middle of two float32 numbers, and what is added
// to it decides, however little.
func TestMultiplyTies(t *testing.T) {
	const c, least = 1 + 0x1p-12, 0x1p-70
	for _, k := range [][3]float64{
		{0, 1 + 0x1p-11, 1 + 0x1p-11},
		{least, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-23},
		{-least, 1 + 0x1p-11 + 0x1p-23, 1 + 0x1p-11},
	} {
		y := tensor.New(fp16.Float32, 2, 2)
		// (c + k i)(c + least i) has the real part c^2 - k least, (c + k i)(least + c i) the
		// imaginary part c^2 + k least.
		Multiply(y, tensor.Of(fp16.Float32, []float64{c, k[0], c, k[0]}, 2, 2),
			tensor.Of(fp16.Float32, []float64{c, least, least, c}, 2, 2))
		if y.Data[0] != k[1] || y.Data[3] != k[2] {
			t.Errorf("%v: %v and %v, want %v and %v", k[0], y.Data[0], y.Data[3], k[1], k[2])
		}
	}
}

// TestMultiplySpecials: what is not finite follows IEEE 754, float64 its operations.
func TestMultiplySpecials(t *testing.T) {
	inf, nan := math.Inf(1), fp16.NaN
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.BFloat16} {
		for _, c := range [][6]float64{
			{inf, 1, 1, 1, inf, inf}, {inf, 0, 1, 0, inf, nan}, {nan, 1, 1, 1, nan, nan}, {1, inf, 1, 1, -inf, inf},
			{0, 0, math.Copysign(0, -1), 1, 0, 0}, {math.Copysign(0, -1), 0, 1, 1, 0, 0}, {1, 1, 1, 1, 0, 2},
		} {
			x := tensor.Of(f, c[:2], 2)
			Multiply(x, tensor.Of(f, c[:2:2], 2), tensor.Of(f, c[2:4:4], 2))
			if !equal(x.Data[0], c[4]) || !equal(x.Data[1], c[5]) {
				t.Errorf("(%v + %vi)(%v + %vi) in %v is %v, want %v", c[0], c[1], c[2], c[3], f, x.Data, c[4:])
			}
		}
	}
	a, b, y := tensor.New(fp16.Float64, 2), tensor.New(fp16.Float64, 2), tensor.New(fp16.Float64, 2)
	copy(a.Data, []float64{math.Pi, 1.7})
	copy(b.Data, []float64{math.E, -0.3})
	Multiply(y, a, b)
	if re, im := float64(math.Pi*b.Data[0])-float64(1.7*b.Data[1]),
		float64(math.Pi*b.Data[1])+float64(1.7*b.Data[0]); y.Data[0] != re || y.Data[1] != im {
		t.Errorf("float64: %v, want %v and %v", y.Data, re, im)
	}
	for want, f := range map[string]func(){
		"spectral: destination without a last axis of 2": func() {
			Multiply(tensor.New(fp16.Float64, 3), a, b)
		},
		"spectral: source without a last axis of 2, or with more axes than the destination": func() {
			Multiply(y, tensor.New(fp16.Float64, 2, 2), b)
		},
		"spectral: shapes that do not spread to the destination's": func() {
			Multiply(tensor.New(fp16.Float64, 3, 2), tensor.New(fp16.Float64, 2, 2), b)
		},
		"spectral: a float64 source needs a float64 destination": func() {
			Multiply(tensor.New(fp16.Float32, 2), a, b)
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != want {
					t.Errorf("panic %v, want %q", r, want)
				}
			}()
			f()
		}()
	}
}
